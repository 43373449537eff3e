"""A secured cluster at work: no secret is in a log, a description, a metric, a page or an error."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from minikafka.client import Admin, ClientConfig, OAuthToken, Producer, ProducerConfig
from minikafka.core.security.sasl.oauthbearer import unsecured_token
from minikafka.core.security.sasl.plain import PlainClient
from minikafka.core.security.scram_credentials import SCRAM_SHA_512, salted_password
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import LoggerLevels, set_logger_levels
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from minikafka.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from minikafka.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from minikafka.testing.simulator.cluster import PORT, LogEvent, SimCluster, host_name
from tests.support.network.http_lab import PORT as DEBUG_PORT
from tests.support.network.http_lab import get
from tests.support.network.wire_end import WireEnd
from tests.support.security.certificates import Authority
from tests.support.security.sasl_connection import SaslConnection

SASL_PORT = 9093
JAAS = "org.apache.kafka.common.security"
IDENTITY = Authority().issue("broker", ())
KEY = IDENTITY.key_pem("hush-key").decode()
BROKER = 4  # BROKER in the ConfigResource types
PASSWORDS = {name: f"hush-of-{name}" for name in ("broker", "alice", "bob")}
SETTINGS = {
    "listeners": f"PLAINTEXT://:{PORT},CLIENT://:{SASL_PORT}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_SSL",
    "inter.broker.listener.name": "CLIENT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.client.plain.sasl.jaas.config": (
        f'{JAAS}.plain.PlainLoginModule required username="broker" '
        f'password="{PASSWORDS["broker"]}" user_broker="{PASSWORDS["broker"]}" '
        f'user_alice="{PASSWORDS["alice"]}";'
    ),
    "listener.name.client.scram-sha-512.sasl.jaas.config": (
        f"{JAAS}.scram.ScramLoginModule required;"
    ),
    "listener.name.client.oauthbearer.sasl.jaas.config": (
        f"{JAAS}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=broker;"
    ),
    "listener.name.client.connections.max.reauth.ms": "3000",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": KEY,
    "ssl.keystore.certificate.chain": IDENTITY.chain_pem.decode(),
    "ssl.key.password": "hush-key",
    "ssl.truststore.certificates": IDENTITY.authority_pem.decode(),
    "debug.listener": f"HTTP://127.0.0.1:{DEBUG_PORT}",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:broker;User:ANONYMOUS;User:alice",
}
ALICE = ClientConfig(
    bootstrap_servers=f"{host_name(1)}:{SASL_PORT}",
    security_protocol="SASL_SSL",
    ssl_truststore_certificates=IDENTITY.authority_pem.decode(),
    sasl_mechanism="PLAIN",
    sasl_username="alice",
    sasl_password=PASSWORDS["alice"],
    default_api_timeout_ms=10_000,
)
BOB = replace(
    ALICE, sasl_mechanism="SCRAM-SHA-512", sasl_username="bob", sasl_password=PASSWORDS["bob"]
)


class Scene:
    """The cluster, and all texts that anybody can see."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.world = cluster.client_host.world
        self.seen: list[str] = []
        self.tokens: list[str] = []
        cluster.observers.append(self._note)

    def _note(self, event: LogEvent) -> None:
        self.seen.append(f"{event.name} {event.facts!r}")

    async def up(self) -> None:
        self.cluster.start()
        await self.cluster.until("up", lambda: len(self.cluster.nodes()) == 3)
        await self.cluster.until("led", lambda: self.cluster.controller_id() is not None)

    async def request(self, broker_id: int, message: Any, version: int) -> Any:
        channel = await Channel.open(
            self.world.network, self.world.clock, host_name(broker_id), PORT, "t", ChannelConfig()
        )
        try:
            response = await channel.request(message, version, 10_000)
        finally:
            channel.close()
        self.seen.append(repr(response))
        return response

    async def add_bob(self) -> None:
        controller = self.cluster.controller_id()
        assert controller is not None
        salted = salted_password(SCRAM_SHA_512, PASSWORDS["bob"], b"salt", 4096)
        row = ScramCredentialUpsertion("bob", 2, 4096, b"salt", salted)
        self.tokens.append(salted.hex())
        done = await self.request(controller, AlterUserScramCredentialsRequest([], [row]), 0)
        assert [each.error_code for each in done.results] == [0]

    async def provide(self) -> OAuthToken:
        now_ms = self.world.clock.wall_ms()
        token = unsecured_token({"unsecuredLoginStringClaim_sub": "alice"}, now_ms)
        assert token is not None
        self.tokens.append(token)
        return OAuthToken(token, now_ms + 3_600_000)

    async def produce(self, config: ClientConfig) -> None:
        """Produce through the end of a session, or note why not."""
        try:
            async with Producer(self.world, config, ProducerConfig(acks=-1)) as producer:
                for _ in range(6):
                    await producer.send_and_wait("t", b"x")
                    await self.world.clock.sleep(1_000)
        except KafkaError as error:
            self.seen += [str(error), repr(error), repr(error.__cause__)]
            raise
        finally:
            self.seen.append(repr(config))

    async def describe(self) -> None:
        for broker_id in self.cluster.broker_ids:
            resource = DescribeConfigsResource(BROKER, str(broker_id), None)
            message = DescribeConfigsRequest([resource], True, True)
            response = await self.request(broker_id, message, 4)
            (row,) = response.results
            values = {entry.name: entry for entry in row.configs}
            for name in ("listener.name.client.plain.sasl.jaas.config", "ssl.keystore.key"):
                assert values[name].is_sensitive
                assert values[name].value is None

    async def alter(self) -> None:
        """Give a broker another key at run time; whether it takes it, it shows it to nobody."""
        name = "listener.name.client.ssl.keystore.key"
        rows = [
            IncrementalAlterableConfig(name, 0, KEY),
            IncrementalAlterableConfig("no.such.password", 0, "hush-x"),
        ]
        for row in rows:
            resource = IncrementalAlterConfigsResource(BROKER, "1", [row])
            await self.request(1, IncrementalAlterConfigsRequest([resource], False), 1)

    async def look_at_pages(self) -> None:
        pages = ("scrubber", "controller", "controller-context", "groups", "purgatories", "tasks")
        for broker_id in self.cluster.broker_ids:
            network = self.cluster.host(broker_id).world.network
            for page in (*pages, "metrics", "no-such-page"):
                _, end = await network.connect(
                    lambda: WireEnd(half_open=True), "127.0.0.1", DEBUG_PORT
                )
                assert isinstance(end, WireEnd)
                end.transport.write(get(f"/{page}.json", "Connection: close"))
                await end.eof.wait()
                end.transport.close()
                assert len(end.seen) > 50
                self.seen.append(bytes(end.seen).decode())
            self.seen.append(json.dumps(self.cluster.nodes()[broker_id].metrics.snapshot()))


