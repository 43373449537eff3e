"""Each replica transition with its side effects: znodes, context, requests."""

from dataclasses import replace
from typing import Any

import pytest

from minikafka.core.controller import replica_machine
from minikafka.core.controller.states import ReplicaState
from minikafka.kernel.cluster import LeaderAndIsr, ReplicaAssignment
from minikafka.kernel.ports import ConnectionLost
from minikafka.kernel.slices import run_at_once
from tests.support.controller.controller_states import Cluster, Summary

R = ReplicaState


def at(cluster: Cluster, replica: Any, state: Any) -> Any:
    cluster.context.replica_states[replica] = state
    return replica


@pytest.mark.mission("RSM-9")
def test_new_replica_gets_leader_and_isr(cluster: Cluster, summary: Summary) -> None:
    (tp,) = cluster.topic("t", (1, 2, 3))
    cluster.led(tp, 1, (1, 2))
    cluster.move_replicas([cluster.replica(tp, 3)], R.NEW)
    assert cluster.context.replica_state(cluster.replica(tp, 3)) is R.NEW
    assert summary(cluster.sent()) == [
        ("LeaderAndIsr", 3, {"t-0": (1, (1, 2), True)}),
        ("UpdateMetadata", 1, {"t-0": (1, (1, 2))}),
        ("UpdateMetadata", 2, {"t-0": (1, (1, 2))}),
        ("UpdateMetadata", 3, {"t-0": (1, (1, 2))}),
    ]


