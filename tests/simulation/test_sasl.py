"""Logins at simulated brokers: SCRAM credentials in ZooKeeper, as every broker sees them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from minikafka.client import (
    Admin,
    ClientConfig,
    Consumer,
    ConsumerConfig,
    NewTopic,
    OAuthToken,
    Producer,
    ProducerConfig,
)
from minikafka.core.security.sasl.oauthbearer import unsecured_token
from minikafka.core.security.sasl.plain import PlainClient
from minikafka.core.security.scram_credentials import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    Mechanism,
    credential_text,
    salted_password,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.delegation_tokens import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from minikafka.testing.simulator import faults
from minikafka.testing.simulator.cluster import PORT, LogEvent, SimCluster, host_name
from tests.support.security.sasl_connection import Closed, SaslConnection, scram

SOCKETS = "kafka.server:type=socket-server-metrics,listener=CLIENT,networkProcessor=0"

SASL_PORT = 9093
JAAS = "org.apache.kafka.common.security"
SETTINGS = {
    "listeners": f"PLAINTEXT://:{PORT},CLIENT://:{SASL_PORT}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.client.plain.sasl.jaas.config": (
        f'{JAAS}.plain.PlainLoginModule required user_alice="secret";'
    ),
    "listener.name.client.scram-sha-256.sasl.jaas.config": (
        f"{JAAS}.scram.ScramLoginModule required;"
    ),
    "listener.name.client.scram-sha-512.sasl.jaas.config": (
        f"{JAAS}.scram.ScramLoginModule required;"
    ),
    "listener.name.client.plain.connections.max.reauth.ms": "3000",
}
METADATA = MetadataRequest(topics=[])


async def up(cluster: SimCluster) -> None:
    cluster.start()
    await cluster.until("up", lambda: len(cluster.nodes()) == len(cluster.broker_ids))
    await cluster.until("a controller", lambda: cluster.controller_id() is not None)


async def connect(cluster: SimCluster, broker_id: int) -> SaslConnection:
    return await SaslConnection.open(cluster.client_host.world, host_name(broker_id), SASL_PORT)


async def refusal(
    cluster: SimCluster, broker_id: int, mechanism: Mechanism, user: str, password: str
) -> str | None:
    """The message with which a broker refuses a login with SCRAM; None if it logs in."""
    connection = await connect(cluster, broker_id)
    found: KafkaError | None = None
    try:
        await connection.log_in(scram(cluster.client_host.world, mechanism, user, password))
    except KafkaError as error:
        found = error
    connection.close()
    if found is None:
        return None
    assert found.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    return str(found.message)


async def alter(cluster: SimCluster, code: int, user: str, password: str | None) -> None:
    """Set a password of a user for one mechanism by its code, None to delete it."""
    controller = cluster.controller_id()
    assert controller is not None
    if password is None:
        message = AlterUserScramCredentialsRequest([ScramCredentialDeletion(user, code)], [])
    else:
        mechanism = {1: SCRAM_SHA_256, 2: SCRAM_SHA_512}[code]
        salted = salted_password(mechanism, password, b"salt", 4096)
        row = ScramCredentialUpsertion(user, code, 4096, b"salt", salted)
        message = AlterUserScramCredentialsRequest([], [row])
    world = cluster.client_host.world
    channel = await Channel.open(
        world.network, world.clock, host_name(controller), PORT, "tool", ChannelConfig()
    )
    response = await channel.request(message, 0, 10_000)
    channel.close()
    assert isinstance(response, AlterUserScramCredentialsResponse)
    assert [result.error_code for result in response.results] == [0]


async def until_refused(
    cluster: SimCluster, wanted: bool, mechanism: Mechanism, user: str, password: str
) -> None:
    """Wait until every broker refuses, or accepts, a login that begins now."""
    for broker_id in cluster.broker_ids:
        for _ in range(100):
            found = await refusal(cluster, broker_id, mechanism, user, password)
            if (found is not None) is wanted:
                break
            await cluster.client_host.world.clock.sleep(20)
        else:
            pytest.fail(f"broker {broker_id}: refused is not {wanted}: {found}")


STANDARD = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism "
)


@pytest.mark.mission("SEC-112", "SEC-113")
def test_a_credential_counts_on_every_broker_from_the_next_login_on() -> None:
    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        user = "a,b=c"
        await alter(cluster, 1, user, "one")
        await alter(cluster, 2, user, "two")
        await until_refused(cluster, False, SCRAM_SHA_256, user, "one")
        await until_refused(cluster, False, SCRAM_SHA_512, user, "two")
        wrong = await refusal(cluster, 1, SCRAM_SHA_256, user, "two")
        assert wrong == STANDARD + "SCRAM-SHA-256"
        assert await refusal(cluster, 1, SCRAM_SHA_256, "nobody", "two") == wrong
        connection = await connect(cluster, 2)
        world = cluster.client_host.world
        await connection.log_in(scram(world, SCRAM_SHA_256, user, "one"))
        await alter(cluster, 1, user, "new")
        await until_refused(cluster, True, SCRAM_SHA_256, user, "one")
        await until_refused(cluster, False, SCRAM_SHA_256, user, "new")
        await alter(cluster, 1, user, None)
        await until_refused(cluster, True, SCRAM_SHA_256, user, "new")
        await until_refused(cluster, False, SCRAM_SHA_512, user, "two")
        response = await connection.request(METADATA, 1)
        assert isinstance(response, MetadataResponse)
        assert len(response.brokers) == 3

    SimCluster(0, settings=SETTINGS).run(play)


@pytest.mark.mission("SEC-113")
def test_a_credential_that_changes_without_a_session_counts_in_the_next_one() -> None:
    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        await alter(cluster, 1, "bob", "one")
        await until_refused(cluster, False, SCRAM_SHA_256, "bob", "one")
        others = [i for i in cluster.broker_ids if i != cluster.controller_id()]
        away = cluster.spawn_client(faults.without_zookeeper(cluster, others[0], 20), "fault")
        await alter(cluster, 1, "bob", "two")
        await cluster.client_host.world.clock.sleep(10_000)
        assert await refusal(cluster, others[0], SCRAM_SHA_256, "bob", "one") is None
        await away
        await until_refused(cluster, False, SCRAM_SHA_256, "bob", "two")
        await until_refused(cluster, True, SCRAM_SHA_256, "bob", "one")

    SimCluster(1, settings=SETTINGS).run(play)


@pytest.mark.mission("SEC-113")
def test_a_malformed_credential_concerns_its_user_only() -> None:
    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        await alter(cluster, 1, "bob", "one")
        session = await cluster.client_host.world.coordination.open(
            "zookeeper:2181", 30_000, 30_000
        )
        for name, data in (
            ("json", b"no json"),
            ("text", b'{"version":1,"config":{"SCRAM-SHA-256":"salt=%%%"}}'),
        ):
            await session.create(f"/config/users/{name}", data)
        await session.close()
        await cluster.stop(1)
        cluster.start(1)
        await cluster.until("up again", lambda: len(cluster.nodes()) == 3)
        assert await refusal(cluster, 1, SCRAM_SHA_256, "bob", "one") is None
        assert await refusal(cluster, 1, SCRAM_SHA_256, "json", "one") is not None
        assert await refusal(cluster, 1, SCRAM_SHA_256, "text", "one") is not None

    SimCluster(2, settings=SETTINGS).run(play)


@pytest.mark.mission("SEC-102")
@pytest.mark.mission("SEC-110")
@pytest.mark.mission("SEC-115")
@pytest.mark.mission("SEC-116")
def test_a_session_of_plain_on_a_broker() -> None:
    """Also: the versions that are listed before the login are those after it."""

    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        world = cluster.client_host.world
        endpoints = cluster.simulation.zookeeper.tree.get("/brokers/ids/1")[0].decode()
        assert f'"CLIENT://{host_name(1)}:{SASL_PORT}"' in endpoints
        assert '"CLIENT":"SASL_PLAINTEXT"' in endpoints
        before = await connect(cluster, 1)
        listed = await before.request(ApiVersionsRequest(), 0)
        with pytest.raises(Closed):
            await before.request(METADATA, 1)
        connection = await connect(cluster, 1)
        done = await connection.log_in(PlainClient("alice", "secret"))
        assert done.session_lifetime_ms == 3000
        assert await connection.request(ApiVersionsRequest(), 0) == listed
        tokens = await connection.request(DescribeDelegationTokenRequest(), 0)
        assert isinstance(tokens, DescribeDelegationTokenResponse)
        assert tokens.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        await world.clock.sleep(2900)
        await connection.log_in(PlainClient("alice", "secret"))
        await world.clock.sleep(2900)
        assert isinstance(await connection.request(METADATA, 1), MetadataResponse)
        await world.clock.sleep(200)
        with pytest.raises(Closed):
            await connection.request(METADATA, 1)
        metrics = cluster.nodes()[1].metrics.snapshot("kafka.server:")
        assert metrics[f"{SOCKETS}:successful-authentication-total"] == 1
        assert metrics[f"{SOCKETS}:failed-authentication-total"] == 1
        assert metrics[f"{SOCKETS}:successful-reauthentication-total"] == 1
        assert metrics[f"{SOCKETS}:expired-connections-killed-count"] == 1

    SimCluster(3, settings=SETTINGS).run(play)


INTER_BROKER = {
    **SETTINGS,
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "CLIENT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.client.plain.sasl.jaas.config": (
        f'{JAAS}.plain.PlainLoginModule required username="broker" password="of-brokers" '
        'user_broker="of-brokers" user_alice="secret";'
    ),
}


def counted(cluster: SimCluster, name: str) -> int:
    snapshots = [node.metrics.snapshot() for node in cluster.nodes().values()]
    return sum(int(found[f"{SOCKETS}:{name}"]) for found in snapshots)


@pytest.mark.mission("SEC-157")
def test_brokers_log_in_at_each_other_and_again_within_their_sessions() -> None:
    """Replication, the controller's requests and those to it go over a SASL listener."""

    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic("t", 3, 3)
            await admin.wait_for_topic("t", 3)
        config = ProducerConfig(acks=-1)
        async with Producer(cluster.client_host.world, cluster.client_config, config) as producer:
            for number in range(40):
                await producer.send_and_wait("t", b"%d" % number)
                await cluster.client_host.world.clock.sleep(500)
        assert counted(cluster, "successful-reauthentication-total") > 10
        assert counted(cluster, "failed-authentication-total") == 0

    SimCluster(3, settings=INTER_BROKER).run(play)


