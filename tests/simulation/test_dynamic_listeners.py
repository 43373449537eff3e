"""Listeners of simulated brokers: added and removed at run time, and that of the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from minikafka.client import Admin
from minikafka.core.client.admin.configs import ConfigAlteration
from minikafka.core.config_resources import ResourceType
from minikafka.core.security.sasl.plain import PlainClient
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.znodes import BrokerZnode
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name
from tests.support.network.wire_end import WireEnd
from tests.support.security.sasl_connection import SaslConnection

NEW_PORT = 9095
MAP = "PLAINTEXT:PLAINTEXT,NEW:PLAINTEXT,LOGIN:SASL_PLAINTEXT"
BOTH = f"PLAINTEXT://:{PORT},NEW://:{NEW_PORT}"
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'


async def up(cluster: SimCluster) -> None:
    cluster.start()
    await cluster.until("all up", lambda: len(cluster.nodes()) == len(cluster.broker_ids))
    await cluster.until("a controller", lambda: cluster.controller_id() is not None)


def endpoints(cluster: SimCluster, broker_id: int) -> dict[str, int]:
    """The ports in the znode of a broker, by the listener."""
    data, _ = cluster.simulation.zookeeper.tree.get(paths.broker_id(broker_id))
    found = BrokerZnode.decode(broker_id, data).endpoints
    return {endpoint.listener: endpoint.port for endpoint in found}


async def until_listening(cluster: SimCluster, broker_id: int, wanted: dict[str, int]) -> None:
    """Wait until these endpoints are registered."""
    await cluster.until(
        f"{broker_id} has {wanted}", lambda: endpoints(cluster, broker_id) == wanted
    )


async def alter(admin: Admin, broker_id: int, **changes: str) -> None:
    await admin.incremental_alter_configs(
        ResourceType.BROKER,
        str(broker_id),
        [ConfigAlteration(key.replace("_", "."), text) for key, text in changes.items()],
    )


async def metadata(cluster: SimCluster, broker_id: int, port: int) -> dict[int, int]:
    """The ports of all brokers in the response of a broker on a listener."""
    world = cluster.client_host.world
    channel = await Channel.open(
        world.network, world.clock, host_name(broker_id), port, "tool", ChannelConfig()
    )
    response = await channel.request(MetadataRequest(topics=[]), 1, 5_000)
    channel.close()
    assert isinstance(response, MetadataResponse)
    return {broker.node_id: broker.port for broker in response.brokers}


async def until_equal(read: Callable[[], Awaitable[object]], wanted: object) -> None:
    for _ in range(50):
        if await read() == wanted:
            return
        await asyncio.sleep(0.1)
    assert await read() == wanted


@pytest.mark.mission("SEC-183")
def test_a_listener_is_added_used_and_removed() -> None:
    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        network = cluster.client_host.world.network
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            for broker_id in cluster.broker_ids:
                await alter(admin, broker_id, listener_security_protocol_map=MAP, listeners=BOTH)
                await until_listening(cluster, broker_id, {"PLAINTEXT": PORT, "NEW": NEW_PORT})
            # max.connections does not apply to the listener for brokers, now that there are two.
            assert cluster.nodes()[1]._quotas._protected_listener == "PLAINTEXT"
            every = dict.fromkeys(cluster.broker_ids, NEW_PORT)
            await until_equal(lambda: metadata(cluster, 1, NEW_PORT), every)
            assert set((await metadata(cluster, 1, PORT)).values()) == {PORT}
            _, new = await network.connect(WireEnd, host_name(1), NEW_PORT)
            _, old = await network.connect(WireEnd, host_name(1), PORT)
            assert isinstance(new, WireEnd)
            assert isinstance(old, WireEnd)
            await cluster.stop(1)  # a broker that starts again has it, too
            await cluster.bring_up(1)
            await until_equal(lambda: metadata(cluster, 1, NEW_PORT), every)
            _, new = await network.connect(WireEnd, host_name(1), NEW_PORT)
            _, old = await network.connect(WireEnd, host_name(1), PORT)
            assert isinstance(new, WireEnd)
            assert isinstance(old, WireEnd)
            await alter(admin, 1, listeners=f"PLAINTEXT://:{PORT}")
            await asyncio.wait_for(new.lost(), 5)
            assert not old.transport.is_closing()
            with pytest.raises(OSError, match="refused"):
                await network.connect(WireEnd, host_name(1), NEW_PORT)
            await until_listening(cluster, 1, {"PLAINTEXT": PORT})
            await until_equal(lambda: metadata(cluster, 2, NEW_PORT), {2: NEW_PORT})
            assert cluster.nodes()[1]._quotas._protected_listener is None

    SimCluster(1, (1, 2)).run(play)


@pytest.mark.mission("SEC-183")
def test_changes_that_cannot_be_made_change_nothing() -> None:
    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        taken = await cluster.host(1).world.network.listen(WireEnd, "", 7777)
        new = {"listener_security_protocol_map": MAP}
        refused: list[tuple[dict[str, str], str]] = [
            ({**new, "listeners": f"{BOTH},LOGIN://:7778"}, "sasl.enabled.mechanisms"),
            ({**new, "listeners": f"PLAINTEXT://:{PORT},NEW://:7777"}, "NEW cannot be opened"),
            ({"listeners": f"PLAINTEXT://:{NEW_PORT}"}, "address of existing listener PLAINTEXT"),
            ({**new, "listeners": f"NEW://:{NEW_PORT}"}, "is not an advertised listener"),
            ({"listeners": BOTH}, "no protocol for NEW"),
        ]
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            for changes, reason in refused:
                with pytest.raises(KafkaError, match=reason) as error:
                    await alter(admin, 1, **changes)
                assert error.value.code is ErrorCode.INVALID_REQUEST
            assert not cluster.simulation.zookeeper.tree.exists("/config/brokers/1")
            assert endpoints(cluster, 1) == {"PLAINTEXT": PORT}
            taken.close()
            await alter(admin, 1, **new, listeners=f"PLAINTEXT://:{PORT},NEW://:7777")
            await cluster.until("it is open", lambda: "NEW" in endpoints(cluster, 1))

    SimCluster(2, (1,)).run(play)


@pytest.mark.mission("SEC-183")
@pytest.mark.mission("SEC-181")
def test_a_listener_is_added_with_its_logins() -> None:
    async def play(cluster: SimCluster) -> None:
        await up(cluster)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await alter(
                admin,
                1,
                listener_security_protocol_map=MAP,
                listeners=f"PLAINTEXT://:{PORT},LOGIN://:{NEW_PORT}",
                **{
                    "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
                    "listener.name.login.plain.sasl.jaas.config": JAAS,
                },
            )
            await cluster.until("it is open", lambda: "LOGIN" in endpoints(cluster, 1))
        data, _ = cluster.simulation.zookeeper.tree.get("/config/brokers/1")
        assert b"user_alice" not in data
        world = cluster.client_host.world
        connection = await SaslConnection.open(world, host_name(1), NEW_PORT)
        await connection.log_in(PlainClient("alice", "secret"))
        connection.close()
        wrong = await SaslConnection.open(world, host_name(1), NEW_PORT)
        with pytest.raises(KafkaError):
            await wrong.log_in(PlainClient("alice", "wrong"))

    SimCluster(3, (1,), {"password.encoder.secret": "encoder-secret"}).run(play)


CONTROL_PORT = 9096
CONTROL = {
    "listeners": f"PLAINTEXT://:{PORT},CONTROL://:{CONTROL_PORT}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
    "control.plane.listener.name": "CONTROL",
}


@pytest.mark.mission("SEC-184")
def test_controllers_use_the_control_plane_listener_where_there_is_one() -> None:
    async def play(cluster: SimCluster) -> None:
        cluster.own |= {1: CONTROL, 2: CONTROL}
        cluster.start(1)
        await cluster.until("a controller", lambda: cluster.controller_id() == 1)
        cluster.start(2, 3)
        await cluster.until("all up", lambda: len(cluster.nodes()) == 3)

        def connections(broker_id: int) -> list[int]:
            return [
                server.connection_count for server in cluster.nodes()[broker_id].entities.servers()
            ]

        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic("t", 1, 3)
            await cluster.until_whole(TopicPartition("t", 0))
            for broker_id in (1, 2):
                assert connections(broker_id)[1] == 1, "the controller, and nobody else"
            assert len(connections(3)) == 1

    SimCluster(4).run(play)
