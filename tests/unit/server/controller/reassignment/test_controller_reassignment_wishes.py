"""Reassignments given up, replaced, refused, many at once, and under broker failures."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from minikafka.kernel.cluster import ReplicaAssignment, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ZkStore
from tests.support.controller.controller_lab import ClusterOfControllers, NewCluster
from tests.support.controller.reassigning import Logs, assigned, catch_up, in_zookeeper, wish

NOTHING = ((), ())


def moves(cluster: ClusterOfControllers, tp: TopicPartition) -> Any:
    found = assigned(cluster, tp)
    return found["adding"], found["removing"]


async def move(
    cluster: ClusterOfControllers, targets: Mapping[TopicPartition, tuple[int, ...] | None]
) -> Any:
    """The codes of the answers, and everything quiet."""
    results = await cluster.active.alter_partition_reassignments(targets)
    await cluster.settle()
    return [ErrorCode.NONE if e is None else e.code for e in map(results.get, targets)]


@pytest.mark.mission("REA-1")
async def test_a_request_may_keep_the_replication_factor(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2, 3, 4)
        (tp,) = await cluster.create_topic("t", (1, 2))
        controller = cluster.active
        for target in ((3,), (1, 2, 3)):
            result = (await controller.alter_partition_reassignments({tp: target}, False))[tp]
            assert result is not None
            assert result.code is ErrorCode.INVALID_REPLICATION_FACTOR
            assert moves(cluster, tp) == NOTHING
        missing = TopicPartition("missing", 0)
        result = (await controller.alter_partition_reassignments({missing: (1,)}, False))[missing]
        assert result is not None
        assert result.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # While replicas are moved, the target's are counted.
        for accepted in ((3, 4), (2, 4), None):
            results = await controller.alter_partition_reassignments({tp: accepted}, False)
            assert results == {tp: None}
            await cluster.settle()
        assert moves(cluster, tp) == NOTHING


async def lead(
    cluster: ClusterOfControllers, tp: TopicPartition, leader: int, isr: tuple[int, ...]
) -> None:
    """The state znode as an election and ISR changes would have left it."""
    store = ZkStore(cluster.zookeeper.new_session())
    found = (await store.leader_isr_states([tp]))[tp]
    known = replace(found.leader_and_isr, leader=leader, isr=isr)
    await store.update_isrs({tp: replace(found, leader_and_isr=known)})
    await cluster.settle()


# ------------------------------------------------------------------------------ given up, replaced


@pytest.mark.mission("REA-1")
async def test_a_cancelled_reassignment_goes_back_and_deletes_the_added_replicas(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2, 3, 4)
        (tp,) = await cluster.create_topic("t", (1, 2))
        logs = Logs(tp)
        assert await move(cluster, {tp: (3, 4)}) == [ErrorCode.NONE]
        await catch_up(cluster, tp, 3)
        logs.hear(cluster.brokers.take())
        assert logs.on == {1, 2, 3, 4}
        assert await move(cluster, {tp: None}) == [ErrorCode.NONE]
        assert assigned(cluster, tp)["replicas"] == (1, 2)
        assert moves(cluster, tp) == NOTHING
        assert in_zookeeper(cluster, tp) == ((1, 2), 1, (1, 2))
        logs.hear(cluster.brokers.take())
        assert logs.on == {1, 2}
        assert await move(cluster, {tp: None}) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]
        assert not cluster.active.context.partitions_being_reassigned


@pytest.mark.mission("REA-2")
async def test_another_target_replaces_the_first(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2, 3, 4, 5)
        (tp,) = await cluster.create_topic("t", (1, 2))
        logs = Logs(tp)
        await move(cluster, {tp: (3, 4)})
        logs.hear(cluster.brokers.take())
        assert await move(cluster, {tp: (1, 4, 5)}) == [ErrorCode.NONE]
        assert assigned(cluster, tp)["replicas"] == (1, 4, 5, 2)
        assert moves(cluster, tp) == ((4, 5), (2,))
        await catch_up(cluster, tp)
        assert in_zookeeper(cluster, tp) == ((1, 4, 5), 1, (1, 4, 5))
        logs.hear(cluster.brokers.take())
        assert logs.on == {1, 4, 5}


async def test_a_new_replica_that_leads_hands_over_before_it_is_dropped(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2, 3, 4)
        (tp,) = await cluster.create_topic("t", (1, 2))
        await move(cluster, {tp: (3, 4)})
        await catch_up(cluster, tp, 3)
        await lead(cluster, tp, 3, (1, 2, 3))
        assert await move(cluster, {tp: None}) == [ErrorCode.NONE]
        assert in_zookeeper(cluster, tp) == ((1, 2), 1, (1, 2))


async def test_the_last_replica_in_sync_is_not_dropped(new_cluster: NewCluster) -> None:
    """Kafka deletes it, with the records that only it has."""
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2, 3)
        (tp,) = await cluster.create_topic("t", (1,))
        await move(cluster, {tp: (2, 3)})
        await lead(cluster, tp, 2, (2,))
        assert await move(cluster, {tp: None}) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
        assert moves(cluster, tp) == ((2, 3), (1,))
        await catch_up(cluster, tp, 3)
        assert in_zookeeper(cluster, tp) == ((2, 3), 2, (2, 3))


async def test_another_order_alone_is_a_reassignment_too(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2, 3)
        (tp,) = await cluster.create_topic("t", (1, 2, 3))
        assert await move(cluster, {tp: (3, 1, 2)}) == [ErrorCode.NONE]
        assert assigned(cluster, tp)["replicas"] == (3, 1, 2)
        assert (await cluster.state(tp))[:2] == (1, (1, 2, 3))
        assert not cluster.active.context.partitions_being_reassigned
        assert cluster.active.context.preferred_replica_imbalance_count() == 1


async def test_fewer_replicas_are_done_at_once(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2, 3)
        (tp,) = await cluster.create_topic("t", (1, 2, 3))
        assert await move(cluster, {tp: (2,)}) == [ErrorCode.NONE]
        assert in_zookeeper(cluster, tp) == ((2,), 2, (2,))


# ---------------------------------------------------------------------------------------- refused


async def test_refused_reassignments(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        nowhere = TopicPartition("nowhere", 0)
        invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        for target in ((), (1, 1), (-1, 2), (1, 9)):
            assert await move(cluster, {tp: target}) == [invalid], target
        assert await move(cluster, {nowhere: (1,), tp: (2, 1)}) == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NONE,
        ]
        assert await move(cluster, {nowhere: None}) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]
        other = cluster.nodes[2].controller
        with pytest.raises(KafkaError) as refused:
            await other.alter_partition_reassignments({tp: (1,)})
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        with pytest.raises(KafkaError):
            await other.list_partition_reassignments(None)


@pytest.mark.mission("REA-13")
async def test_a_deletion_waits_for_the_reassignment_and_nothing_new_is_begun(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2, 3)
        (tp,) = await cluster.create_topic("t", (1, 2))
        await move(cluster, {tp: (3,)})
        await ZkStore(cluster.zookeeper.new_session()).request_topic_deletion("t")
        await cluster.settle()
        assert paths.topic("t") in cluster.zookeeper.nodes
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await move(cluster, {tp: (2,)}) == [unknown]
        await catch_up(cluster, tp)
        assert paths.topic("t") not in cluster.zookeeper.nodes
        assert not cluster.active.context.partitions_being_reassigned


# -------------------------------------------------------------------------------------- the znode


@pytest.mark.mission("CDU-1", "REA-1")
async def test_impossible_reassignments_are_removed_from_the_znode(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2, 3)
        a, b = await cluster.create_topic("t", (1,), (1,))
        wish(cluster, {a: (2,), b: (9,), TopicPartition("gone", 0): (1,)})
        await cluster.settle()
        store = ZkStore(cluster.zookeeper.new_session())
        assert await store.reassignment() == {a: (2,)}
        await catch_up(cluster, a)
        assert paths.REASSIGN_PARTITIONS not in cluster.zookeeper.nodes
        wish(cluster, {b: (3,)})  # the watch is armed again
        await cluster.settle()
        assert moves(cluster, b) == ((3,), (1,))


async def test_a_request_supersedes_the_znode(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2, 3)
        a, b = await cluster.create_topic("t", (1,), (1,))
        wish(cluster, {a: (2,), b: (2,)})
        await cluster.settle()
        assert await move(cluster, {a: (3,)}) == [ErrorCode.NONE]
        assert await ZkStore(cluster.zookeeper.new_session()).reassignment() == {b: (2,)}
        assert moves(cluster, a) == ((3,), (1,))


@pytest.mark.parametrize("data", [b"", b"nonsense", b'{"version":1}', b'{"partitions":[{}]}'])
async def test_an_unreadable_reassignment_znode_is_ignored(
    new_cluster: NewCluster, data: bytes
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2)
        (tp,) = await cluster.create_topic("t", (1,))
        cluster.zookeeper.create(paths.REASSIGN_PARTITIONS, data)
        await cluster.settle()
        assert cluster.active.context.epoch == 1
        cluster.zookeeper.delete(paths.REASSIGN_PARTITIONS)
        wish(cluster, {tp: (2,)})
        await cluster.settle()
        assert moves(cluster, tp) == ((2,), (1,))


async def test_a_reassignment_requested_without_a_controller(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2)
        (tp,) = await cluster.create_topic("t", (1,))
        cluster.zookeeper.delete("/controller")
        wish(cluster, {tp: (2,)})
        await cluster.settle()
        assert moves(cluster, tp) == ((2,), (1,))


# -------------------------------------------------------------------------------------- many, long


async def test_many_take_each_step_together(new_cluster: NewCluster) -> None:
    """A topic's znode is written once when a hundred of its partitions begin to move."""
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2)
        partitions = await cluster.create_topic("t", *[(1,)] * 50)
        others = await cluster.create_topic("u", *[(1,)] * 50)
        versions = [cluster.zookeeper.nodes[paths.topic(t)].version for t in "tu"]
        assert set(await move(cluster, dict.fromkeys([*partitions, *others], (2,)))) == {
            ErrorCode.NONE
        }
        now = [cluster.zookeeper.nodes[paths.topic(t)].version for t in "tu"]
        assert now == [version + 1 for version in versions]
        found = await cluster.active.list_partition_reassignments(None)
        assert found == dict.fromkeys([*partitions, *others], ReplicaAssignment((2, 1), (2,), (1,)))
        asked = [others[3], TopicPartition("nowhere", 0)]
        found = await cluster.active.list_partition_reassignments(asked)
        assert list(found) == [others[3]]
        for tp in (*partitions, *others):
            await catch_up(cluster, tp)
        assert await cluster.active.list_partition_reassignments(None) == {}
        assert {in_zookeeper(cluster, tp) for tp in partitions} == {((2,), 2, (2,))}