SCRAM_BETWEEN_BROKERS = {
    **SETTINGS,
    "inter.broker.listener.name": "CLIENT",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
}


def scram_login(password: str) -> dict[str, str]:
    module = f'{JAAS}.scram.ScramLoginModule required username="broker" password="{password}";'
    return {"listener.name.client.scram-sha-512.sasl.jaas.config": module}


@pytest.mark.mission("SEC-121")
def test_a_broker_with_a_wrong_password_joins_no_isr_and_stays_up() -> None:
    """It says why, once per back-off; the others replicate."""
    salted = salted_password(SCRAM_SHA_512, "of-brokers", b"salt", 4096)
    stored = credential_text(SCRAM_SHA_512, b"salt", salted, 4096)
    user = {"version": 1, "config": {"SCRAM-SHA-512": stored}}
    refused: list[LogEvent] = []
    partition = TopicPartition("t", 0)

    def note(event: LogEvent) -> None:
        if event.name == "login_refused":
            refused.append(event)

    async def play(cluster: SimCluster) -> None:
        world = cluster.client_host.world
        session = await world.coordination.open("zookeeper:2181", 30_000, 30_000)
        for path, data in (
            ("/config", b""),
            ("/config/users", b""),
            ("/config/users/broker", json.dumps(user).encode()),
        ):
            await session.create(path, data)
        await session.close()
        cluster.own = {i: scram_login("of-brokers" if i < 3 else "wrong") for i in (1, 2, 3)}
        cluster.observers.append(note)
        for broker_id in (1, 2, 3):
            cluster.start(broker_id)
            await cluster.until("up", lambda: len(cluster.nodes()) == broker_id)  # noqa: B023
        config = replace(ALICE, default_api_timeout_ms=60_000)
        async with Admin(world, config) as admin:
            await admin.create_topics([NewTopic("t", assignments={0: [1, 2, 3]})])
            await admin.wait_for_topic("t", 1)
        async with Producer(world, config, ProducerConfig(acks=-1)) as producer:
            for number in range(60):
                await producer.send_and_wait("t", b"%d" % number)
                await world.clock.sleep(1_000)
                if number > 30:
                    assert set(cluster.state(partition).leader_and_isr.isr) == {1, 2}
        replicas = cluster.replicas(partition).items()
        ends = {i: p.log.log_end_offset for i, p in replicas if p.log is not None}
        assert ends[1] == ends[2] == 60
        assert sorted(cluster.nodes()) == [1, 2, 3]
        assert all("wrong" not in str(event.facts) for event in refused)
        assert any("invalid credentials" in str(event.facts) for event in refused)
        times = [event.seconds for event in refused][-30:]  # replica.fetch.backoff.ms is a second
        assert all(0.99 < after - before < 2 for before, after in pairwise(times))

    SimCluster(7, settings=SCRAM_BETWEEN_BROKERS).run(play)


