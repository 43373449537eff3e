"""Which topics go now, which wait, and what their replicas go through."""

from typing import Any

import pytest

from minikafka.core.controller import topic_deletion
from minikafka.core.controller.states import ReplicaState
from minikafka.core.controller.topic_deletion import DeletionStep, ReplicasToDelete
from minikafka.kernel.errors import ErrorCode
from tests.support.controller.controller_states import Cluster

R = ReplicaState


def doomed(cluster: Cluster, name: str, replicas: tuple[int, ...], *states: Any) -> Any:
    """A topic on the list whose replicas are in these states."""
    (tp,) = cluster.topic(name, replicas)
    for broker, state in zip(replicas, states, strict=True):
        cluster.context.replica_states[cluster.replica(tp, broker)] = state
    topic_deletion.queue(cluster.context, [name])
    return tp


@pytest.mark.mission("DEL-2")
@pytest.mark.parametrize(
    ("states", "ineligible", "expected"),
    [
        ((R.DELETION_SUCCESSFUL, R.DELETION_SUCCESSFUL), False, ("t", (), ())),  # case A
        ((R.DELETION_SUCCESSFUL, R.DELETION_STARTED), False, ((), (), ())),  # case B
        ((R.DELETION_INELIGIBLE, R.DELETION_STARTED), False, ((), (), ())),  # case B
        ((R.DELETION_SUCCESSFUL, R.DELETION_INELIGIBLE), False, ((), 2, "t")),  # cases C and D
        ((R.DELETION_SUCCESSFUL, R.DELETION_INELIGIBLE), True, ((), 2, ())),  # case C
        ((R.ONLINE, R.ONLINE), False, ((), (), "t")),  # case D
        ((R.ONLINE, R.OFFLINE), True, ((), (), ())),  # waits for what halted it
    ],
)
def test_the_next_step(cluster: Cluster, states: Any, ineligible: Any, expected: Any) -> None:
    tp = doomed(cluster, "t", (1, 2), *states)
    if ineligible:
        topic_deletion.halt(cluster.context, ["t"])
    complete, retry, start = expected
    assert topic_deletion.next_step(cluster.context) == DeletionStep(
        complete=tuple(complete),
        retry=(cluster.replica(tp, retry),) if retry else (),
        start=tuple(start),
    )


@pytest.mark.mission("DEL-3", "DEL-4")
def test_halt_and_resume_concern_topics_on_the_list_only(cluster: Cluster) -> None:
    doomed(cluster, "t", (1,), R.ONLINE)
    assert topic_deletion.halt(cluster.context, ["t", "other"]) == ["t"]
    assert cluster.context.topics_ineligible_for_deletion == {"t"}
    assert topic_deletion.resume(cluster.context, ["t", "other"]) == ["t"]
    assert cluster.context.topics_ineligible_for_deletion == set()


@pytest.mark.mission("DEL-3")
def test_dead_replicas_wait_and_live_ones_go(cluster: Cluster) -> None:
    tp = doomed(cluster, "t", (1, 9, 3), R.OFFLINE, R.OFFLINE, R.DELETION_SUCCESSFUL)
    assert topic_deletion.replicas_to_delete(cluster.context, ["t"]) == ReplicasToDelete(
        dead=(cluster.replica(tp, 9),), alive=(cluster.replica(tp, 1),), halted=("t",)
    )


@pytest.mark.mission("DEL-4")
def test_offline_and_reassigned_topics_are_ineligible_at_failover(cluster: Cluster) -> None:
    cluster.topic("fine", (1, 2))
    cluster.topic("offline", (1, 9))
    (moving,) = cluster.topic("moving", (1, 2))
    cluster.context.partitions_being_reassigned.add(moving)
    assert topic_deletion.ineligible_at_failover(cluster.context) == {"offline", "moving"}


@pytest.mark.mission("RSM-14", "RSM-15")
def test_stop_replica_response_sorts_failed_and_deleted_replicas(cluster: Cluster) -> None:
    a = doomed(cluster, "a", (1,), R.DELETION_STARTED)
    b = doomed(cluster, "b", (1,), R.DELETION_STARTED)
    late = doomed(cluster, "late", (1,), R.ONLINE)  # of an earlier deletion: no request is pending
    cluster.context.topics_with_deletion_started = {"a", "b"}
    fine, bad = ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR
    errors = [(a, fine), (b, bad), (late, fine)]
    assert topic_deletion.failed_and_deleted(cluster.context, 1, fine, errors) == (
        [cluster.replica(b, 1)],
        [cluster.replica(a, 1)],
    )
    failed, deleted = topic_deletion.failed_and_deleted(cluster.context, 1, bad, errors)
    assert failed == [cluster.replica(a, 1), cluster.replica(b, 1)]
    assert deleted == []


def test_topics_not_started_and_replicas_by_fate(cluster: Any) -> None:
    a = doomed(cluster, "a", (1,), R.ONLINE)
    (b,) = cluster.topic("b", (1,))
    replicas = [cluster.replica(a, 1), cluster.replica(b, 1)]
    assert topic_deletion.split_by_deletion(cluster.context, replicas) == (
        [cluster.replica(a, 1)],
        [cluster.replica(b, 1)],
    )
    assert topic_deletion.not_started(cluster.context, ["a"]) == ["a"]
    cluster.context.topics_with_deletion_started.add("a")
    assert topic_deletion.not_started(cluster.context, ["a"]) == []
