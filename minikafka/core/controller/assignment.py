"""Arithmetic on one partition's replica assignment (KIP-455: replicas, adding, removing)."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.kernel.cluster import ReplicaAssignment

NO_REPLICAS = ReplicaAssignment(())


def target_replicas(assignment: ReplicaAssignment) -> tuple[int, ...]:
    """The replicas that are left once a reassignment in progress is done."""
    return tuple(r for r in assignment.replicas if r not in assignment.removing)


def origin_replicas(assignment: ReplicaAssignment) -> tuple[int, ...]:
    """The replicas from before a reassignment in progress."""
    return tuple(r for r in assignment.replicas if r not in assignment.adding)


def is_being_reassigned(assignment: ReplicaAssignment) -> bool:
    return bool(assignment.adding or assignment.removing)


def reassign_to(assignment: ReplicaAssignment, target: Sequence[int]) -> ReplicaAssignment:
    """The way from ``assignment`` to ``target``: the target replicas first and in their order, then
    those that will go. What an earlier reassignment was adding is given up, if it is no target."""
    origin = origin_replicas(assignment)
    replicas = tuple(dict.fromkeys((*target, *origin)))
    return ReplicaAssignment(
        replicas,
        adding=tuple(r for r in replicas if r not in origin),
        removing=tuple(r for r in replicas if r not in target),
    )


def with_replica(assignment: ReplicaAssignment, replica: int) -> ReplicaAssignment:
    """The assignment with ``replica`` at its end, if it was not there."""
    if replica in assignment.replicas:
        return assignment
    return ReplicaAssignment(
        (*assignment.replicas, replica), assignment.adding, assignment.removing
    )


def without_replica(assignment: ReplicaAssignment, replica: int) -> ReplicaAssignment:
    return ReplicaAssignment(
        tuple(r for r in assignment.replicas if r != replica),
        tuple(r for r in assignment.adding if r != replica),
        tuple(r for r in assignment.removing if r != replica),
    )
