"""Edge cases of reassignments: single statements that no other test covers."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from minikafka.kernel.cluster import ReplicaAssignment, TopicPartition
from minikafka.kernel.ports import WatchEvent
from minikafka.protocol.messages.stop_replica import StopReplicaRequest
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ZkStore
from tests.support.controller.controller_lab import ClusterOfControllers, NewCluster
from tests.support.controller.controller_trace import story
from tests.support.controller.reassigning import assigned, catch_up, move, wish

QUIET = {"auto_leader_rebalance_enable": False}


@pytest.mark.mission("CDU-1")
async def test_a_reassignment_under_way_is_not_restarted_when_the_znode_changes(
    new_cluster: NewCluster,
) -> None:
    """Another partition's wish is added: the leader epoch of the first stays."""
    async with new_cluster(**QUIET) as cluster:
        await cluster.start(7, 1, 2)
        first, second = await cluster.create_topic("t", (1,), (1,))
        wish(cluster, {first: (2,)})
        await cluster.settle()
        before = await cluster.state(first)
        node = json.loads(cluster.zookeeper.nodes[paths.REASSIGN_PARTITIONS].data)
        node["partitions"].append({"topic": "t", "partition": 1, "replicas": [2]})
        cluster.zookeeper.set(paths.REASSIGN_PARTITIONS, json.dumps(node).encode())
        await cluster.settle()
        assert assigned(cluster, second)["adding"] == (2,)
        assert await cluster.state(first) == before


async def moved_away_from_a_dead_broker(cluster: ClusterOfControllers) -> None:
    """Topic t, moved from brokers 1 and 2 to 1 and 3 while 2 was dead. Broker 7 is the controller,
    the others have none."""
    await cluster.start(7)
    for broker_id in (1, 2, 3):
        await cluster.register(broker_id)
    await cluster.settle()
    (tp,) = await cluster.create_topic("t", (1, 2))
    await die(cluster, 2)
    await move(cluster, {tp: (1, 3)})
    await catch_up(cluster, tp)
    assert assigned(cluster, tp)["replicas"] == (1, 3)
    cluster.brokers.take()


async def die(cluster: ClusterOfControllers, broker_id: int) -> None:
    cluster.zookeeper.expire(cluster.nodes.pop(broker_id).session)
    cluster.brokers.down.add(broker_id)
    await cluster.settle()


async def come_back(cluster: ClusterOfControllers, broker_id: int) -> Any:
    """How many StopReplica requests with deletion it received since the last call."""
    cluster.brokers.down.discard(broker_id)
    await cluster.register(broker_id)
    await cluster.settle()
    return sum(
        state.delete_partition
        for to, message in cluster.brokers.take()
        if to == broker_id and isinstance(message, StopReplicaRequest)
        for topic in message.topic_states
        for state in topic.partition_states
    )


@pytest.mark.mission("REA-10")
@pytest.mark.parametrize("failover", [False, True])
async def test_a_returning_broker_gets_the_stop_replica_that_it_missed(
    new_cluster: NewCluster, failover: Any
) -> None:
    """By the controller that removed it. The next one, or the same in its next term, does not
    know; UpdateMetadata lets the broker find out."""
    async with new_cluster(**QUIET) as cluster:
        await moved_away_from_a_dead_broker(cluster)
        if failover:
            cluster.zookeeper.delete(paths.CONTROLLER)
            await cluster.settle()
        assert await come_back(cluster, 2) == (0 if failover else 1)


