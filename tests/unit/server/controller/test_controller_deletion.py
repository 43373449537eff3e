"""Topic deletion through the driver: complete, halted, resumed, taken over, refused."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from minikafka.core.controller.states import ReplicaState
from minikafka.kernel.cluster import PartitionAndReplica
from minikafka.kernel.errors import ErrorCode
from minikafka.server.zookeeper.store import ZkStore
from tests.support.controller.controller_lab import ClusterOfControllers, InShort, NewCluster
from tests.support.controller.reassigning import delete


def left(cluster: ClusterOfControllers, topic: str) -> Any:
    return sorted(p for p in cluster.zookeeper.nodes if topic in p.split("/"))


def changes(logs: Any) -> Any:
    """Partition and replica states in their order, without the brokers."""
    return [
        f"{e['partition']}{'/' + str(e['replica']) if 'replica' in e else ''} -> {e['after']}"
        for e in logs
        if "before" in e and "error" not in e
    ]


@pytest.mark.mission("DEL-1", "DEL-2", "CDU-5", "RSM-13", "RSM-14", "RSM-16")
async def test_a_topic_goes_with_everything(new_cluster: NewCluster, in_short: InShort) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        before = sorted(cluster.zookeeper.nodes)
        await cluster.create_topic("t", (1, 2), config={"retention.ms": "1"})
        cluster.brokers.take()
        with capture_logs() as logs:
            await delete(cluster, "t")
        assert changes(logs) == [
            "t-0 -> OfflinePartition",
            "t-0 -> NonExistentPartition",
            "t-0/1 -> OfflineReplica",
            "t-0/2 -> OfflineReplica",
            "t-0/1 -> ReplicaDeletionStarted",
            "t-0/2 -> ReplicaDeletionStarted",
            "t-0/1 -> ReplicaDeletionSuccessful",
            "t-0/2 -> ReplicaDeletionSuccessful",
            "t-0/1 -> NonExistentReplica",
            "t-0/2 -> NonExistentReplica",
        ]
        to_one = [(kind, what) for kind, b, what in in_short(cluster.brokers.take()) if b == 1]
        assert to_one == [
            ("UpdateMetadata", {"t-0": (-2, (1, 2))}),
            ("StopReplica", {"t-0": "stop"}),
            ("StopReplica", {"t-0": "delete"}),
        ]
        assert sorted(cluster.zookeeper.nodes) == before
        assert controller.context.all_topics == set()
        assert controller.context.partition_states == {}
        assert controller.context.replica_states == {}


@pytest.mark.mission("DEL-1")
async def test_a_topic_made_again_at_once_is_another_one(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        await cluster.create_topic("t", (1, 2))
        first = controller.context.topic_ids["t"]
        await delete(cluster, "t")
        (tp,) = await cluster.create_topic("t", (2, 1))
        assert controller.context.topic_ids["t"] != first
        assert await cluster.state(tp) == (2, (2, 1), 0)


@pytest.mark.mission("DEL-3", "DEL-4", "RSM-15", "CCB-1")
async def test_a_dead_replica_halts_the_deletion_until_its_broker_is_back(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        (controller, *_) = await cluster.start(1, 2, 3)
        await cluster.create_topic("t", (1, 2), (3, 1))
        await cluster.kill(2)
        await delete(cluster, "t")
        assert "/brokers/topics/t" in cluster.zookeeper.nodes
        assert controller.context.topics_ineligible_for_deletion == {"t"}
        assert controller.context.replicas_to_delete_count() == 1
        cluster.brokers.down.clear()
        await cluster.start(2)
        assert left(cluster, "t") == []
        assert controller.context.topics_to_be_deleted == set()


@pytest.mark.mission("DEL-3", "CCB-2", "RSM-15")
async def test_a_broker_that_dies_before_its_response(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, *_) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        cluster.brokers.mute.add(2)
        await delete(cluster, "t")
        two = PartitionAndReplica(tp, 2)
        assert controller.context.replica_state(two) is ReplicaState.DELETION_STARTED
        with capture_logs() as logs:
            await cluster.kill(2)
        assert "t-0/2 -> ReplicaDeletionIneligible" in changes(logs)
        assert controller.context.replica_state(two) is ReplicaState.OFFLINE  # ready to retry
        assert controller.context.topics_ineligible_for_deletion == {"t"}
        cluster.brokers.mute.clear()
        cluster.brokers.down.clear()
        await cluster.start(2)
        assert left(cluster, "t") == []


@pytest.mark.mission("DEL-3", "DEL-4", "RSM-15")
async def test_a_broker_that_cannot_delete(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, *_) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        cluster.brokers.errors[PartitionAndReplica(tp, 2)] = ErrorCode.UNKNOWN_SERVER_ERROR
        with capture_logs() as logs:
            await delete(cluster, "t")
        assert "t-0/2 -> ReplicaDeletionIneligible" in changes(logs)
        assert "/brokers/topics/t" in cluster.zookeeper.nodes
        cluster.brokers.errors.clear()
        await cluster.kill(2)
        cluster.brokers.down.clear()
        await cluster.start(2)
        assert left(cluster, "t") == []
        assert controller.context.all_topics == set()


@pytest.mark.mission("DEL-4", "CCB-3")
async def test_a_new_controller_takes_the_deletion_over(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        await cluster.create_topic("t", (1, 2))
        cluster.brokers.mute.add(2)
        await delete(cluster, "t")
        assert "/brokers/topics/t" in cluster.zookeeper.nodes
        cluster.brokers.mute.clear()
        cluster.zookeeper.delete("/controller")
        await cluster.settle()
        assert cluster.active.context.epoch == 2
        assert left(cluster, "t") == []


@pytest.mark.mission("DEL-4", "CCB-3")
async def test_a_new_controller_takes_over_a_halted_deletion(
    new_cluster: NewCluster, in_short: InShort
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2, 3)
        await cluster.create_topic("t", (1, 2), (2,))
        await cluster.kill(2)
        await delete(cluster, "t")
        cluster.brokers.take()
        cluster.zookeeper.delete("/controller")
        await cluster.settle()
        context = cluster.active.context
        assert context.topics_to_be_deleted == {"t"}
        assert context.topics_ineligible_for_deletion == {"t"}
        kinds = {kind for kind, _, _ in in_short(cluster.brokers.take())}
        assert kinds == {"LeaderAndIsr", "UpdateMetadata"}  # nothing is begun that cannot end
        cluster.brokers.down.clear()
        await cluster.start(2)
        assert left(cluster, "t") == []


@pytest.mark.mission("DEL-5")
async def test_topics_to_be_deleted_take_no_part_in_elections(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2, 3)
        (tp,) = await cluster.create_topic("t", (2, 3))
        cluster.brokers.mute.update({2, 3})
        await delete(cluster, "t")
        before = await cluster.state(tp)
        await cluster.kill(2)
        assert await cluster.state(tp) == before


@pytest.mark.mission("DEL-1")
async def test_unknown_topics_are_taken_off_the_list(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1)
        await delete(cluster, "nothing")
        assert left(cluster, "nothing") == []


@pytest.mark.mission("DEL-1")
async def test_deletion_can_be_switched_off(new_cluster: NewCluster) -> None:
    async with new_cluster(delete_topic_enable=False) as cluster:
        (controller,) = await cluster.start(1)
        (tp,) = await cluster.create_topic("t", (1,))
        await delete(cluster, "t")
        assert "/admin/delete_topics/t" not in cluster.zookeeper.nodes
        assert await cluster.state(tp) == (1, (1,), 0)
        assert controller.context.topics_to_be_deleted == set()


@pytest.mark.mission("DEL-1")
async def test_switched_off_at_a_failover_too(new_cluster: NewCluster) -> None:
    """The topic was put on the list while there was no controller."""
    async with new_cluster(delete_topic_enable=False) as cluster:
        await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        cluster.zookeeper.delete("/controller")
        cluster.zookeeper.create("/admin/delete_topics/t", b"")
        await cluster.settle()
        assert cluster.active.context.epoch == 2
        assert "/admin/delete_topics/t" not in cluster.zookeeper.nodes
        assert cluster.active.context.topics_to_be_deleted == set()
        assert await cluster.state(tp) == (1, (1, 2), 0)


@pytest.mark.mission("DEL-2")
async def test_growth_of_a_doomed_topic_is_undone(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, *_) = await cluster.start(1, 2)
        await cluster.create_topic("t", (1, 2))
        cluster.brokers.mute.add(2)
        await delete(cluster, "t")
        store = ZkStore(cluster.zookeeper.new_session())
        found = (await store.topic_assignments(["t"]))["t"]
        grown = {**found.partitions, 1: found.partitions[0]}
        await store.set_topic_assignment("t", found.topic_id, grown)
        await cluster.settle()
        assert list((await store.topic_assignments(["t"]))["t"].partitions) == [0]
        assert list(controller.context.assignments["t"]) == [0]


@pytest.mark.mission("CDU-4")
async def test_a_topic_removed_by_hand_is_forgotten(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        await cluster.create_topic("t", (1, 2))
        cluster.zookeeper.delete_tree("/brokers/topics/t")
        await cluster.settle()
        assert controller.context.all_topics == set()
        assert controller.context.partition_states == {}
        (tp,) = await cluster.create_topic("t", (2,))
        assert await cluster.state(tp) == (2, (2,), 0)