ALICE = ClientConfig(
    bootstrap_servers=f"{host_name(1)}:{SASL_PORT},{host_name(2)}:{SASL_PORT}",
    security_protocol="SASL_PLAINTEXT",
    sasl_mechanism="PLAIN",
    sasl_username="alice",
    sasl_password="secret",
)


@pytest.mark.mission("SEC-158")
def test_our_client_logs_in_and_again_within_its_sessions() -> None:
    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        world = cluster.client_host.world
        async with Admin(world, ALICE) as admin:
            await admin.create_topic("t", 3, 3)
            await admin.wait_for_topic("t", 3)
        async with Producer(world, ALICE, ProducerConfig(acks=-1)) as producer:
            for number in range(20):
                await producer.send_and_wait("t", b"%d" % number)
                await world.clock.sleep(500)
        settings = ConsumerConfig(group_id="g", auto_offset_reset="earliest")
        async with Consumer(world, ALICE, settings) as consumer:
            consumer.subscribe(["t"])
            found: list[bytes | None] = []
            while len(found) < 20:
                found += [record.value for record in await consumer.poll(1_000)]
        assert set(found) == {b"%d" % number for number in range(20)}
        assert counted(cluster, "successful-reauthentication-total") > 2
        assert counted(cluster, "failed-authentication-total") == 0

    SimCluster(4, settings=SETTINGS).run(play)


