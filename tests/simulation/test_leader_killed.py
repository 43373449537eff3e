"""The leader dies in mid-load: nothing acknowledged is lost, whatever the seed."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.kernel.ports import World
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.testing.simulator import faults
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name
from tests.support.simulated.scenario import PARTITIONS, under_load

WATCHED = PARTITIONS[0]
LONGER_THAN_ITS_SESSION_S = 8
REFUSED_OR_TIMED_OUT = (7, 19, 20)


@pytest.mark.mission("CCB-2", "PSM-9", "PSM-14", "CRS-2", "CTX-1", "CDU-9")
@pytest.mark.parametrize("seed", range(20))
def test_leader_killed(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        leader, epoch = leadership(cluster)
        await faults.killed(cluster, leader, LONGER_THAN_ITS_SESSION_S)
        now_leads, now_epoch = leadership(cluster)
        assert now_leads not in (leader, -1)
        assert now_epoch > epoch  # two more if it was the controller: first no leader, then one

    SimCluster(seed).run(lambda cluster: under_load(cluster, fault))


def leadership(cluster: SimCluster) -> tuple[int, int]:
    state = cluster.state(WATCHED).leader_and_isr
    return state.leader, state.leader_epoch


@pytest.mark.parametrize("seed", range(5))
def test_leader_loses_power(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        leader = cluster.leader(WATCHED)
        await faults.powerless(cluster, leader, LONGER_THAN_ITS_SESSION_S)
        assert cluster.leader(WATCHED) != leader

    SimCluster(seed).run(lambda cluster: under_load(cluster, fault))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("how", [faults.killed, faults.powerless])
def test_leader_is_back_before_it_was_missed(how: faults.Fault, seed: int) -> None:
    """The session of its previous run is still alive, and may be the controller's."""

    async def fault(cluster: SimCluster) -> None:
        await how(cluster, cluster.leader(WATCHED), seed / 2)

    SimCluster(seed).run(lambda cluster: under_load(cluster, fault))


@pytest.mark.parametrize("seed", range(3))
def test_a_broker_serves_no_request_before_it_is_registered(seed: int) -> None:
    """A request meant for its previous run would be taken for its full metadata."""

    async def fault(cluster: SimCluster) -> None:
        leader, world = cluster.leader(WATCHED), cluster.client_host.world
        await cluster.host(leader).kill()
        back = asyncio.create_task(cluster.bring_up(leader))
        await asyncio.sleep(1)
        assert not back.done()
        channel = await Channel.open(
            world.network, world.clock, host_name(leader), PORT, "probe", ChannelConfig()
        )
        asked = asyncio.create_task(channel.request(MetadataRequest(topics=None), 9, 60_000))
        asked.add_done_callback(lambda _: order.append("answered"))
        back.add_done_callback(lambda _: order.append("up"))
        await asyncio.wait([asked, back])
        channel.close()

    order: list[str] = []
    slow = {"minikafka.fast.failover": "false"}  # it waits until its earlier session has expired
    SimCluster(seed, settings=slow).run(lambda cluster: under_load(cluster, fault))
    assert order == ["up", "answered"]


@pytest.mark.mission("CFO-3", "CFO-5", "CCB-3")
@pytest.mark.parametrize("seed", range(5))
def test_controller_killed(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        controller = cluster.controller_id()
        assert controller is not None
        await faults.killed(cluster, controller, LONGER_THAN_ITS_SESSION_S)
        assert cluster.controller_id() not in (controller, None)

    SimCluster(seed).run(lambda cluster: under_load(cluster, fault))


@pytest.mark.mission("PRD-6")
@pytest.mark.parametrize("seed", range(5))
def test_zombie_leader_acknowledges_nothing(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        zombie = cluster.leader(WATCHED)
        cut = asyncio.create_task(faults.isolated(cluster, zombie, 20))
        await cluster.until("another leader", lambda: cluster.leader(WATCHED) not in (zombie, -1))
        assert cluster.replicas(WATCHED)[zombie].is_leader  # it does not know better
        for _ in range(3):
            answer = await produced_at(cluster.client_host.world, zombie)
            assert answer in REFUSED_OR_TIMED_OUT
        await cut

    SimCluster(seed).run(lambda cluster: under_load(cluster, fault))


async def produced_at(world: World, broker_id: int, timeout_ms: int = 3_000) -> int:
    """The error code of one broker's response to a Produce with acks=all."""
    config = ChannelConfig()
    channel = await Channel.open(
        world.network, world.clock, host_name(broker_id), PORT, "probe", config
    )
    value = b"0"  # which the writer has sent, too
    batch = memoryview(build_batch([(world.clock.wall_ms(), None, value, [])]))
    data = TopicProduceData(
        WATCHED.topic, partition_data=[PartitionProduceData(WATCHED.partition, batch)]
    )
    request = ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=[data])
    try:
        response = await channel.request(request, 9, 2 * timeout_ms)
    finally:
        channel.close()
    code: int = response.responses[0].partition_responses[0].error_code
    return code
