"""ISRs that leaders changed behind the controller's back: it reads ZooKeeper before it decides."""

from dataclasses import replace

import pytest

from minikafka.core.controller.states import PartitionState
from minikafka.kernel.cluster import TopicPartition
from minikafka.server.zookeeper.store import ZkStore
from tests.support.controller.controller_lab import ClusterOfControllers, NewCluster


async def write_isr(
    cluster: ClusterOfControllers, tp: TopicPartition, isr: tuple[int, ...]
) -> None:
    """The leader changes its ISR; the notice is still to come."""
    store = ZkStore(cluster.zookeeper.new_session())
    found = (await store.leader_isr_states([tp]))[tp]
    changed = replace(found.leader_and_isr, isr=isr)
    written = await store.update_isrs({tp: replace(found, leader_and_isr=changed)})
    assert written[tp] is not None


@pytest.mark.mission("PSM-9", "CCB-2")
async def test_a_dead_leader_whose_isr_had_shrunk(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(3, 1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2, 3))
        await write_isr(cluster, tp, (1, 3))
        await cluster.kill(1)
        assert await cluster.state(tp) == (3, (3,), 1)


@pytest.mark.mission("PSM-9", "LEL-4")
@pytest.mark.parametrize("unclean", ["false", "true"])
async def test_a_dead_leader_whose_isr_had_grown(new_cluster: NewCluster, unclean: bool) -> None:
    """By its remembered state no replica could lead cleanly: the state in ZooKeeper decides."""
    async with new_cluster() as cluster:
        controller, *_ = await cluster.start(3, 1, 2)
        config = {"unclean.leader.election.enable": unclean}
        (tp,) = await cluster.create_topic("t", (1, 3, 2), config=config)
        await cluster.kill(2)
        cluster.brokers.down.clear()
        await cluster.start(2)
        await write_isr(cluster, tp, (1,))
        await ZkStore(cluster.zookeeper.new_session()).propagate_isr_changes([tp])
        await cluster.settle()
        assert controller.context.leadership[tp].leader_and_isr.isr == (1,)
        await write_isr(cluster, tp, (1, 2))
        await cluster.kill(1)
        leader, isr, _ = await cluster.state(tp)
        assert (leader, isr) == (2, (2,))  # not 3, which comes first and lacks records
        metrics = controller._metrics.snapshot()
        assert (
            metrics.get(
                "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec", 0
            )
            == 0
        )


@pytest.mark.mission("RSM-12")
async def test_a_dead_follower_that_had_come_back_into_the_isr(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        controller, *_ = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        await cluster.kill(2)
        cluster.brokers.down.clear()
        await cluster.start(2)
        await write_isr(cluster, tp, (1, 2))
        assert controller.context.leadership[tp].leader_and_isr.isr == (1,)
        await cluster.kill(2)
        leader, isr, _ = await cluster.state(tp)
        assert (leader, isr) == (1, (1,))


@pytest.mark.mission("RSM-12")
async def test_the_isr_changes_while_the_controller_writes(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2, 3)
        (tp,) = await cluster.create_topic("t", (1, 2, 3))
        await write_isr(cluster, tp, (1, 3))
        await write_isr(cluster, tp, (1, 3, 2))  # another order, another version
        await cluster.kill(2)
        assert await cluster.state(tp) == (1, (1, 3), 1)


async def test_a_state_znode_that_vanished(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        controller, *_ = await cluster.start(1, 2, 3)
        (tp,) = await cluster.create_topic("t", (2, 3))
        cluster.zookeeper.delete("/brokers/topics/t/partitions/0/state")
        await cluster.kill(2)
        assert not await cluster.has_state(tp)
        assert controller.context.partition_state(tp) is PartitionState.OFFLINE
        assert controller.is_active
        assert controller.context.epoch == 1


async def test_a_state_znode_that_is_garbled(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        controller, *_ = await cluster.start(1, 2, 3)
        bad, good = await cluster.create_topic("t", (2, 3), (2, 3))
        cluster.zookeeper.set("/brokers/topics/t/partitions/0/state", b"?")
        await cluster.kill(2)
        assert await cluster.state(good) == (3, (3,), 1)
        assert controller.context.partition_state(bad) is PartitionState.OFFLINE
        assert controller.context.epoch == 1