@pytest.mark.mission("RSM-9")
def test_new_replica_of_a_leaderless_partition_gets_no_request(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.move_replicas([cluster.replica(tp, 1), cluster.replica(tp, 2)], R.NEW)
    assert cluster.sent() == []


@pytest.mark.mission("RSM-9")
def test_a_new_replica_may_not_lead(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.led(tp, 1, (1, 2))
    (outcome,) = cluster.move_replicas([cluster.replica(tp, 1)], R.NEW)
    assert "requested to become leader" in outcome.refusals[0].reason
    assert cluster.context.replica_state(cluster.replica(tp, 1)) is R.NON_EXISTENT
    assert cluster.sent() == []


@pytest.mark.mission("RSM-10")
def test_new_to_online_joins_the_assignment(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.led(tp, 1, (1, 2))
    cluster.move_replicas(
        [at(cluster, cluster.replica(tp, 2), R.NEW), at(cluster, cluster.replica(tp, 3), R.NEW)],
        R.ONLINE,
    )
    assert cluster.context.assignment(tp).replicas == (1, 2, 3)
    assert cluster.sent() == []


@pytest.mark.mission("RSM-11")
@pytest.mark.parametrize("before", [R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE])
def test_replica_back_online_gets_leader_and_isr(
    cluster: Cluster, summary: Summary, before: ReplicaState
) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.led(tp, 1, (1, 2))
    cluster.move_replicas([at(cluster, cluster.replica(tp, 2), before)], R.ONLINE)
    assert summary(cluster.sent())[0] == ("LeaderAndIsr", 2, {"t-0": (1, (1, 2), False)})


@pytest.mark.mission("RSM-11")
def test_replica_back_online_without_a_leader_gets_no_request(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.move_replicas([at(cluster, cluster.replica(tp, 2), R.OFFLINE)], R.ONLINE)
    assert cluster.context.replica_state(cluster.replica(tp, 2)) is R.ONLINE
    assert cluster.sent() == []


@pytest.mark.mission("RSM-12", "RSM-17", "R-5")
@pytest.mark.parametrize("before", [R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE])
def test_offline_replica_leaves_the_isr_and_all_others_are_notified(
    cluster: Cluster, summary: Summary, before: ReplicaState
) -> None:
    (tp,) = cluster.topic("t", (1, 2, 3))
    cluster.led(tp, 1, (1, 2, 3), leader_epoch=3, zk_version=7)
    cluster.move_replicas([at(cluster, cluster.replica(tp, 2), before)], R.OFFLINE)
    assert cluster.znodes[tp].leader_and_isr == LeaderAndIsr(1, 4, (1, 3), 8)
    assert cluster.context.leadership[tp] == cluster.znodes[tp]
    assert summary(cluster.sent()) == [
        ("LeaderAndIsr", 1, {"t-0": (1, (1, 3), False)}),
        ("LeaderAndIsr", 3, {"t-0": (1, (1, 3), False)}),
        ("UpdateMetadata", 1, {"t-0": (1, (1, 3))}),
        ("UpdateMetadata", 2, {"t-0": (1, (1, 3))}),
        ("UpdateMetadata", 3, {"t-0": (1, (1, 3))}),
        ("StopReplica", 2, {"t-0": (3, False)}),  # under the epoch that it knows
    ]


@pytest.mark.mission("RSM-12")
def test_a_dead_broker_is_not_written_to(cluster: Cluster, summary: Summary) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.led(tp, 1, (1, 2))
    cluster.context.remove_brokers([2])
    cluster.move_replicas([at(cluster, cluster.replica(tp, 2), R.ONLINE)], R.OFFLINE)
    assert {(kind, broker) for kind, broker, _ in summary(cluster.sent())} == {
        ("LeaderAndIsr", 1), ("UpdateMetadata", 1), ("UpdateMetadata", 3),
    }  # fmt: skip


@pytest.mark.mission("RSM-12", "R-6")
def test_last_isr_member_going_offline_stays_in_the_isr_without_leader(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.led(tp, 2, (2,), leader_epoch=3, zk_version=7)
    cluster.move_replicas([at(cluster, cluster.replica(tp, 2), R.ONLINE)], R.OFFLINE)
    assert cluster.znodes[tp].leader_and_isr == LeaderAndIsr(-1, 4, (2,), 8)


@pytest.mark.mission("RSM-12")
def test_out_of_the_isr_already_means_no_write(cluster: Cluster, summary: Summary) -> None:
    (tp,) = cluster.topic("t", (1, 2, 3))
    cluster.led(tp, 1, (1, 3), leader_epoch=3, zk_version=7)
    cluster.move_replicas([at(cluster, cluster.replica(tp, 2), R.ONLINE)], R.OFFLINE)
    assert cluster.znodes[tp].leader_and_isr.zk_version == 7
    assert [(kind, b) for kind, b, _ in summary(cluster.sent())][:2] == [
        ("LeaderAndIsr", 1), ("LeaderAndIsr", 3),
    ]  # fmt: skip


@pytest.mark.mission("RSM-12")
def test_only_replicas_that_may_leave_an_isr_have_their_znode_read(cluster: Cluster) -> None:
    led, never, gone = cluster.topic("t", (1, 2), (1, 2), (1, 2))
    cluster.led(led, 1, (1, 2))
    cluster.led(gone, 1, (1, 2))
    replicas = [cluster.replica(tp, 2) for tp in (led, never, gone)]
    for replica in replicas[:2]:
        at(cluster, replica, R.ONLINE)
    assert replica_machine.to_read(cluster.context, replicas, R.OFFLINE) == [led]
    assert replica_machine.to_read(cluster.context, replicas, R.ONLINE) == []


@pytest.mark.mission("RSM-12")
def test_replicas_are_notified_after_an_election_only_if_the_isr_changes_again(
    cluster: Cluster, summary: Summary
) -> None:
    """The election removed the replica from one ISR and sent it; the other ISR still has it."""
    without, still_in = cluster.topic("t", (1, 2), (1, 2))
    read = {without: cluster.led(without, 1, (1,)), still_in: cluster.led(still_in, 1, (1, 2))}
    replicas = [at(cluster, cluster.replica(tp, 2), R.ONLINE) for tp in read]
    plan = replica_machine.plan(cluster.context, 2, replicas, R.OFFLINE, read)
    results = cluster.write({}, plan.updates)
    replica_machine.apply(cluster.context, cluster.batch, plan, results, {without, still_in})
    assert summary(cluster.sent())[0] == ("LeaderAndIsr", 1, {"t-1": (1, (1,), False)})
    assert {cluster.context.replica_state(replica) for replica in replicas} == {R.OFFLINE}


@pytest.mark.mission("RSM-12", "R-6")
def test_isr_is_read_again_after_a_stale_version(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2, 3))
    current = cluster.led(tp, 1, (1, 2), zk_version=8)
    stale = replace(current, leader_and_isr=LeaderAndIsr(1, 3, (1, 2, 3), 7))
    first, second = cluster.move_replicas(
        [at(cluster, cluster.replica(tp, 2), R.ONLINE)], R.OFFLINE, stale={tp: stale}
    )
    assert first.retry == (cluster.replica(tp, 2),)
    assert second.retry == ()
    assert cluster.znodes[tp].leader_and_isr == LeaderAndIsr(1, 4, (1,), 9)
    assert cluster.context.replica_state(cluster.replica(tp, 2)) is R.OFFLINE


@pytest.mark.mission("RSM-12", "R-6")
def test_failures_leave_the_replica_where_it_was(cluster: Cluster) -> None:
    gone, broken, newer = cluster.topic("t", (1, 2), (1, 2), (1, 2))
    cluster.led(gone, 1, (1, 2))
    cluster.led(broken, 1, (1, 2))
    cluster.led(newer, 1, (1, 2), controller_epoch=6)
    del cluster.znodes[gone]
    cluster.fail[broken] = ConnectionLost("x")
    replicas = [at(cluster, cluster.replica(tp, 2), R.ONLINE) for tp in (gone, broken, newer)]
    (outcome,) = cluster.move_replicas(replicas, R.OFFLINE)
    reasons = {r.subject: r.reason for r in outcome.refusals}
    assert "is empty" in reasons[replicas[0]]
    assert "ConnectionLost" in reasons[replicas[1]]
    assert "another controller" in reasons[replicas[2]]
    assert {cluster.context.replica_state(r) for r in replicas} == {R.ONLINE}


@pytest.mark.mission("RSM-12", "DEL-2")
def test_offline_for_deletion_sends_only_stop_replica(cluster: Cluster, summary: Summary) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.led(tp, 1, (1, 2))
    cluster.context.topics_to_be_deleted.add("t")
    cluster.move_replicas([at(cluster, cluster.replica(tp, 2), R.ONLINE)], R.OFFLINE)
    assert summary(cluster.sent()) == [("StopReplica", 2, {"t-0": (-2, False)})]


@pytest.mark.mission("DEL-2")
def test_offline_for_deletion_does_not_need_the_state_znode(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.led(tp, 1, (1, 2))
    del cluster.znodes[tp]
    cluster.context.topics_to_be_deleted.add("t")
    cluster.move_replicas([at(cluster, cluster.replica(tp, 2), R.ONLINE)], R.OFFLINE)
    assert cluster.context.replica_state(cluster.replica(tp, 2)) is R.OFFLINE


@pytest.mark.mission("RSM-12")
def test_offline_replica_without_a_leader_gets_stop_replica(
    cluster: Cluster, summary: Summary
) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.move_replicas([at(cluster, cluster.replica(tp, 2), R.NEW)], R.OFFLINE)
    assert summary(cluster.sent()) == [
        ("UpdateMetadata", 1, {}),
        ("UpdateMetadata", 2, {}),
        ("UpdateMetadata", 3, {}),
        ("StopReplica", 2, {"t-0": (-1, False)}),
    ]


@pytest.mark.mission("RSM-13")
def test_deletion_started_sends_stop_replica_with_deletion(
    cluster: Cluster, summary: Summary
) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.led(tp, 1, (1, 2))
    cluster.context.topics_to_be_deleted.add("t")
    cluster.move_replicas([at(cluster, cluster.replica(tp, 2), R.OFFLINE)], R.DELETION_STARTED)
    assert summary(cluster.sent()) == [("StopReplica", 2, {"t-0": (-2, True)})]


@pytest.mark.mission("RSM-14", "RSM-15")
@pytest.mark.parametrize("after", [R.DELETION_SUCCESSFUL, R.DELETION_INELIGIBLE])
def test_the_end_of_a_deletion_is_only_a_mark(cluster: Cluster, after: ReplicaState) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.led(tp, 1, (1, 2))
    replica = at(cluster, cluster.replica(tp, 2), R.DELETION_STARTED)
    cluster.move_replicas([replica], after)
    assert cluster.context.replica_state(replica) is after
    assert cluster.sent() == []


@pytest.mark.mission("RSM-16")
@pytest.mark.parametrize("moving", [{}, {"adding": (2,)}, {"removing": (2,)}])
def test_non_existent_is_forgotten(cluster: Cluster, moving: Any) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.context.set_assignment(tp, ReplicaAssignment((1, 2), **moving))
    replica = at(cluster, cluster.replica(tp, 2), R.DELETION_SUCCESSFUL)
    cluster.move_replicas([replica], R.NON_EXISTENT)
    assert cluster.context.assignment(tp) == ReplicaAssignment((1,))
    assert replica not in cluster.context.replica_states
    assert cluster.sent() == []


@pytest.mark.mission("CCB-3")
def test_startup_places_replicas(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 4))
    online, offline = run_at_once(replica_machine.startup(cluster.context))
    assert online == [cluster.replica(tp, 1)]
    assert offline == [cluster.replica(tp, 4)]
    assert cluster.context.replica_states == {
        cluster.replica(tp, 1): R.ONLINE,
        cluster.replica(tp, 4): R.DELETION_INELIGIBLE,
    }


@pytest.mark.mission("CCB-3")
def test_each_replica_gets_leader_and_isr_once_at_startup(
    cluster: Cluster, summary: Summary
) -> None:
    """By its own transition or by that of the dead replica; by none if the topic is being
    deleted."""
    (whole,), (torn,) = cluster.topic("whole", (1, 2)), cluster.topic("torn", (1, 4))
    (doomed,) = cluster.topic("doomed", (1, 4))
    for tp in (whole, torn, doomed):
        cluster.led(tp, 1, cluster.context.assignment(tp).replicas)
    cluster.context.topics_to_be_deleted.add("doomed")
    online, offline = run_at_once(replica_machine.startup(cluster.context))
    assert online == [cluster.replica(doomed, 1), *(cluster.replica(whole, b) for b in (1, 2))]
    assert offline == [cluster.replica(doomed, 4), cluster.replica(torn, 4)]
    cluster.move_replicas([cluster.replica(torn, 4)], R.OFFLINE)
    assert summary(cluster.sent())[0] == ("LeaderAndIsr", 1, {"torn-0": (1, (1,), False)})
    assert cluster.context.replica_state(cluster.replica(torn, 1)) is R.ONLINE


@pytest.mark.mission("CCB-3", "CTX-6")
def test_first_metadata_at_startup_has_all_partitions_of_a_topic(cluster: Cluster) -> None:
    """Not only of those whose replicas all live: clients would take them for the whole topic."""
    a, b = cluster.topic("t", (1, 2), (1, 4))
    for tp in (a, b):
        cluster.led(tp, 1, cluster.context.assignment(tp).replicas)
    online, offline = run_at_once(replica_machine.startup(cluster.context))
    assert {replica.topic_partition for replica in online} == {a, b}
    assert offline == [cluster.replica(b, 4)]


def test_brokers_are_taken_one_after_the_other(cluster: Cluster) -> None:
    """Two replicas of one partition going at once are two writes to its znode."""
    (tp,) = cluster.topic("t", (1, 2, 3))
    cluster.led(tp, 1, (1, 2, 3), leader_epoch=3, zk_version=7)
    replicas = [at(cluster, cluster.replica(tp, b), R.ONLINE) for b in (3, 2)]
    cluster.move_replicas(replicas, R.OFFLINE)
    assert cluster.znodes[tp].leader_and_isr == LeaderAndIsr(1, 5, (1,), 9)