TOKENS = {
    **SETTINGS,
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "listener.name.client.oauthbearer.sasl.jaas.config": (
        f"{JAAS}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=broker;"
    ),
    "listener.name.client.oauthbearer.connections.max.reauth.ms": "3600000",
}


@pytest.mark.mission("SEC-173")
def test_our_client_logs_in_with_the_tokens_of_a_function() -> None:
    """Tokens live ten seconds. At first, and for a while later, the function fails."""

    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        world = cluster.client_host.world
        started_ms = world.clock.monotonic_ms()
        made = 0

        async def provide() -> OAuthToken:
            nonlocal made
            passed_ms = world.clock.monotonic_ms() - started_ms
            if passed_ms < 1_000 or 11_000 <= passed_ms < 16_000:
                raise OSError("the endpoint is down")
            await world.clock.sleep(50)
            made += 1
            now_ms = world.clock.wall_ms()
            options = {
                "unsecuredLoginStringClaim_sub": "alice",
                "unsecuredLoginLifetimeSeconds": "10",
            }
            token = unsecured_token(options, now_ms)
            assert token is not None
            return OAuthToken(token, now_ms + 10_000)

        config = replace(
            ALICE,
            sasl_mechanism="OAUTHBEARER",
            sasl_username=None,
            sasl_password=None,
            sasl_oauth_token_provider=provide,
        )
        async with Producer(world, config, ProducerConfig(acks=-1)) as producer:
            for number in range(80):
                await producer.send_and_wait("t", b"%d" % number)
                await world.clock.sleep(500)
        assert 4 <= made <= 6
        assert counted(cluster, "successful-reauthentication-total") > 2
        assert counted(cluster, "failed-authentication-total") == 0
        assert counted(cluster, "expired-connections-killed-count") == 0

        async def fail() -> OAuthToken:
            raise OSError("the endpoint is gone")

        config = replace(config, sasl_oauth_token_provider=fail, default_api_timeout_ms=5_000)
        with pytest.raises(KafkaError, match="failed: OSError: the endpoint is gone"):
            async with Admin(world, config) as admin:
                await admin.create_topic("u", 1, 1)

    SimCluster(6, settings=TOKENS).run(play)


@pytest.mark.mission("SEC-158")
def test_a_wrong_password_is_an_error_of_our_client_at_once() -> None:
    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        world = cluster.client_host.world
        started_ms = world.clock.monotonic_ms()
        with pytest.raises(KafkaError) as raised:
            async with Admin(world, replace(ALICE, sasl_password="wrong")) as admin:
                await admin.create_topic("t", 1, 1)
        assert raised.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert world.clock.monotonic_ms() - started_ms < ALICE.request_timeout_ms

    SimCluster(5, settings=SETTINGS).run(play)
