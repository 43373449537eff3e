"""New TLS stores of running brokers: clients and other brokers see them, open connections stay."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from minikafka.client import Admin, Producer
from minikafka.core.client.admin.configs import ConfigAlteration
from minikafka.core.config_resources import ResourceType
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.tls import TlsSettings, peer_certificate
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name
from tests.support.network.wire_end import WireEnd
from tests.support.security.certificates import Authority, Identity

TLS_PORT = 9093
AUTHORITY = Authority()
OTHERS = Authority("others")
SETTINGS = {
    "listeners": f"PLAINTEXT://:{PORT},SSL://:{TLS_PORT}",
    "inter.broker.listener.name": "SSL",
    "ssl.client.auth": "required",
    "ssl.keystore.location": "/keys.pem",
    "ssl.truststore.location": "/trust.pem",
    "password.encoder.secret": "encoder-secret",
}
PASSWORD = "listener.name.ssl.ssl.keystore.password"
LOCATION = "listener.name.ssl.ssl.keystore.location"


async def write(cluster: SimCluster, broker_id: int, path: str, data: bytes) -> None:
    await cluster.host(broker_id).world.files.replace(path, data)


async def give_keys(cluster: SimCluster, broker_id: int, path: str = "/keys.pem") -> Identity:
    """Write a new key store of a broker; the name in its certificate stays."""
    made = AUTHORITY.issue(f"broker-{broker_id}", (host_name(broker_id),))
    await write(cluster, broker_id, path, made.key_pem() + made.chain_pem)
    return made


@dataclass
class Client:
    """A connection to the TLS listener of a broker."""

    cluster: SimCluster
    identity: Identity = field(default_factory=lambda: AUTHORITY.issue("client"))

    async def connect(self, broker_id: int) -> WireEnd:
        mine = self.identity
        tls = TlsSettings(mine.key_pem(), mine.chain_pem, AUTHORITY.pem)
        network = self.cluster.client_host.world.network
        _, end = await network.connect(WireEnd, host_name(broker_id), TLS_PORT, tls)
        assert isinstance(end, WireEnd)
        return end

    async def seen(self, broker_id: int) -> bytes | None:
        """The certificate that a broker shows to a new connection."""
        end = await self.connect(broker_id)
        found = peer_certificate(end.transport)
        end.transport.close()
        return found


async def up(cluster: SimCluster) -> dict[int, Identity]:
    identities = {}
    for broker_id in cluster.broker_ids:
        identities[broker_id] = await give_keys(cluster, broker_id)
        await write(cluster, broker_id, "/trust.pem", AUTHORITY.pem)
    cluster.start()
    await cluster.until("all up", lambda: len(cluster.nodes()) == len(cluster.broker_ids))
    return identities


@pytest.mark.mission("SEC-125")
@pytest.mark.mission("SEC-181")
def test_stores_change_while_brokers_replicate() -> None:
    async def play(cluster: SimCluster) -> None:
        old, client = await up(cluster), Client(cluster)
        world, config = cluster.client_host.world, cluster.client_config
        async with Admin(world, config) as admin, Producer(world, config) as producer:
            await admin.create_topic("t", 1, 2)
            await cluster.until_whole(TopicPartition("t", 0))
            held = await client.connect(1)
            new = {}
            for broker_id in cluster.broker_ids:
                # By its file, with the next alteration, whatever it alters.
                await asyncio.sleep(1)
                new[broker_id] = await give_keys(cluster, broker_id)
                assert await client.seen(broker_id) == old[broker_id].der
                await admin.incremental_alter_configs(
                    ResourceType.BROKER,
                    str(broker_id),
                    [ConfigAlteration("log.segment.bytes", "100000")],
                )
                assert await client.seen(broker_id) == new[broker_id].der
            assert peer_certificate(held.transport) == old[1].der
            assert not held.transport.is_closing()
            # By new keys, with a password: the broker that starts again needs it, too.
            packed = AUTHORITY.issue("broker-1", (host_name(1),))
            await write(cluster, 1, "/keys.p12", packed.pkcs12("store-secret"))
            await admin.incremental_alter_configs(
                ResourceType.BROKER,
                "1",
                [
                    ConfigAlteration(LOCATION, "/keys.p12"),
                    ConfigAlteration(PASSWORD, "store-secret"),
                ],
            )
            for _ in range(20):
                if await client.seen(1) == packed.der:
                    break
                await asyncio.sleep(0.1)
            assert await client.seen(1) == packed.der
            told = await admin.describe_configs(ResourceType.BROKER, "1", [PASSWORD])
            assert (told[PASSWORD].value, told[PASSWORD].sensitive) == (None, True)
            assert (
                b"store-secret" not in cluster.simulation.zookeeper.tree.get("/config/brokers/1")[0]
            )
            secret, old_secret = "password.encoder.secret", "password.encoder.old.secret"
            for own in (
                {secret: "new-secret", old_secret: "encoder-secret"},
                {secret: "new-secret"},
            ):
                cluster.own[1] = own
                await cluster.stop(1)
                cluster.start(1)
                await cluster.until("it is back", lambda: 1 in cluster.nodes())
                assert await client.seen(1) == packed.der
            await cluster.until_whole(TopicPartition("t", 0))
            await producer.send_and_wait("t", b"x", partition=0)

    SimCluster(1, (1, 2), SETTINGS).run(play)


@pytest.mark.mission("SEC-125")
def test_stores_that_other_brokers_do_not_trust_are_refused() -> None:
    async def play(cluster: SimCluster) -> None:
        old, client = await up(cluster), Client(cluster)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            foreign = OTHERS.issue("broker-1", (host_name(1),))
            other_name = AUTHORITY.issue("another", (host_name(1),))
            fewer_names = AUTHORITY.issue("broker-1", ("elsewhere",))
            for path, identity, reason in (
                ("/foreign.pem", foreign, "could not connect to each other"),
                ("/name.pem", other_name, "DistinguishedName does not match"),
                ("/hosts.pem", fewer_names, "SubjectAltNames do not match"),
            ):
                await write(cluster, 1, path, identity.key_pem() + identity.chain_pem)
                with pytest.raises(KafkaError, match=reason) as refused:
                    await admin.incremental_alter_configs(
                        ResourceType.BROKER, "1", [ConfigAlteration(LOCATION, path)]
                    )
                assert refused.value.code is ErrorCode.INVALID_REQUEST
            assert not cluster.simulation.zookeeper.tree.exists("/config/brokers/1")
            assert await client.seen(1) == old[1].der

    SimCluster(2, (1, 2), SETTINGS).run(play)
