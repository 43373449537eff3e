"""Reassignment: the twelve steps, their traces in ZooKeeper, and the controller's death at each."""

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from minikafka.core.controller.events import ApiPartitionReassignment
from minikafka.kernel import events
from minikafka.kernel.cluster import TopicPartition
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ZkStore
from tests.support.controller.controller_lab import ClusterOfControllers, InShort, NewCluster
from tests.support.controller.controller_trace import trace
from tests.support.controller.reassigning import (
    DeathAt,
    Logs,
    assigned,
    catch_up,
    in_zookeeper,
    wish,
)

OLD, NEW = (1, 2, 3), (4, 5, 6)
ALL = (*OLD, *NEW)
STEPS = [
    "reassignment_step_completed 1",
    "leader_epoch_raised t-0 leader 1 of 4,5,6,1,2,3",
    *[f"LeaderAndIsr to {b}" for b in ALL],
    *[f"UpdateMetadata to {b}" for b in (*ALL, 7)],
    "reassignment_step_completed 2",
    *[f"t-0/{b} NonExistentReplica -> NewReplica" for b in NEW],
    *[f"LeaderAndIsr to {b}" for b in NEW],
    *[f"UpdateMetadata to {b}" for b in (*ALL, 7)],
    "reassignment_step_completed 3",
]
COMPLETION = [
    "reassignment_step_completed 4",
    *[f"t-0/{b} NewReplica -> OnlineReplica" for b in NEW],
    "reassignment_step_completed 5",
    "reassignment_step_completed 6",
    "t-0 OnlinePartition -> OnlinePartition",
    *[f"LeaderAndIsr to {b}" for b in NEW],
    *[f"UpdateMetadata to {b}" for b in (*ALL, 7)],
    "reassignment_step_completed 7",
    *[f"t-0/{b} OnlineReplica -> OfflineReplica" for b in OLD],
    *[f"LeaderAndIsr to {b}" for b in NEW],
    *[f"UpdateMetadata to {b}" for b in (*ALL, 7)],
    *[f"StopReplica to {b}" for b in OLD],
    "reassignment_step_completed 8",
    *[f"t-0/{b} OfflineReplica -> ReplicaDeletionStarted" for b in OLD],
    *[f"StopReplica to {b}" for b in OLD],
    *[f"t-0/{b} ReplicaDeletionStarted -> ReplicaDeletionSuccessful" for b in OLD],
    *[f"t-0/{b} ReplicaDeletionSuccessful -> NonExistentReplica" for b in OLD],
    "reassignment_step_completed 9",
    "reassignment_step_completed 10",
    "reassignment_step_completed 11",
    *[f"UpdateMetadata to {b}" for b in (*ALL, 7)],
    "reassignment_step_completed 12",
]


@pytest.mark.mission("REA-1", "REA-3", "REA-4", "REA-5", "REA-6", "REA-8", "REA-9", "CDU-1")
async def test_the_twelve_steps(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, *ALL)
        (tp,) = await cluster.create_topic("t", OLD)
        with capture_logs() as logs:
            wish(cluster, {tp: NEW})
            await cluster.settle()
        assert trace(logs) == STEPS
        assert assigned(cluster, tp) == {"replicas": (*NEW, *OLD), "adding": NEW, "removing": OLD}
        assert await cluster.state(tp) == (1, OLD, 1)
        with capture_logs() as logs:  # two of three are not enough
            await catch_up(cluster, tp, 4, 5)
        assert trace(logs) == []
        with capture_logs() as logs:
            await catch_up(cluster, tp)
        assert trace(logs) == COMPLETION
        assert assigned(cluster, tp) == {"replicas": NEW, "adding": (), "removing": ()}
        assert paths.REASSIGN_PARTITIONS not in cluster.zookeeper.nodes
        assert await cluster.state(tp) == (4, NEW, 5)


@pytest.mark.mission("REA-14", "REA-2", "REA-7", "REA-11", "REA-12", "REA-13")
async def test_the_table_of_values_in_zookeeper(new_cluster: NewCluster) -> None:
    """Step, AR in the topic's znode, leader/ISR in the partition's, as the documents' table has
    them; the wish is there until step 11."""
    table = []
    async with new_cluster() as cluster:
        await cluster.start(7, *ALL)
        (tp,) = await cluster.create_topic("t", OLD)

        def sample(level: str, event: Any, facts: Any) -> None:
            if event == "reassignment_step_completed":
                there = paths.REASSIGN_PARTITIONS in cluster.zookeeper.nodes
                in_memory = tuple(sorted(facts["replicas"]))
                table.append((facts["step"], *in_zookeeper(cluster, tp), in_memory, there))

        with events.diverted(sample):
            wish(cluster, {tp: NEW})
            await cluster.settle()
            await catch_up(cluster, tp)
    assert table == [
        (1, ALL, 1, OLD, ALL, True),
        (2, ALL, 1, OLD, ALL, True),
        (3, ALL, 1, OLD, ALL, True),
        (4, ALL, 1, ALL, ALL, True),
        (5, ALL, 1, ALL, ALL, True),
        (6, ALL, 1, ALL, NEW, True),  # in memory only
        (7, ALL, 4, ALL, NEW, True),
        (8, ALL, 4, NEW, NEW, True),
        (9, ALL, 4, NEW, NEW, True),
        (10, NEW, 4, NEW, NEW, True),
        (11, NEW, 4, NEW, NEW, False),
        (12, NEW, 4, NEW, NEW, False),
    ]


