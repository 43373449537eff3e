"""What a wish to move replicas comes to, and how far a reassignment has got (KIP-455)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from minikafka.core.controller.assignment import (
    is_being_reassigned,
    origin_replicas,
    reassign_to,
    target_replicas,
)
from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.election import live_isr
from minikafka.core.controller.request_batch import RequestBatch
from minikafka.core.controller.states import ReplicaState
from minikafka.core.controller.writes import States, WriteResults, newer_controller
from minikafka.kernel.cluster import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import BadVersion

# ------------------------------------------------------------------------------------- the wish


def wanted_assignment(
    context: ControllerContext, partition: TopicPartition, target: Sequence[int] | None
) -> ReplicaAssignment:
    """The assignment that takes ``partition`` to ``target``; with ``None`` back to where the
    reassignment under way began. Raises ``KafkaError``: NO_REASSIGNMENT_IN_PROGRESS,
    UNKNOWN_TOPIC_OR_PARTITION."""
    current = context.assignment(partition)
    if target is None:
        if not is_being_reassigned(current):
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        target = origin_replicas(current)
    if not current.replicas or context.is_queued_for_deletion(partition.topic):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The partition {partition} does not exist."
        )
    return reassign_to(current, target)


def check_target(
    context: ControllerContext, partition: TopicPartition, target: Sequence[int]
) -> None:
    """Raises ``KafkaError``: INVALID_REPLICA_ASSIGNMENT."""
    problem = None
    if not target:
        problem = "Empty replica list specified in partition reassignment."
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


def dropped_replicas(current: ReplicaAssignment, wanted: ReplicaAssignment) -> tuple[int, ...]:
    """What an earlier reassignment was adding and ``wanted`` has no use for: to go at once."""
    return tuple(r for r in current.replicas if r not in wanted.replicas)


def check_nothing_is_lost(
    context: ControllerContext,
    partition: TopicPartition,
    wanted: ReplicaAssignment,
    known: LeaderAndIsr,
) -> None:
    """Replicas that are dropped may be the last that are in sync, when brokers died during a
    reassignment; Kafka deletes them with what only they hold. Here it is refused. Raises
    ``KafkaError``: INVALID_REPLICA_ASSIGNMENT."""
    kept = [r for r in known.isr if r in wanted.replicas]
    may_lead = known.leader in kept or bool(live_isr(context, partition, kept))
    if not kept or (known.leader >= 0 and not may_lead):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"No replica of {list(wanted.replicas)} is in sync and alive; in sync are "
            f"{list(known.isr)}.",
        )


# ------------------------------------------------------------------------------------- progress


def is_complete(
    context: ControllerContext,
    partition: TopicPartition,
    assignment: ReplicaAssignment,
    isr: Collection[int],
) -> bool:
    """Whether every target replica is in sync, and one of them can lead. (Kafka does not ask for
    the latter: it goes on to delete the others and leaves a partition without a leader.)"""
    if not is_being_reassigned(assignment):
        return True
    target = target_replicas(assignment)
    return set(target) <= set(isr) and bool(live_isr(context, partition, target))


def to_start(
    context: ControllerContext, partition: TopicPartition, assignment: ReplicaAssignment
) -> list[PartitionAndReplica]:
    """Replicas to be added that have not been started: none of them after a failover."""
    replicas = [PartitionAndReplica(partition, r) for r in assignment.adding]
    return [r for r in replicas if context.replica_state(r) is ReplicaState.NON_EXISTENT]


def must_move_leader(context: ControllerContext, partition: TopicPartition) -> bool:
    """Whether the leader is none of the assignment's replicas, or is dead."""
    leader = context.leadership[partition].leader_and_isr.leader
    if leader not in context.assignment(partition).replicas:
        return True
    return not context.is_replica_online(leader, partition)


# ---------------------------------------------------------------------- raising the leader epoch


def plan_epochs(
    context: ControllerContext, read: States
) -> tuple[dict[TopicPartition, LeaderIsrAndControllerEpoch], dict[TopicPartition, str]]:
    """The same leader and ISR in the next leader epoch, so that leaders take over a changed
    assignment (updateLeaderEpoch); and why some states must not be touched."""
    refused = {
        partition: reason
        for partition, state in read.items()
        if (reason := newer_controller(context, state)) is not None
    }
    raised = {
        partition: LeaderIsrAndControllerEpoch(
            state.leader_and_isr.new_leader(state.leader_and_isr.leader), context.epoch
        )
        for partition, state in read.items()
        if partition not in refused
    }
    return raised, refused


def apply_epochs(
    context: ControllerContext, batch: RequestBatch, results: WriteResults
) -> tuple[dict[TopicPartition, LeaderIsrAndControllerEpoch], list[TopicPartition]]:
    """Take into the context what was written, and tell every replica. Who must be read again: a
    leader changed its ISR meanwhile. Raises ``CoordinationError`` for any other failure.

    Replicas that are being added are told that they are new: where a log directory has failed
    they may be made in another one.
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
        context.leadership[partition] = written[partition] = leadership
        assignment = context.assignment(partition)
        origin = origin_replicas(assignment)
        batch.add_leader_and_isr(origin, partition, leadership, assignment, is_new=False)
        batch.add_leader_and_isr(assignment.adding, partition, leadership, assignment, is_new=True)
    return written, retry


# ---------------------------------------------------------------------------------------- a list


def under_way(
    context: ControllerContext, partitions: Collection[TopicPartition] | None
) -> Mapping[TopicPartition, ReplicaAssignment]:
    """Those of ``partitions`` (of all, with ``None``) that are being reassigned, in order."""
    asked = context.partitions_being_reassigned if partitions is None else partitions
    found = {tp: context.assignment(tp) for tp in sorted(asked)}
    return {tp: assignment for tp, assignment in found.items() if is_being_reassigned(assignment)}
