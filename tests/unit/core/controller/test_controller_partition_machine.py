"""Each partition transition with its side effects: znodes, context, requests."""

from dataclasses import replace

import pytest

from minikafka.core.controller import partition_machine
from minikafka.core.controller.election import ElectionStrategy
from minikafka.core.controller.states import PartitionState
from minikafka.kernel.cluster import LeaderAndIsr, LeaderIsrAndControllerEpoch
from minikafka.kernel.ports import NoNode
from minikafka.kernel.slices import run_at_once
from tests.support.controller.controller_states import Cluster, Summary

P = PartitionState
OFFLINE = ElectionStrategy.OFFLINE


@pytest.mark.mission("PSM-2")
def test_new_partition_changes_state_without_znodes_or_requests(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (2, 1))
    (outcome,) = cluster.move([tp], P.NEW)
    assert [(c.before, c.after) for c in outcome.changes] == [(P.NON_EXISTENT, P.NEW)]
    assert cluster.context.partition_state(tp) is P.NEW
    assert cluster.znodes == {}
    assert cluster.sent() == []


@pytest.mark.mission("PSM-7", "LEL-1")
def test_new_to_online_the_first_live_replica_leads(cluster: Cluster, summary: Summary) -> None:
    (tp,) = cluster.topic("t", (4, 2, 1))
    cluster.context.partition_states[tp] = P.NEW
    (outcome,) = cluster.move([tp], P.ONLINE, OFFLINE)
    assert cluster.znodes[tp] == LeaderIsrAndControllerEpoch(
        LeaderAndIsr(leader=2, leader_epoch=0, isr=(2, 1), zk_version=0), controller_epoch=5
    )
    assert cluster.context.leadership[tp] == cluster.znodes[tp]
    assert outcome.elected == {tp: cluster.znodes[tp].leader_and_isr}
    assert outcome.refusals == ()
    assert summary(cluster.sent()) == [
        ("LeaderAndIsr", 1, {"t-0": (2, (2, 1), True)}),
        ("LeaderAndIsr", 2, {"t-0": (2, (2, 1), True)}),
        ("UpdateMetadata", 1, {"t-0": (2, (2, 1))}),
        ("UpdateMetadata", 2, {"t-0": (2, (2, 1))}),
        ("UpdateMetadata", 3, {"t-0": (2, (2, 1))}),
    ]


@pytest.mark.mission("PSM-8")
def test_new_to_online_without_a_live_replica_stays_new(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (7, 8))
    cluster.context.partition_states[tp] = P.NEW
    (outcome,) = cluster.move([tp], P.ONLINE, OFFLINE)
    assert cluster.context.partition_state(tp) is P.NEW
    (refusal,) = outcome.refusals
    assert "No assigned replica is alive" in refusal.reason
    assert cluster.sent() == []


@pytest.mark.mission("PSM-7")
def test_a_new_partition_whose_state_exists_is_elected_upon_it(cluster: Cluster) -> None:
    """A create whose response was lost, or a state left by a controller that died."""
    (tp,) = cluster.topic("t", (1, 2))
    cluster.context.partition_states[tp] = P.NEW
    cluster.znodes[tp] = LeaderIsrAndControllerEpoch(LeaderAndIsr(2, 3, (2, 1), 4), 4)
    first, second = cluster.move([tp], P.ONLINE, OFFLINE)
    assert first.retry == (tp,)
    assert second.elected == {tp: LeaderAndIsr(1, 4, (2, 1), 5)}
    assert cluster.context.partition_state(tp) is P.ONLINE