async def test_partitions_added_at_the_same_time_stay(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2)
        (tp,) = await cluster.create_topic("t", (1,))
        store = ZkStore(cluster.zookeeper.new_session())
        found = (await store.topic_assignments(["t"]))["t"]
        grown = {**found.partitions, 1: ReplicaAssignment((2,))}
        await store.set_topic_assignment("t", found.topic_id, grown)
        await cluster.active.alter_partition_reassignments({tp: (2,)})
        await cluster.settle()
        assert (await store.topic_assignments(["t"]))["t"].partitions == {
            0: ReplicaAssignment((2, 1), (2,), (1,)),
            1: ReplicaAssignment((2,)),
        }
        assert await cluster.state(TopicPartition("t", 1)) == (2, (2,), 0)


# -------------------------------------------------------------------------------- broker failures


@pytest.mark.mission("CCB-1")
async def test_a_target_that_dies_is_waited_for(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2, 3)
        (tp,) = await cluster.create_topic("t", (1, 2))
        await move(cluster, {tp: (3, 2)})
        await cluster.kill(3)
        assert moves(cluster, tp) == ((3,), (1,))
        cluster.brokers.take()
        cluster.brokers.down.discard(3)
        with capture_logs() as logs:
            await cluster.start(3)
        told = [b for b, m in cluster.brokers.take() if type(m).__name__.startswith("Leader")]
        assert 3 in told
        assert 2 in [e["step"] for e in logs if e["event"] == "reassignment_step_completed"]
        await catch_up(cluster, tp)
        assert in_zookeeper(cluster, tp) == ((2, 3), 3, (2, 3))


async def test_targets_in_sync_and_dead_do_not_take_over(new_cluster: NewCluster) -> None:
    """Of two brokers that died, the state znode still says that they are in sync."""
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2)
        (tp,) = await cluster.create_topic("t", (1,))
        await move(cluster, {tp: (2,)})
        controller = cluster.active
        controller.context.remove_brokers([2])
        await lead(cluster, tp, 1, (1, 2))
        assert moves(cluster, tp) == ((2,), (1,))
        assert await cluster.state(tp) == (1, (1, 2), 1)


async def test_a_dead_old_replica_is_forgotten(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2, 3)
        (tp,) = await cluster.create_topic("t", (1, 2))
        await cluster.kill(1)
        await move(cluster, {tp: (3, 2)})
        await catch_up(cluster, tp)
        assert in_zookeeper(cluster, tp) == ((2, 3), 2, (2, 3))


async def test_a_partition_that_never_had_a_leader_starts_on_its_live_replicas(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2)
        (tp,) = await cluster.create_topic("t", (8, 9))
        assert not await cluster.has_state(tp)
        assert await move(cluster, {tp: (2,)}) == [ErrorCode.NONE]
        assert in_zookeeper(cluster, tp) == ((2,), 2, (2,))