@pytest.mark.mission("REA-10", "R-8")
async def test_old_replicas_are_deleted_after_they_were_stopped(
    new_cluster: NewCluster, in_short: InShort
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, *ALL)
        (tp,) = await cluster.create_topic("t", OLD)
        await cluster.active.alter_partition_reassignments({tp: NEW})
        await cluster.settle()
        cluster.brokers.take()
        await catch_up(cluster, tp)
        sent = in_short(cluster.brokers.take())
        for broker in OLD:
            told = [what["t-0"] for kind, to, what in sent if to == broker and kind[0] == "S"]
            assert told == ["stop", "delete"]


async def test_new_replicas_get_the_is_new_flag(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, *ALL)
        (tp,) = await cluster.create_topic("t", OLD)
        cluster.brokers.take()
        await cluster.active.alter_partition_reassignments({tp: NEW})
        await cluster.settle()
        first: dict[Any, Any] = {}
        for broker, message in cluster.brokers.take():
            if type(message).__name__ == "LeaderAndIsrRequest":
                first.setdefault(broker, message.topic_states[0].partition_states[0])
        assert {b: s.is_new for b, s in first.items()} == {b: b in NEW for b in ALL}
        assert {tuple(s.replicas) for s in first.values()} == {(*NEW, *OLD)}
        assert {tuple(s.adding_replicas) for s in first.values()} == {NEW}
        assert {tuple(s.removing_replicas) for s in first.values()} == {OLD}


async def finish(cluster: ClusterOfControllers, tp: TopicPartition) -> None:
    """Followers catch up until nothing is under way."""
    for _ in range(5):
        await cluster.settle()
        await catch_up(cluster, tp)


@pytest.mark.mission("REA-7", "REA-11", "CFO-5")
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("phase", ["start", "completion"])
@pytest.mark.parametrize("by_znode", [True, False])
async def test_the_controller_dies_at_every_await(
    new_cluster: NewCluster, phase: Any, before: Any, by_znode: Any
) -> None:
    """Whatever it was about to do or had just done, its successor finishes."""
    n, lived = 0, False
    while not lived:
        n += 1
        assert n < 100
        async with new_cluster() as cluster:
            await cluster.start(7, 8, *ALL)
            (tp,) = await cluster.create_topic("t", OLD)
            controller = cluster.nodes[7]
            if phase == "completion":
                begin(cluster, tp, by_znode)
                await cluster.settle()
            death = DeathAt(controller.session, n, before)
            if phase == "start":
                begin(cluster, tp, by_znode)
            else:
                await quietly_caught_up(cluster, tp)
            lived = not await death.awaited()
            began = assigned(cluster, tp)["replicas"] != OLD
            await cluster.kill(7)
            await finish(cluster, tp)
            done = {"replicas": NEW, "adding": (), "removing": ()}
            never = {"replicas": OLD, "adding": (), "removing": ()}
            assert assigned(cluster, tp) == (done if began or by_znode else never), n
            leader, isr, _ = await cluster.state(tp)
            assert leader == (4 if began or by_znode else 1), n
            assert set(isr) == set(assigned(cluster, tp)["replicas"]), n
            assert not cluster.active.context.partitions_being_reassigned, n
            assert paths.REASSIGN_PARTITIONS not in cluster.zookeeper.nodes, n
            logs = Logs(tp)
            logs.hear(cluster.brokers.take())
            assert logs.on == set(assigned(cluster, tp)["replicas"]), n
    assert n > 5


def begin(cluster: ClusterOfControllers, tp: TopicPartition, by_znode: Any) -> None:
    if by_znode:
        wish(cluster, {tp: NEW})
    else:
        cluster.active.queue.put(ApiPartitionReassignment({tp: NEW}))


async def quietly_caught_up(cluster: ClusterOfControllers, tp: TopicPartition) -> None:
    """As ``catch_up``, without waiting for the controller."""
    store = ZkStore(cluster.zookeeper.new_session())
    found = (await store.leader_isr_states([tp]))[tp]
    grown = replace(found.leader_and_isr, isr=ALL)
    await store.update_isrs({tp: replace(found, leader_and_isr=grown)})