@pytest.mark.mission("PSM-9")
@pytest.mark.parametrize("before", [P.ONLINE, P.OFFLINE])
def test_to_online_again_elects_and_writes_the_next_epoch(
    cluster: Cluster, summary: Summary, before: PartitionState
) -> None:
    (tp,) = cluster.topic("t", (1, 2, 3))
    cluster.led(tp, 1, (1, 2, 3), leader_epoch=3, zk_version=7)
    cluster.context.partition_states[tp] = before
    cluster.context.remove_brokers([1])
    (outcome,) = cluster.move([tp], P.ONLINE, OFFLINE)
    assert outcome.elected == {tp: LeaderAndIsr(2, 4, (2, 3), 8)}
    assert cluster.znodes[tp].leader_and_isr == LeaderAndIsr(2, 4, (2, 3), 8)
    assert summary(cluster.sent()) == [
        ("LeaderAndIsr", 2, {"t-0": (2, (2, 3), False)}),
        ("LeaderAndIsr", 3, {"t-0": (2, (2, 3), False)}),
        ("UpdateMetadata", 2, {"t-0": (2, (2, 3))}),
        ("UpdateMetadata", 3, {"t-0": (2, (2, 3))}),
    ]


@pytest.mark.mission("PSM-9", "R-6")
def test_a_version_that_moved_on_is_read_again(cluster: Cluster) -> None:
    """The leader shrank its ISR between our read and our write."""
    (tp,) = cluster.topic("t", (1, 2, 3))
    current = cluster.led(tp, 1, (1, 3), zk_version=8)
    stale = replace(current, leader_and_isr=LeaderAndIsr(1, 3, (1, 2, 3), 7))
    cluster.context.partition_states[tp] = P.OFFLINE
    cluster.context.remove_brokers([1])
    first, second = cluster.move([tp], P.ONLINE, OFFLINE, stale={tp: stale})
    assert first.retry == (tp,)
    assert (first.changes, first.refusals) == ((), ())
    assert second.elected == {tp: LeaderAndIsr(3, 4, (3,), 9)}


