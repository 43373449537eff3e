"""Which topics can be deleted now, and what that takes (the decisions of TopicDeletionManager)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.states import ReplicaState
from minikafka.kernel.cluster import PartitionAndReplica, TopicPartition
from minikafka.kernel.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class DeletionStep:
    """What is to be done about the topics that wait for their deletion, in this order."""

    complete: tuple[str, ...]  # every replica is deleted: forget the topic
    retry: tuple[PartitionAndReplica, ...]  # ineligible before: back to OfflineReplica
    start: tuple[str, ...]  # nothing is under way: begin, or begin again


@dataclass(frozen=True, slots=True)
class ReplicasToDelete:
    """The replicas of the topics whose deletion begins."""

    dead: tuple[PartitionAndReplica, ...]  # cannot be deleted now
    alive: tuple[PartitionAndReplica, ...]  # to be stopped, then deleted
    halted: tuple[str, ...]  # topics with dead replicas: ineligible until those return


def queue(context: ControllerContext, topics: Iterable[str]) -> None:
    context.topics_to_be_deleted.update(topics)


def ineligible_at_failover(context: ControllerContext) -> set[str]:
    """Topics that could not be deleted at once if asked to: replicas offline, or moving."""
    offline = {
        topic
        for topic in context.all_topics
        if any(
            not context.is_replica_online(r.replica, r.topic_partition)
            for r in context.replicas_for_topic(topic)
        )
    }
    return offline | {tp.topic for tp in context.partitions_being_reassigned}


def halt(context: ControllerContext, topics: Iterable[str]) -> list[str]:
    """Mark those of ``topics`` that wait for deletion as ineligible; which those are."""
    halted = context.topics_to_be_deleted.intersection(topics)
    context.topics_ineligible_for_deletion |= halted
    return sorted(halted)


def resume(context: ControllerContext, topics: Iterable[str]) -> list[str]:
    """What stood in the way of deleting ``topics`` is over; which of them wait for deletion."""
    resumed = context.topics_to_be_deleted.intersection(topics)
    context.topics_ineligible_for_deletion -= resumed
    return sorted(resumed)


def next_step(context: ControllerContext) -> DeletionStep:
    """Look at every topic that waits for deletion.

    A. all its replicas are deleted: complete.
    B. some replica was told and has not answered: wait.
    C. some replica failed: it gets ready for another try, even while the topic is ineligible.
    D. nothing is under way and nothing in the way: start.
    """
    complete: list[str] = []
    retry: list[PartitionAndReplica] = []
    start: list[str] = []
    for topic in sorted(context.topics_to_be_deleted):
        if context.all_replicas_in_state(topic, ReplicaState.DELETION_SUCCESSFUL):
            complete.append(topic)  # case A
            continue
        if context.any_replica_in_state(topic, ReplicaState.DELETION_STARTED):
            continue  # case B
        retry += context.replicas_in_state(topic, ReplicaState.DELETION_INELIGIBLE)  # case C
        if topic not in context.topics_ineligible_for_deletion:
            start.append(topic)  # case D
    return DeletionStep(tuple(complete), tuple(retry), tuple(start))


def unseen(context: ControllerContext, topics: Iterable[str]) -> list[str]:
    """Those of ``topics`` whose partitions are still in the partition state machine's hands."""
    return [topic for topic in topics if topic not in context.topics_with_deletion_started]


def replicas_to_delete(context: ControllerContext, topics: Iterable[str]) -> ReplicasToDelete:
    dead: list[PartitionAndReplica] = []
    alive: list[PartitionAndReplica] = []
    halted: list[str] = []
    for topic in topics:
        offline = [
            r
            for r in context.replicas_for_topic(topic)
            if not context.is_replica_online(r.replica, r.topic_partition)
        ]
        dead += offline
        alive += [
            r
            for r in context.replicas_for_topic(topic)
            if context.is_replica_online(r.replica, r.topic_partition)
            and context.replica_state(r) is not ReplicaState.DELETION_SUCCESSFUL
        ]
        if offline:
            halted.append(topic)
    return ReplicasToDelete(tuple(dead), tuple(alive), tuple(halted))


def failed_and_deleted(
    context: ControllerContext,
    broker_id: int,
    error: ErrorCode,
    partition_errors: Iterable[tuple[TopicPartition, ErrorCode]],
) -> tuple[list[PartitionAndReplica], list[PartitionAndReplica]]:
    """What a broker's answer to StopReplica says about replicas of topics being deleted."""
    failed: list[PartitionAndReplica] = []
    deleted: list[PartitionAndReplica] = []
    for partition, partition_error in sorted(partition_errors):
        if partition.topic not in context.topics_with_deletion_started:
            continue
        replica = PartitionAndReplica(partition, broker_id)
        fine = error is ErrorCode.NONE and partition_error is ErrorCode.NONE
        (deleted if fine else failed).append(replica)
    return failed, deleted


def split_by_deletion(
    context: ControllerContext, replicas: Collection[PartitionAndReplica]
) -> tuple[list[PartitionAndReplica], list[PartitionAndReplica]]:
    """Those of topics that wait for deletion, and the others."""
    doomed = [r for r in replicas if context.is_queued_for_deletion(r.topic_partition.topic)]
    others = [r for r in replicas if not context.is_queued_for_deletion(r.topic_partition.topic)]
    return doomed, others
