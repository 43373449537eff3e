"""The order of a controller's steps when brokers come, go and shut down, with every kind of topic.

Each scenario has a topic for each step, so that a step that is dropped, or trades places with its
neighbour, changes the trace.
"""

import json
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from minikafka.protocol.messages.stop_replica import StopReplicaRequest
from minikafka.protocol.messages.update_metadata import UpdateMetadataRequest
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ZkStore
from tests.support.controller.controller_lab import ClusterOfControllers, NewCluster
from tests.support.controller.controller_trace import story
from tests.support.controller.reassigning import assigned, catch_up, delete, move


def states_sent(cluster: ClusterOfControllers, kind: Any, broker_id: int | None = None) -> Any:
    """Return the partition states of sent requests of a kind: (broker, {partition: state})."""
    found = []
    for to, message in cluster.brokers.take():
        if isinstance(message, kind) and broker_id in (None, to):
            states = {
                f"{topic.topic_name}-{state.partition_index}": state
                for topic in message.topic_states
                for state in topic.partition_states
            }
            found.append((to, states))
    return found


# ------------------------------------------------------------------------------- a broker starts


@pytest.mark.mission("CCB-1", "DEL-3", "DEL-4")
async def test_a_broker_starts_that_every_step_waits_for(new_cluster: NewCluster) -> None:
    """Metadata, replicas, elections of New and Offline partitions, reassignments, deletions."""
    async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
        await cluster.start(7, 1, 2)
        await cluster.create_topic("offline", (2,))
        await cluster.create_topic("doomed", (1, 2))
        (moving,) = await cluster.create_topic("moving", (1,))
        await move(cluster, {moving: (2,)})
        await cluster.kill(2)
        await cluster.create_topic("new", (2,))
        await delete(cluster, "doomed")
        cluster.brokers.down.clear()
        with capture_logs() as logs:
            await cluster.start(2)
        assert story(logs) == [
            "New broker startup callback for 2",
            "UpdateMetadata to 1,7,2",
            "doomed-0/2 OfflineReplica -> OnlineReplica",
            "moving-0/2 OfflineReplica -> OnlineReplica",
            "new-0/2 OnlineReplica -> OnlineReplica",
            "offline-0/2 OfflineReplica -> OnlineReplica",
            "LeaderAndIsr to 2",
            "UpdateMetadata to 1,2,7",
            "new-0 NewPartition -> OnlinePartition",
            "offline-0 OfflinePartition -> OnlinePartition",
            "LeaderAndIsr to 2",
            "UpdateMetadata to 1,2,7",
            "leader_epoch_raised moving-0 leader 1 of 2,1",
            "LeaderAndIsr to 1,2",
            "UpdateMetadata to 1,2,7",
            "reassignment_step_completed 2",
            "reassignment_step_completed 3",
            "topic_deletion_started doomed",
            "UpdateMetadata to 1,2,7",
            "doomed-0/2 OnlineReplica -> OfflineReplica",
            "StopReplica to 2",
            "doomed-0/2 OfflineReplica -> ReplicaDeletionStarted",
            "StopReplica to 2",
            "doomed-0/2 ReplicaDeletionStarted -> ReplicaDeletionSuccessful",
            "doomed-0/1 ReplicaDeletionSuccessful -> NonExistentReplica",
            "doomed-0/2 ReplicaDeletionSuccessful -> NonExistentReplica",
            "topic_deletion_completed doomed",
        ]


# -------------------------------------------------------------------------------- a broker fails


