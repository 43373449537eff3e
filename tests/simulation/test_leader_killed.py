"""The leader dies in mid-load: nothing acknowledged is lost, whatever the seed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from minikafka.client import Admin
from minikafka.kernel.cluster import TopicPartition
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.simulator.checkers import ElectionChecker, check_acknowledged, check_at_rest
from minikafka.simulator.cluster import PORT, SimCluster
from minikafka.simulator.workload import Writer, read_all

TOPIC = "flights"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(3)]
WATCHED = PARTITIONS[0]
REST_S = 12  # ISR changes reach the controller after 5 to 7.5 s of quiet

Fault = Callable[[SimCluster, int], Awaitable[None]]


async def prepared(cluster: SimCluster) -> None:
    cluster.start()
    await cluster.until("brokers up", lambda: len(cluster.nodes()) == 3)
    async with Admin(cluster.client_host.world, cluster.client_config) as admin:
        await admin.create_topic(TOPIC, len(PARTITIONS), 3, {"min.insync.replicas": "2"})
        await admin.wait_for_topic(TOPIC, len(PARTITIONS))


async def with_load(cluster: SimCluster, fault: Fault) -> None:
    """Load; the fault, which ends with everybody back; checks."""
    checker = ElectionChecker(cluster, PARTITIONS)
    cluster.observers.append(checker)
    await prepared(cluster)
    writer = Writer(cluster, TOPIC, len(PARTITIONS))
    writer.start()
    await asyncio.sleep(0.5 + cluster.simulation.entropy.randrange(2000) / 1000)
    before = writer.acknowledged_count
    assert before > 0
    await fault(cluster, cluster.leader(WATCHED))
    await cluster.until("load goes on", lambda: writer.acknowledged_count > before + 50)
    await cluster.until_whole(*PARTITIONS)
    await writer.stop()
    await asyncio.sleep(REST_S)
    check_at_rest(cluster, PARTITIONS)
    check_acknowledged(writer, await read_all(cluster, TOPIC))
    assert not writer.failed


async def elected_instead(cluster: SimCluster, victim: int) -> None:
    await cluster.until("another leader", lambda: cluster.leader(WATCHED) not in (victim, -1))
    await asyncio.sleep(1 + cluster.simulation.entropy.randrange(3000) / 1000)


@pytest.mark.mission("CCB-2", "PSM-9", "PSM-14", "CRS-2", "CTX-1", "CDU-9")
@pytest.mark.parametrize("seed", range(20))
def test_leader_killed(seed: int) -> None:
    async def fault(cluster: SimCluster, leader: int) -> None:
        await cluster.kill(leader)
        await elected_instead(cluster, leader)
        cluster.start(leader)

    SimCluster(seed).run(lambda cluster: with_load(cluster, fault))


@pytest.mark.parametrize("seed", range(8))
def test_leader_loses_power(seed: int) -> None:
    async def fault(cluster: SimCluster, leader: int) -> None:
        await cluster.crash(leader)
        await elected_instead(cluster, leader)
        cluster.start(leader)

    SimCluster(seed).run(lambda cluster: with_load(cluster, fault))


@pytest.mark.parametrize("seed", range(8))
def test_leader_is_back_before_it_was_missed(seed: int) -> None:
    """The session of its former life still lives: the broker waits until that has expired."""

    async def fault(cluster: SimCluster, leader: int) -> None:
        await cluster.kill(leader)
        await asyncio.sleep(cluster.simulation.entropy.randrange(2000) / 1000)
        cluster.start(leader)

    SimCluster(seed).run(lambda cluster: with_load(cluster, fault))


@pytest.mark.mission("CFO-3", "CFO-5", "CCB-3")
@pytest.mark.parametrize("seed", range(8))
def test_controller_killed(seed: int) -> None:
    async def fault(cluster: SimCluster, _: int) -> None:
        controller = cluster.controller_id()
        assert controller is not None
        await cluster.kill(controller)
        await cluster.until(
            "another controller", lambda: cluster.controller_id() not in (controller, None)
        )
        await asyncio.sleep(2)
        cluster.start(controller)

    SimCluster(seed).run(lambda cluster: with_load(cluster, fault))


async def produced_at(cluster: SimCluster, broker_id: int, timeout_ms: int) -> int | None:
    """The error code that one broker answers to a record with acks=all; None: no answer."""
    world = cluster.client_host.world
    channel = await Channel.open(
        world.network, world.clock, f"broker-{broker_id}", PORT, "probe", ChannelConfig()
    )
    batch = build_batch([(world.clock.wall_ms(), None, b"0", [])])
    request = ProduceRequest(
        acks=-1,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(TOPIC, [PartitionProduceData(WATCHED.partition, memoryview(batch))])
        ],
    )
    try:
        response = await channel.request(request, 9, 2 * timeout_ms)
    except OSError:
        return None
    finally:
        channel.close()
    code: int = response.responses[0].partition_responses[0].error_code
    return code


@pytest.mark.mission("PRD-6")
@pytest.mark.parametrize("seed", range(8))
def test_zombie_leader_acknowledges_nothing(seed: int) -> None:
    async def fault(cluster: SimCluster, zombie: int) -> None:
        cluster.isolate_from_cluster(zombie)
        await elected_instead(cluster, zombie)
        assert cluster.replicas(WATCHED)[zombie].is_leader  # it does not know better
        for _ in range(3):
            assert await produced_at(cluster, zombie, 3_000) not in (0, None)
        cluster.simulation.heal()

    SimCluster(seed).run(lambda cluster: with_load(cluster, fault))