@pytest.mark.mission("PSM-9", "CEL-15", "R-6")
def test_state_written_by_a_newer_controller_is_not_overwritten(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.led(tp, 1, (1, 2), controller_epoch=6)
    cluster.context.partition_states[tp] = P.OFFLINE
    (outcome,) = cluster.move([tp], P.ONLINE, OFFLINE)
    assert "another controller" in outcome.refusals[0].reason
    assert cluster.context.partition_state(tp) is P.OFFLINE
    assert cluster.sent() == []


@pytest.mark.mission("PSM-9")
def test_failures_leave_the_partition_where_it_was(cluster: Cluster) -> None:
    gone, broken, orphan = cluster.topic("t", (1, 2), (1, 2), (1, 2))
    for tp in (gone, broken, orphan):
        cluster.led(tp, 1, (1,) if tp is orphan else (1, 2))
        cluster.context.partition_states[tp] = P.OFFLINE
    del cluster.znodes[gone]
    cluster.fail[broken] = NoNode("x")
    cluster.context.remove_brokers([1])
    (outcome,) = cluster.move([gone, broken, orphan], P.ONLINE, OFFLINE)
    reasons = {r.subject: r.reason for r in outcome.refusals}
    assert "doesn't exist" in reasons[gone]
    assert "NoNode" in reasons[broken]
    assert "no leader could be elected under strategy offline" in reasons[orphan]
    assert set(cluster.context.partition_states.values()) == {P.OFFLINE}


@pytest.mark.mission("PSM-9", "PSM-10", "PSM-11")
def test_znodes_are_read_for_elections_only(cluster: Cluster) -> None:
    """A mark needs no znode, and a new partition has none."""
    new, online, offline = partitions = cluster.topic("t", (1, 2), (1, 2), (1, 2))
    cluster.context.partition_states = {new: P.NEW, online: P.ONLINE, offline: P.OFFLINE}
    assert partition_machine.to_read(cluster.context, partitions, P.ONLINE) == [online, offline]
    for target in (P.NEW, P.OFFLINE, P.NON_EXISTENT):
        assert partition_machine.to_read(cluster.context, partitions, target) == []


@pytest.mark.mission("LEL-4", "R-4")
def test_unclean_election_where_the_topic_allows_it(cluster: Cluster) -> None:
    (strict,) = cluster.topic("strict", (1, 2))
    (lax,) = cluster.topic("lax", (1, 2))
    for tp in (strict, lax):
        cluster.led(tp, 1, (1,))
        cluster.context.partition_states[tp] = P.OFFLINE
    cluster.context.remove_brokers([1])
    (clean,) = cluster.topic("clean", (1, 2))
    cluster.led(clean, 1, (1, 2))
    assert partition_machine.without_live_isr(cluster.context, cluster.znodes) == [strict, lax]
    plan = partition_machine.plan(
        cluster.context, [strict, lax], P.ONLINE, OFFLINE, cluster.znodes, {"lax"}
    )
    assert plan.unclean == {lax}
    (outcome,) = cluster.move([strict, lax], P.ONLINE, OFFLINE, unclean_topics={"lax"})
    assert outcome.elected == {lax: LeaderAndIsr(2, 4, (2,), 8, leader_recovery_state=1)}


@pytest.mark.mission("PSM-10")
@pytest.mark.parametrize("before", [P.NEW, P.ONLINE, P.OFFLINE])
def test_offline_is_only_a_mark(cluster: Cluster, before: PartitionState) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.context.partition_states[tp] = before
    cluster.move([tp], P.OFFLINE)
    assert cluster.context.partition_state(tp) is P.OFFLINE
    assert cluster.context.offline_partition_count() == 1
    assert cluster.sent() == []


@pytest.mark.mission("PSM-11")
def test_non_existent_is_only_a_mark(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.context.partition_states[tp] = P.OFFLINE
    cluster.move([tp], P.NON_EXISTENT)
    assert cluster.context.partition_state(tp) is P.NON_EXISTENT
    assert cluster.sent() == []


@pytest.mark.mission("PSM-12")
def test_many_partitions_one_request_per_broker_and_kind(
    cluster: Cluster, summary: Summary
) -> None:
    partitions = cluster.topic("t", (1, 2), (2, 3), (3, 1))
    cluster.move(partitions, P.NEW)
    cluster.move(partitions, P.ONLINE, OFFLINE)
    sent = summary(cluster.sent())
    assert [(kind, broker) for kind, broker, _ in sent] == [
        ("LeaderAndIsr", 1), ("LeaderAndIsr", 2), ("LeaderAndIsr", 3),
        ("UpdateMetadata", 1), ("UpdateMetadata", 2), ("UpdateMetadata", 3),
    ]  # fmt: skip
    assert list(sent[0][2]) == ["t-0", "t-2"]
    assert list(sent[3][2]) == ["t-0", "t-1", "t-2"]


@pytest.mark.mission("PSM-14", "DEL-5")
def test_online_trigger_selects_new_and_offline_partitions(cluster: Cluster) -> None:
    new, off, on = cluster.topic("t", (1, 2), (1, 2), (1, 2))
    (doomed,) = cluster.topic("doomed", (1, 2))
    cluster.context.partition_states = {
        new: P.NEW, off: P.OFFLINE, on: P.ONLINE, doomed: P.OFFLINE,
    }  # fmt: skip
    cluster.context.topics_to_be_deleted.add("doomed")
    assert partition_machine.to_trigger_online(cluster.context) == [new, off]


@pytest.mark.mission("CCB-3")
def test_startup_places_partitions(cluster: Cluster) -> None:
    new, off, on, disk = cluster.topic("t", (1, 2), (4, 2), (1, 2), (3, 2))
    cluster.led(off, 4, (4,))
    cluster.led(on, 1, (1, 2))
    cluster.led(disk, 3, (3, 2))
    cluster.context.replicas_on_offline_dirs = {3: {disk}}
    run_at_once(partition_machine.startup(cluster.context))
    assert cluster.context.partition_states == {
        new: P.NEW, off: P.OFFLINE, on: P.ONLINE, disk: P.OFFLINE,
    }  # fmt: skip


def test_an_election_needs_a_strategy(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    cluster.led(tp, 1, (1, 2))
    cluster.context.partition_states[tp] = P.ONLINE
    with pytest.raises(ValueError, match="strategy"):
        cluster.move([tp], P.ONLINE)
