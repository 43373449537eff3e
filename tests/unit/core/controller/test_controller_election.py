"""Leader election: the table of each strategy, and the document's example."""

from typing import Any

import pytest

from minikafka.core.controller import election
from minikafka.core.controller.election import ElectionStrategy, elect
from minikafka.kernel.cluster import LeaderAndIsr, ReplicaAssignment, TopicPartition
from tests.support.controller.controller_states import Cluster

S = ElectionStrategy


@pytest.mark.mission("LEL-1", "LEL-2", "LEL-4", "R-4")
@pytest.mark.parametrize(
    ("assignment", "isr", "live", "unclean", "leader"),
    [
        ((1, 2, 3), (1, 2, 3), {1, 2, 3}, False, 1),
        ((1, 2, 3), (1, 3, 2), {2, 3}, False, 2),  # the order of the assignment decides
        ((1, 2, 3), (3, 2), {1, 2, 3}, False, 2),  # live, first, but not in sync: passed over
        ((1, 2, 3), (1,), {2, 3}, False, None),
        ((1, 2, 3), (1,), {2, 3}, True, 2),
        ((3, 1, 2), (2,), {1, 3}, True, 3),
        ((1, 2, 3), (2,), {2}, True, 2),
        ((1, 2, 3), (2,), {1, 2, 3}, True, 2),  # unclean is a last resort
        ((1, 2, 3), (1, 2, 3), set(), True, None),
        ((), (), {1}, True, None),
    ],
)
def test_offline(
    assignment: Any, isr: tuple[int, ...], live: tuple[int, ...], unclean: bool, leader: int
) -> None:
    assert election.offline_leader(assignment, isr, live, unclean) == leader


@pytest.mark.mission("LEL-5")
@pytest.mark.parametrize(
    ("target", "isr", "live", "leader"),
    [
        ((4, 5, 6), (1, 2, 3, 4, 5, 6), {4, 5, 6}, 4),
        ((4, 5, 6), (1, 5), {4, 5, 6}, 5),
        ((4, 5, 6), (4, 5), {5}, 5),
        ((4, 5, 6), (1, 2), {1, 2, 4}, None),
    ],
)
def test_reassign(
    target: tuple[int, ...], isr: tuple[int, ...], live: tuple[int, ...], leader: int
) -> None:
    assert election.reassign_leader(target, isr, live) == leader


@pytest.mark.mission("LEL-6")
@pytest.mark.parametrize(
    ("isr", "live", "leader"),
    [((1, 2), {1, 2}, 1), ((1, 2), {2}, None), ((2,), {1, 2}, None)],
)
def test_preferred(isr: tuple[int, ...], live: tuple[int, ...], leader: int) -> None:
    assert election.preferred_leader((1, 2), isr, live) == leader
    assert election.preferred_leader((), isr, live) is None


@pytest.mark.mission("LEL-7")
@pytest.mark.parametrize(
    ("isr", "live", "going", "leader"),
    [
        ((1, 2, 3), {1, 2, 3}, {1}, 2),
        ((1, 3), {1, 2, 3}, {1}, 3),
        ((1, 2, 3), {1, 2, 3}, {1, 2}, 3),
        ((1,), {1, 2, 3}, {1}, None),
        ((1, 2), {1, 3}, {1}, None),
    ],
)
def test_controlled_shutdown(
    isr: tuple[int, ...], live: tuple[int, ...], going: Any, leader: int
) -> None:
    assert election.controlled_shutdown_leader((1, 2, 3), isr, live, going) == leader


@pytest.mark.mission("LEL-9")
def test_the_strategies() -> None:
    assert {s.value for s in S} == {
        "offline", "unclean", "reassign", "preferred", "controlled shutdown", "no-op",
    }  # fmt: skip


@pytest.mark.mission("LEL-2", "LEL-3")
def test_the_topic_leader_example(cluster: Cluster) -> None:
    partitions = cluster.topic("topic-leader", (3, 1, 2), (1, 2, 3), (2, 3, 1))
    cluster.context.remove_brokers([1])
    states = [
        LeaderAndIsr(3, 0, (3, 1, 2)),
        LeaderAndIsr(1, 0, (1, 3, 2)),
        LeaderAndIsr(2, 0, (2, 3, 1)),
    ]
    results = [
        elect(cluster.context, tp, state, S.OFFLINE)
        for tp, state in zip(partitions, states, strict=True)
    ]
    assert [r.leader_and_isr.leader for r in results if r.leader_and_isr] == [3, 2, 2]
    assert [set(r.leader_and_isr.isr) for r in results if r.leader_and_isr] == [
        {3, 2},
        {3, 2},
        {2, 3},
    ]


