"""How running brokers follow their controller: fencing, watches, and an example of an election."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.client import Admin, Producer
from minikafka.core.client.admin.topics import NewTopic
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import WatchKind
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from minikafka.protocol.messages.stop_replica import StopReplicaRequest
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from minikafka.server.zookeeper import paths
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name

BROKERS = (1, 2, 3)
WITHIN_S = 1.0  # simulated: so soon every broker has to know its controller


async def start(cluster: SimCluster) -> None:
    cluster.start()
    await cluster.until("all up", lambda: len(cluster.nodes()) == 3)
    await in_agreement(cluster, cluster.controller_id())


async def create(cluster: SimCluster, name: str, *replicas: list[int]) -> list[TopicPartition]:
    async with Admin(cluster.client_host.world, cluster.client_config) as admin:
        new = NewTopic(name, assignments=dict(enumerate(replicas)))
        outcome = (await admin.create_topics([new]))[name]
        assert not isinstance(outcome, KafkaError)
    made = [TopicPartition(name, number) for number in range(len(replicas))]
    await cluster.until_whole(*made)
    return made


def known_controllers(cluster: SimCluster) -> dict[int, int]:
    """Whom each live broker takes for the controller."""
    return {i: node.entities.controller.active_controller_id for i, node in cluster.nodes().items()}


async def in_agreement(cluster: SimCluster, controller: int | None) -> None:
    await cluster.until(
        f"all know controller {controller}",
        lambda: set(known_controllers(cluster).values()) == {controller},
        WITHIN_S,
    )


# ------------------------------------------------------------------------------------- in memory


@pytest.mark.mission("CEL-5", "CFO-1", "CFO-4")
def test_every_broker_knows_the_controller_within_a_second_of_a_change() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        first = cluster.controller_id()
        assert first is not None
        assert known_controllers(cluster) == dict.fromkeys(BROKERS, first)
        # It dies: once another stands in ZooKeeper, the survivors know it.
        await cluster.host(first).kill()
        await cluster.until("another", lambda: cluster.controller_id() not in (first, None))
        second = cluster.controller_id()
        assert second != first
        await in_agreement(cluster, second)
        assert first not in known_controllers(cluster)
        # One that comes back learns of it, too, and does not stand itself.
        await cluster.bring_up(first)
        await in_agreement(cluster, second)
        assert sorted(known_controllers(cluster)) == [1, 2, 3]
        # The node is deleted by hand. The same broker may win again: all agree on who did.
        epoch = cluster.simulation.zookeeper.tree.get(paths.CONTROLLER_EPOCH)[0]
        session = await cluster.client_host.world.coordination.open(
            "zookeeper:2181", 10_000, 10_000
        )
        await session.delete(paths.CONTROLLER)
        await cluster.until(
            "elected again",
            lambda: cluster.simulation.zookeeper.tree.get(paths.CONTROLLER_EPOCH)[0] != epoch,
        )
        await in_agreement(cluster, cluster.controller_id())

    SimCluster(41).run(play)


# ---------------------------------------------------------------------------------------- epochs


def requests(cluster: SimCluster, epoch: int) -> list[tuple[Any, int]]:
    """One of each kind that a controller sends; they change nothing but the epoch that is known."""
    alive = [
        UpdateMetadataBroker(
            i, endpoints=[UpdateMetadataEndpoint(PORT, host_name(i), "PLAINTEXT", 0)]
        )
        for i in cluster.nodes()
    ]
    return [
        (LeaderAndIsrRequest(controller_id=1, controller_epoch=epoch), 7),
        (StopReplicaRequest(controller_id=1, controller_epoch=epoch), 4),
        (UpdateMetadataRequest(1, controller_epoch=epoch, live_brokers=alive), 7),
    ]


async def order(cluster: SimCluster, broker_id: int, request: Any, version: int) -> ErrorCode:
    world = cluster.client_host.world
    channel = await Channel.open(
        world.network, world.clock, host_name(broker_id), PORT, "controller", ChannelConfig()
    )
    try:
        return ErrorCode((await channel.request(request, version, 5_000)).error_code)
    finally:
        channel.close()


@pytest.mark.mission("CEL-15", "CEL-16")
def test_requests_of_an_older_controller_are_refused_and_a_newer_epoch_is_remembered() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        await create(cluster, "t", [1, 2, 3])
        fences = {i: node._parts.fence for i, node in cluster.nodes().items()}
        (epoch,) = {fence.controller_epoch for fence in fences.values()}
        assert epoch == int(cluster.simulation.zookeeper.tree.get(paths.CONTROLLER_EPOCH)[0])
        for broker_id, fence in fences.items():
            for request, version in requests(cluster, epoch - 1):
                refused = await order(cluster, broker_id, request, version)
                assert refused is ErrorCode.STALE_CONTROLLER_EPOCH, type(request).__name__
                assert fence.controller_epoch == epoch
            for request, version in requests(cluster, epoch):
                assert await order(cluster, broker_id, request, version) is ErrorCode.NONE
                assert fence.controller_epoch == epoch
        # Each kind of request tells of a newer controller; then the one before it is old.
        for number, (request, version) in enumerate(requests(cluster, 0), 1):
            request.controller_epoch = epoch + number
            assert await order(cluster, 2, request, version) is ErrorCode.NONE
            assert fences[2].controller_epoch == epoch + number
            for older, its_version in requests(cluster, epoch + number - 1):
                refused = await order(cluster, 2, older, its_version)
                assert refused is ErrorCode.STALE_CONTROLLER_EPOCH

    SimCluster(42).run(play)


# --------------------------------------------------------------------------------------- watches


def census(cluster: SimCluster) -> dict[int, set[tuple[WatchKind, str]]]:
    """The watches that ZooKeeper keeps for each broker."""
    hosts = {host_name(broker_id): broker_id for broker_id in cluster.broker_ids}
    found: dict[int, set[tuple[WatchKind, str]]] = {i: set() for i in cluster.broker_ids}
    for connection in cluster.simulation.zookeeper._connections:
        broker_id = hosts.get(connection._process.host)
        if broker_id is not None:
            found[broker_id] |= set(connection.watches)
    return found


@pytest.mark.mission("CRS-3", "CRS-4")
def test_a_broker_watches_the_controller_and_the_controller_the_cluster() -> None:
    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        for name in ("a", "b"):
            await create(cluster, name, *([1, 2, 3] for _ in range(20)))
        controller = cluster.controller_id()
        watched = {i: {path for _, path in found} for i, found in census(cluster).items()}
        of_every_broker = {paths.CONTROLLER, paths.CONFIG_CHANGES, paths.FEATURE}
        for broker_id in cluster.broker_ids:
            if broker_id != controller:  # however many partitions there are
                assert watched[broker_id] == of_every_broker | {paths.broker_id(broker_id)}
        assert controller is not None
        assert watched[controller] == of_every_broker | {
            paths.BROKER_IDS,
            paths.TOPICS,
            paths.DELETE_TOPICS,
            paths.ISR_CHANGES,
            paths.LOG_DIR_EVENTS,
            paths.REASSIGN_PARTITIONS,
            paths.PREFERRED_REPLICA_ELECTION,
            *(paths.broker_id(i) for i in cluster.broker_ids),
            paths.topic("a"),
            paths.topic("b"),
        }

    SimCluster(43).run(play)


# -------------------------------------------------------------------------------------- elections


@pytest.mark.mission("LEL-2", "LEL-3")
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_the_documents_example_of_three_partitions_after_one_death(how: str) -> None:
    """topic-leader with replicas 3,1,2 / 1,2,3 / 2,3,1: after broker 1 they are led by 3, 2, 2."""

    async def play(cluster: SimCluster) -> None:
        await start(cluster)
        partitions = await create(cluster, "topic-leader", [3, 1, 2], [1, 2, 3], [2, 3, 1])
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            # A restart of 2 puts it at the end of the ISRs: their order must not decide.
            await cluster.stop(2)
            await cluster.bring_up(2)
            await cluster.until_whole(*partitions)
            await admin.elect_leaders(ElectionType.PREFERRED, partitions)
            assert cluster.state(partitions[1]).leader_and_isr.isr == (1, 3, 2)
            await cluster.until(
                "told", lambda: all(knows_who_leads(cluster, p) for p in partitions)
            )
            assert await seen(admin) == [
                (3, [3, 1, 2], {1, 2, 3}),
                (1, [1, 2, 3], {1, 2, 3}),
                (2, [2, 3, 1], {1, 2, 3}),
            ]
            if how == "kill":
                await cluster.host(1).kill()
            else:
                await cluster.stop(1)
            await cluster.until(
                "1 has left",
                lambda: all(1 not in cluster.state(tp).leader_and_isr.isr for tp in partitions),
            )
            await cluster.until(
                "told", lambda: all(knows_who_leads(cluster, p) for p in partitions)
            )
            assert await seen(admin) == [
                (3, [3, 1, 2], {3, 2}),
                (2, [1, 2, 3], {3, 2}),
                (2, [2, 3, 1], {3, 2}),
            ]
        async with Producer(cluster.client_host.world, cluster.client_config) as producer:
            for partition in range(3):
                await asyncio.wait_for(
                    producer.send("topic-leader", b"after", partition=partition), 30
                )

    SimCluster(44).run(play)


def knows_who_leads(cluster: SimCluster, tp: TopicPartition) -> bool:
    """Whether every live broker's metadata say what ZooKeeper does."""
    expected = cluster.state(tp).leader_and_isr
    for node in cluster.nodes().values():
        state = node.entities.metadata.image.topics[tp.topic][tp.partition]
        if (state.leader, tuple(state.isr)) != (expected.leader, expected.isr):
            return False
    return True


async def seen(admin: Admin) -> list[tuple[int, list[int], set[int]]]:
    """Leader, replicas and ISR of each partition, as metadata show them."""
    topic = (await admin.describe_topics(["topic-leader"]))["topic-leader"]
    assert not isinstance(topic, KafkaError)
    views = [view for _, view in sorted(topic.partitions.items())]
    return [(view.leader, list(view.replicas), set(view.isr)) for view in views]