@pytest.mark.mission("REA-10")
async def test_a_missed_stop_replica_is_sent_until_its_response_comes(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster(**QUIET) as cluster:
        await moved_away_from_a_dead_broker(cluster)
        cluster.brokers.mute.add(2)
        assert await come_back(cluster, 2) == 0  # it hangs at the requests before
        await die(cluster, 2)
        cluster.brokers.mute.clear()
        assert await come_back(cluster, 2) == 1
        await die(cluster, 2)
        assert await come_back(cluster, 2) == 0


def leaders_written(cluster: ClusterOfControllers, tp: TopicPartition) -> list[int]:
    """The leaders that the partition's state znode names from now on."""
    path = paths.partition_state(tp)
    leaders: list[int] = []

    def on_event(event: WatchEvent) -> None:
        if event.path == path:
            leaders.append(json.loads(cluster.zookeeper.nodes[path].data)["leader"])

    cluster.zookeeper.event_listeners.append(on_event)
    return leaders


@pytest.mark.mission("REA-1")
async def test_a_reassignment_given_up_never_leaves_the_partition_without_a_leader(
    new_cluster: NewCluster,
) -> None:
    """The replica that leads is dropped: it hands over before it stops."""
    async with new_cluster(**QUIET) as cluster:
        await cluster.start(7, 1, 2, 3, 4)
        (tp,) = await cluster.create_topic("t", (1, 2))
        await move(cluster, {tp: (3, 4)})
        store = ZkStore(cluster.zookeeper.new_session())
        found = (await store.leader_isr_states([tp]))[tp]
        led = replace(found.leader_and_isr, leader=3, isr=(1, 2, 3))
        await store.update_isrs({tp: replace(found, leader_and_isr=led)})
        await cluster.settle()
        leaders = leaders_written(cluster, tp)
        await move(cluster, {tp: None})
        assert leaders
        assert set(leaders) == {1}


@pytest.mark.mission("REA-2")
async def test_replicas_of_a_replaced_reassignment_are_deleted_before_the_new_one_starts(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster(**QUIET) as cluster:
        await cluster.start(7, 1, 2, 3)
        (tp,) = await cluster.create_topic("t", (1,))
        await move(cluster, {tp: (2,)})
        with capture_logs() as logs:
            await move(cluster, {tp: (3,)})
        assert story(logs) == [
            "reassignment_step_completed 1",
            "t-0/2 NewReplica -> OfflineReplica",
            "LeaderAndIsr to 1,3",
            "UpdateMetadata to 1,2,3,7",
            "StopReplica to 2",
            "t-0/2 OfflineReplica -> ReplicaDeletionStarted",
            "StopReplica to 2",
            "t-0/2 ReplicaDeletionStarted -> ReplicaDeletionSuccessful",
            "t-0/2 ReplicaDeletionSuccessful -> NonExistentReplica",
            "leader_epoch_raised t-0 leader 1 of 3,1",
            "LeaderAndIsr to 1,3",
            "UpdateMetadata to 1,2,3,7",
            "reassignment_step_completed 2",
            "t-0/3 NonExistentReplica -> NewReplica",
            "LeaderAndIsr to 3",
            "UpdateMetadata to 1,2,3,7",
            "reassignment_step_completed 3",
        ]


@pytest.mark.mission("REA-4", "PSM-14")
async def test_a_partition_without_a_first_leader_begins_with_new_replicas(
    new_cluster: NewCluster,
) -> None:
    """Its old replicas are on brokers that never were. Replicas first, then a leader, as for a new
    topic; and it is complete at once."""
    async with new_cluster(**QUIET) as cluster:
        await cluster.start(7, 1, 2)
        (tp,) = await cluster.create_topic("t", (8, 9))
        with capture_logs() as logs:
            await move(cluster, {tp: (2, 1)})
        assert story(logs) == [
            "reassignment_step_completed 1",
            "t-0/1 NonExistentReplica -> NewReplica",
            "t-0/2 NonExistentReplica -> NewReplica",
            "t-0 NewPartition -> OnlinePartition",
            "LeaderAndIsr to 1,2",
            "UpdateMetadata to 1,2,7",
            "reassignment_step_completed 4",
            "t-0/1 NewReplica -> OnlineReplica",
            "t-0/2 NewReplica -> OnlineReplica",
            "reassignment_step_completed 5",
            "reassignment_step_completed 6",
            "leader_epoch_raised t-0 leader 2 of 2,1",
            "LeaderAndIsr to 1,2",
            "UpdateMetadata to 1,2,7",
            "reassignment_step_completed 7",
            "t-0/8 OnlineReplica -> OfflineReplica",
            "t-0/9 OnlineReplica -> OfflineReplica",
            "reassignment_step_completed 8",
            "t-0/8 OfflineReplica -> ReplicaDeletionStarted",
            "t-0/9 OfflineReplica -> ReplicaDeletionStarted",
            "t-0/8 ReplicaDeletionStarted -> ReplicaDeletionSuccessful",
            "t-0/9 ReplicaDeletionStarted -> ReplicaDeletionSuccessful",
            "t-0/8 ReplicaDeletionSuccessful -> NonExistentReplica",
            "t-0/9 ReplicaDeletionSuccessful -> NonExistentReplica",
            "reassignment_step_completed 9",
            "reassignment_step_completed 10",
            "reassignment_step_completed 11",
            "UpdateMetadata to 1,2,7",
            "reassignment_step_completed 12",
        ]


def leader_is_faster(
    cluster: ClusterOfControllers, tp: TopicPartition, isr: tuple[int, ...]
) -> Any:
    """Before the controller writes the partition's state next, its leader does; set when it did."""
    path = paths.partition_state(tp)
    session = cluster.nodes[7].session
    multi = session.multi
    raced = asyncio.Event()

    async def beaten(ops: Any) -> Any:
        if path in [op.path for op in ops]:
            session.multi = multi  # type: ignore[method-assign]  # the test intercepts it
            state = json.loads(cluster.zookeeper.nodes[path].data)
            cluster.zookeeper.set(path, json.dumps(state | {"isr": isr}).encode())
            raced.set()
        return await multi(ops)

    session.multi = beaten  # type: ignore[method-assign]  # the test intercepts it
    return raced


@pytest.mark.mission("REA-3", "PSM-9")
async def test_a_new_leader_epoch_keeps_a_concurrent_isr_change_of_the_leader(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster(**QUIET) as cluster:
        await cluster.start(7, 1, 2, 3)
        (tp,) = await cluster.create_topic("t", (1, 2))
        raced = leader_is_faster(cluster, tp, (1,))
        wish(cluster, {tp: (1, 3)})
        await cluster.settle()
        assert raced.is_set()
        assert await cluster.state(tp) == (1, (1,), 1)


@pytest.mark.mission("REA-5", "REA-8", "PSM-9")
async def test_a_target_that_falls_behind_at_the_last_moment_is_waited_for_again(
    new_cluster: NewCluster,
) -> None:
    """The leader drops it from the ISR after the controller has read the state, and before it
    writes its election: old replicas stay, in memory too."""
    async with new_cluster(**QUIET) as cluster:
        await cluster.start(7, 1, 2)
        (tp,) = await cluster.create_topic("t", (1,))
        await move(cluster, {tp: (2,)})
        raced = leader_is_faster(cluster, tp, (1,))
        await catch_up(cluster, tp)
        assert raced.is_set()
        moving = ReplicaAssignment((2, 1), (2,), (1,))
        assert cluster.active.context.assignment(tp) == moving
        assert await cluster.active.list_partition_reassignments(None) == {tp: moving}
        assert (await cluster.state(tp))[:2] == (1, (1,))
        await catch_up(cluster, tp)
        assert assigned(cluster, tp) == {"replicas": (2,), "adding": (), "removing": ()}
        assert (await cluster.state(tp))[:2] == (2, (2,))


async def test_a_request_is_served_despite_an_unreadable_reassignment_znode(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster(**QUIET) as cluster:
        await cluster.start(7, 1, 2)
        (tp,) = await cluster.create_topic("t", (1,))
        cluster.zookeeper.create(paths.REASSIGN_PARTITIONS, b"garbage")
        await cluster.settle()
        await move(cluster, {tp: (2,)})
        await catch_up(cluster, tp)
        assert assigned(cluster, tp)["replicas"] == (2,)
        assert cluster.active.context.epoch == 1


async def test_a_reassignment_without_live_replicas_waits(new_cluster: NewCluster) -> None:
    """It never had a leader, and no old or new replica is alive."""
    async with new_cluster(**QUIET) as cluster:
        await cluster.start(7)
        (tp,) = await cluster.create_topic("t", (8, 9))
        await move(cluster, {tp: (8,)})
        assert not await cluster.has_state(tp)
        assert cluster.active.context.epoch == 1
        await cluster.start(8)
        assert await cluster.has_state(tp)
        assert assigned(cluster, tp)["replicas"] == (8,)