@pytest.mark.mission("CCB-2", "DEL-3", "DEL-5", "RSM-15")
async def test_a_broker_fails_that_every_step_is_about(new_cluster: NewCluster) -> None:
    """Elections, then the ISRs that others lead, then deletions. Topics that are being deleted
    take part in the last step alone: nobody is elected, no ISR is written."""
    async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
        await cluster.start(7, 1, 2)
        await cluster.create_topic("followed", (1, 2))
        await cluster.create_topic("led", (2, 1))
        await cluster.create_topic("doomed", (2, 1))
        (waiting,) = await cluster.create_topic("waiting", (2, 1))
        await move(cluster, {waiting: (2, 1, 7)})
        cluster.brokers.mute.add(2)
        await delete(cluster, "doomed", "waiting")  # which waits for its reassignment
        before = await cluster.state(waiting)
        with capture_logs() as logs:
            await cluster.kill(2)
        assert story(logs) == [
            "Broker failure callback for 2",
            "led-0 OnlinePartition -> OfflinePartition",
            "led-0 OfflinePartition -> OnlinePartition",
            "LeaderAndIsr to 1",
            "UpdateMetadata to 1,7",
            "followed-0/2 OnlineReplica -> OfflineReplica",
            "led-0/2 OnlineReplica -> OfflineReplica",
            "LeaderAndIsr to 1",
            "UpdateMetadata to 1,7",
            "doomed-0/2 ReplicaDeletionStarted -> ReplicaDeletionIneligible",
            "topic_deletion_halted doomed,waiting",
            "doomed-0/2 ReplicaDeletionIneligible -> OfflineReplica",
        ]
        assert await cluster.state(waiting) == before


@pytest.mark.mission("CCB-2")
@pytest.mark.parametrize("replicas", [None, (2,), (1, 2)])
async def test_brokers_get_one_update_about_a_dead_broker(
    new_cluster: NewCluster, replicas: Any
) -> None:
    """Whether it led the last replica in sync, a follower left an ISR, or it had nothing at all,
    in which case no election and no ISR tells of its death."""
    async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
        await cluster.start(1, 2, 3)
        if replicas is not None:
            await cluster.create_topic("t", replicas)
        cluster.brokers.take()
        await cluster.kill(2)
        heard = [
            (to, [broker.id for broker in message.live_brokers])
            for to, message in cluster.brokers.take()
            if isinstance(message, UpdateMetadataRequest)
        ]
        assert sorted(heard) == [(1, [1, 3]), (3, [1, 3])]


