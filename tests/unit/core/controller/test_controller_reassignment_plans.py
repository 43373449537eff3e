"""Reassignment and leader balance as functions over data."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.controller import reassignment
from minikafka.core.controller.assignment import (
    is_being_reassigned,
    origin_replicas,
    reassign_to,
    target_replicas,
)
from minikafka.core.controller.election import candidates, out_of_balance
from minikafka.core.controller.states import ReplicaState
from minikafka.kernel.cluster import (
    ElectionType,
    LeaderAndIsr,
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import BadVersion, CoordinationError, NoNode
from minikafka.kernel.slices import run_at_once
from tests.support.controller.controller_states import Cluster, Summary

BROKERS = st.lists(st.integers(0, 6), unique=True, min_size=1, max_size=4).map(tuple)


@pytest.mark.parametrize(
    ("before", "target", "after"),
    [
        (((1, 2, 3),), (4, 5, 6), ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))),
        (((1, 2, 3),), (3, 4, 2), ((3, 4, 2, 1), (4,), (1,))),
        (((1, 2, 3),), (3, 1, 2), ((3, 1, 2),)),
        (((1, 2),), (1, 2), ((1, 2),)),
        (((3, 4, 1, 2), (3, 4), (1, 2)), (1, 2), ((1, 2),)),  # given up
        (((3, 4, 1, 2), (3, 4), (1, 2)), (4, 5), ((4, 5, 1, 2), (4, 5), (1, 2))),
    ],
)
@pytest.mark.mission("REA-1", "REA-2")
def test_the_way_to_a_target(
    before: tuple[Any, ...],
    target: tuple[int, ...],
    after: tuple[Any, ...],
) -> None:
    assert reassign_to(ReplicaAssignment(*before), target) == ReplicaAssignment(*after)


@pytest.mark.mission("REA-1")
@given(BROKERS, st.lists(BROKERS, min_size=1, max_size=4))
def test_whatever_was_wanted_before_the_origin_is_remembered(
    origin: Any, targets: list[tuple[int, ...]]
) -> None:
    assignment = ReplicaAssignment(origin)
    for target in targets:
        assignment = reassign_to(assignment, target)
        assert set(origin_replicas(assignment)) == set(origin)
        assert target_replicas(assignment) == target
        assert set(assignment.replicas) == set(origin) | set(target)
        assert set(assignment.adding) == set(target) - set(origin)
        assert set(assignment.removing) == set(origin) - set(target)
        assert is_being_reassigned(assignment) == (set(origin) != set(target))


@pytest.mark.parametrize(
    ("target", "isr", "live", "complete"),
    [
        ((4, 5), (1, 2), (1, 2, 4, 5), False),
        ((4, 5), (1, 2, 4), (1, 2, 4, 5), False),
        ((4, 5), (1, 5, 4), (1, 4, 5), True),
        ((4, 5), (5, 4), (5,), True),
        ((4, 5), (1, 5, 4), (1,), False),  # none of them could lead
    ],
)
@pytest.mark.mission("REA-5")
def test_complete_when_the_targets_are_in_sync(
    new_cluster: type[Cluster],
    target: tuple[int, ...],
    isr: tuple[int, ...],
    live: tuple[int, ...],
    complete: Any,
) -> None:
    cluster = new_cluster().brokers(*live)
    (tp,) = cluster.topic("t", (1, 2))
    assignment = reassign_to(ReplicaAssignment((1, 2)), target)
    assert reassignment.is_complete(cluster.context, tp, assignment, isr) is complete


def test_a_partition_at_rest_is_complete(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    assert reassignment.is_complete(cluster.context, tp, ReplicaAssignment((9,)), ())


@pytest.mark.parametrize(
    ("leader", "isr", "kept", "live", "fine"),
    [
        (1, (1, 2), (1,), (1, 2), True),
        (2, (1, 2), (1,), (1, 2), True),  # it hands over
        (2, (1, 2), (1,), (2,), False),  # to whom?
        (0, (0, 1), (1,), (0,), False),
        (1, (1, 2), (1,), (2,), True),  # its leader goes on, whatever becomes of its broker
        (2, (2,), (1,), (1, 2), False),  # only 2 has everything
        (-1, (1, 2), (1,), (), True),  # offline it stays, until 1 is back
        (-1, (2,), (1,), (), False),
    ],
)
def test_reassignment_must_keep_an_in_sync_replica(
    new_cluster: type[Cluster],
    leader: int,
    isr: tuple[int, ...],
    kept: Any,
    live: tuple[int, ...],
    fine: Any,
) -> None:
    cluster = new_cluster().brokers(*live)
    (tp,) = cluster.topic("t", (1, 2))
    known = LeaderAndIsr(leader, 3, isr)
    wanted = ReplicaAssignment(kept)
    if fine:
        reassignment.check_in_sync_replica_remains(cluster.context, tp, wanted, known)
        return
    with pytest.raises(KafkaError) as refused:
        reassignment.check_in_sync_replica_remains(cluster.context, tp, wanted, known)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def problem_of(cluster: Cluster, tp: TopicPartition, target: tuple[int, ...]) -> Any:
    with pytest.raises(KafkaError) as refused:
        reassignment.check_target(cluster.context, tp, target)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    return refused.value.message


@pytest.mark.mission("REA-1")
def test_a_target_may_be_every_live_broker(new_cluster: type[Cluster]) -> None:
    cluster = new_cluster().brokers(0, 5)
    (tp,) = cluster.topic("t", (1, 2))
    reassignment.check_target(cluster.context, tp, (0, 5))
    assert "not alive" in problem_of(cluster, tp, (0, 4))


@pytest.mark.mission("REA-1")
def test_a_target_that_cannot_be(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    assert "Empty replica list" in problem_of(cluster, tp, ())
    assert "Duplicate replica ids" in problem_of(cluster, tp, (3, 3))
    assert "Invalid broker id" in problem_of(cluster, tp, (3, -1))


@pytest.mark.mission("REA-1")
def test_only_partitions_that_exist_are_reassigned(cluster: Cluster) -> None:
    (doomed,) = cluster.topic("doomed", (1, 2))
    cluster.context.topics_to_be_deleted.add("doomed")
    for tp in (TopicPartition("none", 0), doomed):
        with pytest.raises(KafkaError) as refused:
            reassignment.requested_assignment(cluster.context, tp, (1, 3))
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_new_replicas_are_started_once(cluster: Cluster) -> None:
    (tp,) = cluster.topic("t", (1, 2))
    assignment = ReplicaAssignment((3, 1, 2), (3,), (2,))
    new = PartitionAndReplica(tp, 3)
    assert reassignment.to_start(cluster.context, tp, assignment) == [new]
    cluster.context.replica_states[new] = ReplicaState.ONLINE
    assert reassignment.to_start(cluster.context, tp, assignment) == []


@pytest.mark.mission("REA-3")
def test_raising_a_leader_epoch(cluster: Cluster, summary: Summary) -> None:
    a, b, c = cluster.topic("t", (1, 2), (2, 1), (1,))
    cluster.context.set_assignment(a, ReplicaAssignment((3, 1, 2), (3,), (2,)))
    states = {
        a: cluster.led(a, 1, (1, 2)),
        b: cluster.led(b, 2, (2, 1)),
        c: cluster.led(c, 1, (1,), controller_epoch=9),
    }
    raised, refused = reassignment.plan_epochs(cluster.context, states)
    assert list(refused) == [c]
    assert list(raised) == [a, b]
    results: dict[TopicPartition, LeaderAndIsr | CoordinationError]
    results = {a: raised[a].leader_and_isr, b: BadVersion("b")}
    written, retry = reassignment.apply_epochs(cluster.context, cluster.batch, results)
    assert retry == [b]
    assert list(written) == [a]
    assert cluster.context.leadership[a].leader_and_isr == LeaderAndIsr(1, 4, (1, 2), 7)
    sent = [s for s in summary(cluster.sent()) if s[0] == "LeaderAndIsr"]
    assert sent == [
        ("LeaderAndIsr", broker, {"t-0": (1, (1, 2), broker == 3)}) for broker in (1, 2, 3)
    ]
    with pytest.raises(NoNode):
        reassignment.apply_epochs(cluster.context, cluster.batch, {a: NoNode("a")})


# ---------------------------------------------------------------------------------------- balance


def test_candidates(cluster: Cluster) -> None:
    a, b, c = cluster.topic("t", (1, 2), (2, 1), (3,))
    (doomed,) = cluster.topic("d", (1,))
    cluster.led(a, 2, (2, 1))
    cluster.led(b, 2, (2, 1))
    cluster.context.topics_to_be_deleted.add("d")
    gone = TopicPartition("t", 9)
    request = [gone, c, b, a, doomed]
    found = run_at_once(candidates(cluster.context, request, ElectionType.PREFERRED))
    assert found.electable == (a, c)
    assert found.not_needed == (b,)
    assert found.being_deleted == (doomed,)
    assert found.unknown == (gone,)
    cluster.brokers(1, 3)
    found = run_at_once(candidates(cluster.context, [a, b, c], ElectionType.UNCLEAN))
    assert found.electable == (a, b, c)


@pytest.mark.mission("CDU-12")
@pytest.mark.parametrize(
    ("elsewhere", "percentage", "wanted"),
    [(0, 10, 0), (1, 10, 0), (2, 10, 2), (2, 20, 0), (3, 20, 3), (1, 0, 1), (10, 99, 10)],
)
def test_more_than_so_many_per_cent_elsewhere(
    cluster: Cluster, elsewhere: Any, percentage: int, wanted: Any
) -> None:
    partitions = cluster.topic("t", *[(1, 2)] * 10)
    for number, tp in enumerate(partitions):
        cluster.led(tp, 2 if number < elsewhere else 1, (1, 2))
    found = run_at_once(out_of_balance(cluster.context, percentage))
    assert found == ({1: partitions[:wanted]} if wanted else {})


@pytest.mark.mission("CDU-10")
def test_leader_balance_skips_preferred_leaders_that_cannot_lead(cluster: Cluster) -> None:
    a, b, c, d = cluster.topic("t", (1, 2), (1, 2), (3, 2), (4, 2))
    cluster.led(a, 2, (2,))  # not in sync
    cluster.led(b, 2, (2, 1))
    cluster.led(d, 2, (2, 4))  # not alive
    (doomed,) = cluster.topic("d", (2, 1))
    cluster.led(doomed, 1, (1, 2))
    cluster.context.topics_to_be_deleted.add("d")
    assert c not in cluster.context.leadership
    assert run_at_once(out_of_balance(cluster.context, 10)) == {1: [b]}
