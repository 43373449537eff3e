"""The decisions of a reassignment: checks of a request, its assignment, its progress (KIP-455)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from minikafka.core.controller.assignment import (
    is_being_reassigned,
    origin_replicas,
    reassign_to,
    target_replicas,
)
from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.election import live_isr
from minikafka.core.controller.request_batch import RequestBatch
from minikafka.core.controller.states import (
    ReplicaState,
    States,
    WriteResults,
    check_next_state,
    newer_controller,
)
from minikafka.kernel.cluster import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import BadVersion

# ----------------------------------------------------------------------------------- the request

# More replicas of one partition are refused before they are compared. Kafka has no such limit, but
# fails with more replicas than live brokers.
MAX_REPLICAS: Final = 1_000


def requested_assignment(
    context: ControllerContext, partition: TopicPartition, target: Sequence[int] | None
) -> ReplicaAssignment:
    """Return the assignment that takes ``partition`` to ``target``. A target of None cancels the
    reassignment in progress: back to the replicas from before it. Raises ``KafkaError``:
    NO_REASSIGNMENT_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION."""
    current = context.assignment(partition)
    if target is None:
        if not is_being_reassigned(current):
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        target = origin_replicas(current)
    if not current.replicas or context.is_queued_for_deletion(partition.topic):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    return reassign_to(current, target)


def check_target(
    context: ControllerContext, partition: TopicPartition, target: Sequence[int]
) -> None:
    """Check the target replicas of a request. Raises ``KafkaError``: INVALID_REPLICA_ASSIGNMENT."""
    problem = None
    if not target:
        problem = "Empty replica list specified in partition reassignment."
    elif len(target) > MAX_REPLICAS:
        problem = f"{len(target)} replicas; a partition may have at most {MAX_REPLICAS}."
    elif len(set(target)) < len(target):
        problem = f"Duplicate replica ids in partition reassignment replica list: {list(target)}"
    elif any(replica < 0 for replica in target):
        problem = f"Invalid broker id in replica list: {list(target)}"
    else:
        adding = reassign_to(context.assignment(partition), target).adding
        if not set(adding) <= set(context.live_broker_ids()):
            problem = (
                "Replica assignment has brokers that are not alive. Replica list: "
                f"{list(adding)}, live broker list: {context.live_broker_ids()}"
            )
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


def check_replication_factor(
    context: ControllerContext, partition: TopicPartition, target: Sequence[int]
) -> None:
    """Check that ``target`` has as many replicas as the partition will have when a reassignment in
    progress is done (KIP-860). Raises ``KafkaError``: INVALID_REPLICATION_FACTOR."""
    factor = len(target_replicas(context.assignment(partition)))
    if len(target) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(target)}",
        )


def dropped_replicas(current: ReplicaAssignment, requested: ReplicaAssignment) -> tuple[int, ...]:
    """Return the replicas that an earlier reassignment was adding and that ``requested`` does not
    have. They are removed at once."""
    return tuple(r for r in current.replicas if r not in requested.replicas)


def check_in_sync_replica_remains(
    context: ControllerContext,
    partition: TopicPartition,
    requested: ReplicaAssignment,
    known: LeaderAndIsr,
) -> None:
    """Check that a replica in sync remains after the reassignment has started. If brokers died
    during an earlier reassignment, the replicas to drop may be the last ones in sync. Kafka deletes
    them, and records are lost; here the request is refused. Raises ``KafkaError``:
    INVALID_REPLICA_ASSIGNMENT."""
    kept = [r for r in known.isr if r in requested.replicas]
    may_lead = known.leader in kept or bool(live_isr(context, partition, kept))
    if not kept or (known.leader >= 0 and not may_lead):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"No replica of {list(requested.replicas)} is in sync and alive; in sync are "
            f"{list(known.isr)}.",
        )


# ------------------------------------------------------------------------------------- progress


STEPS: Final = (
    "requested",
    "assignment written",
    "leader epoch raised",
    "new replicas started",
    "target replicas in sync",
    "new replicas online",
    "target replicas in the context",
    "leader among the target replicas",
    "old replicas offline",
    "old replicas deleted",
    "target replicas in the topic's znode",
    "request removed",
    "metadata sent",
)


def progress(context: ControllerContext, partition: TopicPartition, step: int) -> Mapping[str, Any]:
    """Return how far a reassignment is, as JSON values; ``step`` is the last one completed."""
    assignment = context.assignment(partition)
    known = context.leadership.get(partition)
    return {
        "partition": str(partition),
        "replicas": list(assignment.replicas),
        "adding": list(assignment.adding),
        "removing": list(assignment.removing),
        "isr": [] if known is None else list(known.leader_and_isr.isr),
        "step": step,
        "step_name": STEPS[step],
        "steps": len(STEPS) - 1,
    }


def is_complete(
    context: ControllerContext,
    partition: TopicPartition,
    assignment: ReplicaAssignment,
    isr: Collection[int],
) -> bool:
    """Whether every target replica is in sync and one of them can lead. Kafka does not check the
    latter: it deletes the other replicas, and the partition has no leader."""
    if not is_being_reassigned(assignment):
        return True
    target = target_replicas(assignment)
    return set(target) <= set(isr) and bool(live_isr(context, partition, target))


def to_start(
    context: ControllerContext, partition: TopicPartition, assignment: ReplicaAssignment
) -> list[PartitionAndReplica]:
    """Return the replicas to be added whose state is NonExistent. After a failover there are none,
    since the startup of the replica state machine sets the states of all replicas."""
    replicas = [PartitionAndReplica(partition, r) for r in assignment.adding]
    return [r for r in replicas if context.replica_state(r) is ReplicaState.NON_EXISTENT]


def must_move_leader(context: ControllerContext, partition: TopicPartition) -> bool:
    """Whether the leader is dead or not one of the assigned replicas."""
    leader = context.leadership[partition].leader_and_isr.leader
    if leader not in context.assignment(partition).replicas:
        return True
    return not context.is_replica_online(leader, partition)


# ---------------------------------------------------------------------- raising the leader epoch


def plan_epochs(
    context: ControllerContext, read: States
) -> tuple[dict[TopicPartition, LeaderIsrAndControllerEpoch], dict[TopicPartition, str]]:
    """Return the states with the next leader epoch and the same leader and ISR
    (updateLeaderEpoch), and for the other partitions why they must not be written."""
    refused = {
        partition: reason
        for partition, state in read.items()
        if (reason := newer_controller(context.epoch, state)) is not None
    }
    raised = {
        partition: LeaderIsrAndControllerEpoch(
            state.leader_and_isr.new_leader(state.leader_and_isr.leader), context.epoch
        )
        for partition, state in read.items()
        if partition not in refused
    }
    for partition, state in raised.items():
        check_next_state(read[partition], state, context.epoch)
    return raised, refused


def apply_epochs(
    context: ControllerContext, batch: RequestBatch, results: WriteResults
) -> tuple[dict[TopicPartition, LeaderIsrAndControllerEpoch], list[TopicPartition]]:
    """Record what was written in the context and add LeaderAndIsr requests for all replicas. Return
    the written states, and the partitions to read again because a leader changed the ISR. Raises
    ``CoordinationError`` for any other failure.

    Replicas that are being added are marked as new, so that a broker with a failed log directory
    may create them in another one.
    """
    written: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
    retry: list[TopicPartition] = []
    for partition, result in results.items():
        if isinstance(result, BadVersion):
            retry.append(partition)
            continue
        if isinstance(result, Exception):
            raise result
        leadership = LeaderIsrAndControllerEpoch(result, context.epoch)
        context.put_written(partition, leadership)
        written[partition] = leadership
        assignment = context.assignment(partition)
        origin = origin_replicas(assignment)
        batch.add_leader_and_isr(origin, partition, leadership, assignment, is_new=False)
        batch.add_leader_and_isr(assignment.adding, partition, leadership, assignment, is_new=True)
    return written, retry


# ---------------------------------------------------------------------------------------- a list


def in_progress(
    context: ControllerContext, partitions: Collection[TopicPartition] | None
) -> Mapping[TopicPartition, ReplicaAssignment]:
    """Return the assignments of those ``partitions`` that are being reassigned, sorted. None means
    all partitions."""
    moving = context.partitions_being_reassigned
    selected = moving if partitions is None else moving.intersection(partitions)
    found = {tp: context.assignment(tp) for tp in sorted(selected)}
    return {tp: assignment for tp, assignment in found.items() if is_being_reassigned(assignment)}