@pytest.mark.mission("CCB-2", "DEL-5")
async def test_brokers_get_an_update_if_a_dead_broker_only_had_topics_being_deleted(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
        await cluster.start(1, 2, 3)
        (waiting,) = await cluster.create_topic("waiting", (2,))
        await move(cluster, {waiting: (2, 3)})
        await delete(cluster, "waiting")
        cluster.brokers.take()
        with capture_logs() as logs:
            await cluster.kill(2)
        assert story(logs) == [
            "Broker failure callback for 2",
            "topic_deletion_halted waiting",
            "UpdateMetadata to 1,3",
        ]


@pytest.mark.mission("DEL-5", "CCB-1")
async def test_a_doomed_topic_gets_no_leader_when_its_broker_is_back(
    new_cluster: NewCluster,
) -> None:
    """It lost its leader, was to move, and is to be deleted: the broker stops and deletes it."""
    async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
        await cluster.start(7, 1, 2)
        (tp,) = await cluster.create_topic("t", (2,))
        await cluster.kill(2)
        await move(cluster, {tp: (1,)})
        await delete(cluster, "t")
        assert (await cluster.state(tp))[0] == -1
        cluster.brokers.down.clear()
        with capture_logs() as logs:
            await cluster.start(2)
        lines = story(logs)
        assert "t-0 OfflinePartition -> OnlinePartition" not in lines
        assert lines[-1] == "topic_deletion_completed t"


@pytest.mark.mission("CCB-2", "RSM-12")
async def test_the_next_dead_broker_is_sent_to_brokers_even_if_the_isr_shrank_before(
    new_cluster: NewCluster,
) -> None:
    """Brokers get one update about an election in one event, and another one in the next event."""
    async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
        await cluster.start(7, 1, 2, 3)
        (tp,) = await cluster.create_topic("t", (3, 2, 1))
        await cluster.kill(3)
        store = ZkStore(cluster.zookeeper.new_session())
        found = (await store.leader_isr_states([tp]))[tp]
        shrunk = replace(found.leader_and_isr, isr=(2,))
        await store.update_isrs({tp: replace(found, leader_and_isr=shrunk)})
        cluster.brokers.take()
        await cluster.kill(1)
        (state,) = [states["t-0"] for _, states in states_sent(cluster, LeaderAndIsrRequest, 2)]
        assert (state.leader, state.isr) == (2, [2])


# --------------------------------------------------------------------------- controlled shutdown


@pytest.mark.mission("CSH-14")
async def test_a_controlled_shutdown_in_order(new_cluster: NewCluster) -> None:
    """Leaders move first; then the broker stops following, and only then do ISRs shrink, or
    leaders would take it back. Topics that are being deleted stay as they are."""
    async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
        await cluster.start(7, 1, 2)
        followed, led = [
            (await cluster.create_topic(name, replicas))[0]
            for name, replicas in (("followed", (1, 2)), ("led", (2, 1)))
        ]
        await cluster.create_topic("alone", (2,))  # no other replica could lead it
        doomed = await cluster.create_topic("doomed", (2, 1), (1, 2))
        await move(cluster, dict.fromkeys(doomed, (2, 1, 7)))
        await delete(cluster, "doomed")
        before = [await cluster.state(tp) for tp in doomed]
        cluster.brokers.take()
        isr_when_stopped = []
        send = cluster.active._channels.send

        def recorded(request: Any) -> None:
            if isinstance(request.message, StopReplicaRequest):
                state = json.loads(cluster.zookeeper.nodes[paths.partition_state(followed)].data)
                isr_when_stopped.append(state["isr"])
            send(request)

        cluster.active._channels.send = recorded  # type: ignore[method-assign]  # the test intercepts it
        with capture_logs() as logs:
            assert await cluster.active.controlled_shutdown(2, -1) == []
            await cluster.settle()
        assert story(logs) == [
            "led-0 OnlinePartition -> OnlinePartition",
            "LeaderAndIsr to 1,2",
            "UpdateMetadata to 1,2,7",
            "StopReplica to 2",
            "followed-0/2 OnlineReplica -> OfflineReplica",
            "LeaderAndIsr to 1",
            "UpdateMetadata to 1,2,7",
            "StopReplica to 2",
        ]
        assert not [entry for entry in logs if entry["log_level"] == "error"]
        assert isr_when_stopped == [[1, 2], [1]]
        assert (await cluster.state(led))[:2] == (1, (1,))
        assert [await cluster.state(tp) for tp in doomed] == before
        stopped = states_sent(cluster, StopReplicaRequest, 2)
        assert [sorted(states) for _, states in stopped] == [["followed-0"], ["followed-0"]]
        assert not any(state.delete_partition for _, states in stopped for state in states.values())


# --------------------------------------------------------------------------------- reassignments


@pytest.mark.mission("REA-8", "REA-9")
async def test_a_leader_that_stays_drops_the_old_replicas_before_they_stop(
    new_cluster: NewCluster,
) -> None:
    """A new epoch makes it take over the target replicas: else it would take an old replica, which
    still fetches, back into the ISR."""
    async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
        await cluster.start(7, 1, 2, 3)
        (tp,) = await cluster.create_topic("t", (1, 2))
        await move(cluster, {tp: (1, 3)})
        _, _, epoch = await cluster.state(tp)
        cluster.brokers.take()
        with capture_logs() as logs:
            await catch_up(cluster, tp)
        assert story(logs) == [
            "reassignment_step_completed 4",
            "t-0/3 NewReplica -> OnlineReplica",
            "reassignment_step_completed 5",
            "reassignment_step_completed 6",
            "leader_epoch_raised t-0 leader 1 of 1,3",
            "LeaderAndIsr to 1,3",
            "UpdateMetadata to 1,2,3,7",
            "reassignment_step_completed 7",
            "t-0/2 OnlineReplica -> OfflineReplica",
            "LeaderAndIsr to 1,3",
            "UpdateMetadata to 1,2,3,7",
            "StopReplica to 2",
            "reassignment_step_completed 8",
            "t-0/2 OfflineReplica -> ReplicaDeletionStarted",
            "StopReplica to 2",
            "t-0/2 ReplicaDeletionStarted -> ReplicaDeletionSuccessful",
            "t-0/2 ReplicaDeletionSuccessful -> NonExistentReplica",
            "reassignment_step_completed 9",
            "reassignment_step_completed 10",
            "reassignment_step_completed 11",
            "UpdateMetadata to 1,2,3,7",
            "reassignment_step_completed 12",
        ]
        of_leader = [states["t-0"] for _, states in states_sent(cluster, LeaderAndIsrRequest, 1)]
        assert [(s.leader, s.leader_epoch, s.isr, s.replicas) for s in of_leader] == [
            (1, epoch + 1, [1, 2, 3], [1, 3]),
            (1, epoch + 2, [1, 3], [1, 3]),
        ]
        assert not any(s.adding_replicas or s.removing_replicas for s in of_leader)
        assert await cluster.state(tp) == (1, (1, 3), epoch + 2)


@pytest.mark.mission("REA-8")
async def test_a_dead_leader_that_is_a_target_hands_over(new_cluster: NewCluster) -> None:
    """Its broker is unreachable for the controller alone: to raise the epoch would not do."""
    async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
        await cluster.start(7, 1, 2, 3)
        (tp,) = await cluster.create_topic("t", (1, 2))
        await move(cluster, {tp: (1, 3)})
        cluster.active.context.remove_brokers([1])
        await catch_up(cluster, tp)
        leader, isr, _ = await cluster.state(tp)
        assert (leader, set(isr)) == (3, {1, 3})
        assert assigned(cluster, tp)["replicas"] == (1, 3)


# --------------------------------------------------------------------------------------- deletion


@pytest.mark.mission("DEL-3", "RSM-15")
async def test_dead_replicas_are_ineligible_when_a_deletion_begins(new_cluster: NewCluster) -> None:
    """The living are stopped and deleted, and the topic waits for the dead."""
    async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
        await cluster.start(7, 1, 2)
        await cluster.create_topic("t", (1, 2))
        await cluster.kill(2)
        cluster.brokers.take()
        with capture_logs() as logs:
            await delete(cluster, "t")
        assert story(logs) == [
            "topic_deletion_started t",
            "t-0 OnlinePartition -> OfflinePartition",
            "t-0 OfflinePartition -> NonExistentPartition",
            "UpdateMetadata to 1,7",
            "t-0/2 OfflineReplica -> ReplicaDeletionIneligible",
            "t-0/1 OnlineReplica -> OfflineReplica",
            "StopReplica to 1",
            "t-0/1 OfflineReplica -> ReplicaDeletionStarted",
            "StopReplica to 1",
            "topic_deletion_halted t",
            "t-0/1 ReplicaDeletionStarted -> ReplicaDeletionSuccessful",
            "t-0/2 ReplicaDeletionIneligible -> OfflineReplica",
        ]
        assert paths.topic("t") in cluster.zookeeper.nodes
        assert await cluster.has_state(TopicPartition("t", 0))


@pytest.mark.mission("DEL-4", "REA-13")
async def test_the_end_of_a_reassignment_resumes_the_deletion(new_cluster: NewCluster) -> None:
    """As the last step, after all brokers were notified."""
    async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
        await cluster.start(7, 1, 2)
        (tp,) = await cluster.create_topic("t", (1,))
        await move(cluster, {tp: (2,)})
        with capture_logs() as logs:
            await delete(cluster, "t")
        assert story(logs) == ["topic_deletion_halted t"]
        with capture_logs() as logs:
            await catch_up(cluster, tp)
        lines = story(logs)
        end = lines.index("reassignment_step_completed 11")
        assert lines[end + 1 : end + 3] == ["UpdateMetadata to 1,2,7", "topic_deletion_started t"]
        assert lines.index("topic_deletion_completed t") > lines.index(
            "reassignment_step_completed 12"
        )
        assert paths.topic("t") not in cluster.zookeeper.nodes