@pytest.mark.mission("LEL-8", "PSM-9")
def test_an_election_raises_the_leader_epoch_and_keeps_the_version_read(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2, 3))
    cluster.context.remove_brokers([1])
    result = elect(cluster.context, tp, LeaderAndIsr(1, 4, (1, 2, 3), 9), S.OFFLINE)
    assert result.leader_and_isr == LeaderAndIsr(2, 5, (2, 3), 9)
    assert result.recipients == (2, 3)  # the live replicas
    assert not result.unclean


@pytest.mark.mission("LEL-4", "LEL-8")
@pytest.mark.parametrize(("strategy", "allowed"), [(S.OFFLINE, True), (S.UNCLEAN, False)])
def test_an_unclean_leader_is_alone_in_sync_and_recovering(
    cluster: Cluster, strategy: Any, allowed: Any
) -> None:
    (tp,) = cluster.topic("t", (1, 2, 3))
    cluster.context.remove_brokers([1])
    result = elect(cluster.context, tp, LeaderAndIsr(1, 4, (1,), 9), strategy, allowed)
    assert result.leader_and_isr == LeaderAndIsr(2, 5, (2,), 9, leader_recovery_state=1)
    assert result.unclean


@pytest.mark.mission("LEL-4")
def test_no_leader_is_elected_without_unclean_election(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2, 3))
    cluster.context.remove_brokers([1])
    assert elect(cluster.context, tp, LeaderAndIsr(1, 4, (1,)), S.OFFLINE).leader_and_isr is None


@pytest.mark.mission("LEL-1")
def test_a_replica_on_a_failed_disk_is_not_live(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2, 3))
    cluster.context.replicas_on_offline_dirs = {1: {tp}, 2: {TopicPartition("other", 0)}}
    result = elect(cluster.context, tp, LeaderAndIsr(1, 4, (1, 2, 3)), S.OFFLINE)
    assert result.leader_and_isr is not None
    assert result.leader_and_isr.leader == 2
    assert result.leader_and_isr.isr == (2, 3)


@pytest.mark.mission("LEL-5")
def test_reassignment_elects_among_the_targets(cluster: Cluster) -> None:
    cluster.brokers(1, 2, 3, 4, 5)
    (tp,) = cluster.topic("t", (1, 2))
    cluster.context.set_assignment(
        tp, ReplicaAssignment((4, 5, 1, 2), adding=(4, 5), removing=(1, 2))
    )
    result = elect(cluster.context, tp, LeaderAndIsr(1, 4, (1, 2, 5)), S.REASSIGN)
    assert result.leader_and_isr == LeaderAndIsr(5, 5, (1, 2, 5))
    assert result.recipients == (4, 5)


@pytest.mark.mission("LEL-6")
def test_preferred_election_notifies_all_replicas(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2, 3))
    result = elect(cluster.context, tp, LeaderAndIsr(2, 4, (1, 2)), S.PREFERRED)
    assert result.leader_and_isr == LeaderAndIsr(1, 5, (1, 2))
    assert result.recipients == (1, 2, 3)


@pytest.mark.mission("LEL-7")
def test_controlled_shutdown_takes_the_broker_out_of_the_isr(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2, 3))
    cluster.context.shutting_down_broker_ids.add(1)
    result = elect(cluster.context, tp, LeaderAndIsr(1, 4, (1, 2, 3)), S.CONTROLLED_SHUTDOWN)
    assert result.leader_and_isr == LeaderAndIsr(2, 5, (2, 3))
    assert result.recipients == (1, 2, 3)  # also the one that goes: it must stop leading


@pytest.mark.mission("LEL-7")
def test_a_dead_replica_takes_nothing_over_at_a_controlled_shutdown(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2, 3))
    cluster.context.shutting_down_broker_ids.add(1)
    cluster.context.remove_brokers([2])
    result = elect(cluster.context, tp, LeaderAndIsr(1, 4, (1, 2, 3)), S.CONTROLLED_SHUTDOWN)
    assert result.leader_and_isr is not None
    assert result.leader_and_isr.leader == 3
    assert result.recipients == (1, 3)


@pytest.mark.mission("LEL-9")
def test_no_op_keeps_the_leader_under_a_new_epoch(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2, 3))
    result = elect(cluster.context, tp, LeaderAndIsr(2, 4, (1, 2)), S.NO_OP)
    assert result.leader_and_isr == LeaderAndIsr(2, 5, (1, 2))
