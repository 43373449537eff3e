"""Arithmetic on one partition's replica assignment (KIP-455: replicas, adding, removing)."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.kernel.cluster import ReplicaAssignment

NO_REPLICAS = ReplicaAssignment(())


def target_replicas(assignment: ReplicaAssignment) -> tuple[int, ...]:
    """Return the replicas that remain when a reassignment in progress is done."""
    return tuple(r for r in assignment.replicas if r not in assignment.removing)


def origin_replicas(assignment: ReplicaAssignment) -> tuple[int, ...]:
    """Return the replicas from before a reassignment in progress."""
    return tuple(r for r in assignment.replicas if r not in assignment.adding)


def is_being_reassigned(assignment: ReplicaAssignment) -> bool:
    return bool(assignment.adding or assignment.removing)


def reassign_to(assignment: ReplicaAssignment, target: Sequence[int]) -> ReplicaAssignment:
    """Return the assignment during a reassignment to ``target``: first the target replicas in their
    order, then those to be removed. Replicas that an earlier reassignment was adding are left out
    unless they are target replicas."""
    origin = origin_replicas(assignment)
    replicas = tuple(dict.fromkeys((*target, *origin)))
    return ReplicaAssignment(
        replicas,
        adding=tuple(r for r in replicas if r not in origin),
        removing=tuple(r for r in replicas if r not in target),
    )


def with_replica(assignment: ReplicaAssignment, replica: int) -> ReplicaAssignment:
    """Append ``replica`` to the assignment unless it is already assigned."""
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