@pytest.mark.mission("SEC-155")
def test_no_secret_is_seen_while_a_secured_cluster_works() -> None:
    async def play(cluster: SimCluster) -> list[str]:
        scene = Scene(cluster)
        set_logger_levels(LoggerLevels("TRACE"))
        await scene.up()
        await scene.add_bob()
        async with Admin(scene.world, ALICE) as admin:
            await admin.create_topic("t", 1, 3)
            await admin.wait_for_topic("t", 1)
        await scene.produce(ALICE)
        with pytest.raises(KafkaError) as denied:
            await scene.produce(BOB)
        assert denied.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        tokens = replace(ALICE, sasl_mechanism="OAUTHBEARER", sasl_username=None)
        tokens = replace(tokens, sasl_password=None, sasl_oauth_token_provider=scene.provide)
        await scene.produce(tokens)
        for config in (ALICE, BOB):
            with pytest.raises(KafkaError) as refused:
                await scene.produce(replace(config, sasl_password="hush-wrong"))
            assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        raw = await SaslConnection.open(scene.world, host_name(2), PORT)
        with pytest.raises(KafkaError) as misplaced:  # at a listener without SASL
            await raw.log_in(PlainClient("alice", PASSWORDS["alice"]))
        scene.seen.append(str(misplaced.value))
        await scene.alter()
        await scene.describe()
        await scene.look_at_pages()
        assert len(cluster.state(TopicPartition("t", 0)).leader_and_isr.isr) == 3
        names = " ".join(line.split()[0] for line in scene.seen)
        assert "authentication_failed" in names
        assert "operation_denied" in names
        secrets = ["hush", *scene.tokens, *KEY.splitlines()[1:-1]]
        return [line for line in scene.seen for secret in secrets if secret in line]

    assert SimCluster(1, settings=SETTINGS).run(play) == []
