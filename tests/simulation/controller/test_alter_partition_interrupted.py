"""Another controller, or a broken connection, while a leader's AlterPartition is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.server.zookeeper import paths
from minikafka.testing.simulator.cluster import SimCluster, host_name
from minikafka.testing.simulator.faults import disconnected, killed
from tests.support.simulated.scenario import PARTITIONS, under_load

POLL_S = 0.0002  # a message takes longer
LAGGING_S = 20


async def controller_is_killed(cluster: SimCluster, controller: int, leader: int) -> None:
    await killed(cluster, controller, 8)


async def controller_znode_is_deleted(cluster: SimCluster, controller: int, leader: int) -> None:
    """The old controller stays alive, and its responses to the leader are held for a while."""
    cluster.simulation.clog(host_name(controller), host_name(leader))
    coordination = cluster.client_host.world.coordination
    session = await coordination.open("zookeeper:2181", 6000, 10_000)
    await session.delete(paths.CONTROLLER)
    await session.close()
    await asyncio.sleep(8)
    cluster.simulation.unclog(host_name(controller), host_name(leader))


async def connections_are_reset(cluster: SimCluster, controller: int, leader: int) -> None:
    await disconnected(cluster, controller, 0.1)


Fault = Callable[[SimCluster, int, int], Awaitable[None]]


def is_under_way(cluster: SimCluster, partition: TopicPartition, is_written: bool) -> bool:
    """Whether the leader waits for the response to its proposal, which is in the state znode
    already, or not yet."""
    state = cluster.state(partition).leader_and_isr
    here = cluster.replicas(partition).get(state.leader)
    if here is None or here.state.isr.proposed is None:
        return False
    return is_written == (set(state.isr) == set(here.state.isr.proposed))


async def interrupted(cluster: SimCluster, fault: Fault, is_written: bool) -> None:
    """Cut a follower off, and cause the fault when its leader removes it from the ISR."""
    controller = cluster.controller_id()
    partition = next(tp for tp in PARTITIONS if cluster.leader(tp) != controller)
    state = cluster.state(partition).leader_and_isr
    follower = next(b for b in state.isr if b not in (controller, state.leader))
    cluster.simulation.partition(host_name(follower), host_name(state.leader))
    try:
        for _ in range(int(LAGGING_S / POLL_S)):
            if is_under_way(cluster, partition, is_written):
                break
            await asyncio.sleep(POLL_S)
        else:
            pytest.fail("no AlterPartition was seen")
        assert controller is not None
        assert cluster.controller_id() == controller
        await fault(cluster, controller, cluster.leader(partition))
    finally:
        cluster.simulation.heal()


@pytest.mark.mission("MIX-6")
@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize(
    "fault", [controller_is_killed, controller_znode_is_deleted, connections_are_reset]
)
def test_an_interrupted_isr_change_is_written_once(fault: Fault, is_written: bool) -> None:
    """The records are acknowledged as before, and all ISRs grow again; see ``under_load``."""
    cluster = SimCluster(7, settings={"replica.lag.time.max.ms": "1500"})
    cluster.run(lambda c: under_load(c, lambda c: interrupted(c, fault, is_written)))
