"""The decisions of topic deletion: which topics can be deleted now, and the next step of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.states import ReplicaState
from minikafka.kernel.cluster import PartitionAndReplica, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DeletionStep:
    """What to do now about the topics to be deleted, in this order."""

    complete: tuple[str, ...]  # every replica is deleted: remove the topic
    retry: tuple[PartitionAndReplica, ...]  # could not be deleted: take back to OfflineReplica
    start: tuple[str, ...]  # no replica is being deleted: start, or start again


@dataclass(frozen=True, slots=True)
class ReplicasToDelete:
    """The replicas of topics whose deletion starts."""

    dead: tuple[PartitionAndReplica, ...]  # cannot be deleted now
    alive: tuple[PartitionAndReplica, ...]  # to be stopped, then deleted
    halted: tuple[str, ...]  # topics with dead replicas: ineligible until their brokers start


def queue(context: ControllerContext, topics: Iterable[str]) -> None:
    context.topics_to_be_deleted.update(topics)


def ineligible_at_failover(context: ControllerContext) -> set[str]:
    """Return the topics that cannot be deleted now: a replica is offline, or a partition is being
    reassigned."""
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
    """Mark those of ``topics`` that are to be deleted as ineligible, and return them sorted."""
    halted = context.topics_to_be_deleted.intersection(topics)
    context.topics_ineligible_for_deletion |= halted
    return sorted(halted)


def resume(context: ControllerContext, topics: Iterable[str]) -> list[str]:
    """Make those of ``topics`` that are to be deleted eligible again, and return them sorted."""
    resumed = context.topics_to_be_deleted.intersection(topics)
    context.topics_ineligible_for_deletion -= resumed
    return sorted(resumed)


def progress(context: ControllerContext, topic: str, most: int) -> Mapping[str, Any]:
    """Return how far the deletion of a topic is, as JSON values. It is ``halted`` while a broker is
    dead or a partition is being reassigned. The states of at most ``most`` replicas are counted;
    ``all_counted`` says whether the topic has no others."""
    replicas = _replicas(context, topic)
    states = Counter(context.replica_state(replica) for replica in islice(replicas, most))
    return {
        "topic": topic,
        "started": topic in context.topics_with_deletion_started,
        "halted": topic in context.topics_ineligible_for_deletion,
        "replicas": dict(sorted((str(state), count) for state, count in states.items())),
        "all_counted": next(replicas, None) is None,
    }


def _replicas(context: ControllerContext, topic: str) -> Iterator[PartitionAndReplica]:
    for number, assignment in context.assignments.get(topic, {}).items():
        for replica in assignment.replicas:
            yield PartitionAndReplica(TopicPartition(topic, number), replica)


def next_step(context: ControllerContext) -> DeletionStep:
    """Decide the next step of every topic to be deleted.

    A. all its replicas are deleted: complete.
    B. a replica is being deleted (StopReplica has no response yet): wait.
    C. a replica could not be deleted: prepare another attempt, even while the topic is ineligible.
    D. no replica is being deleted, and the topic is eligible: start.
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


def not_started(context: ControllerContext, topics: Iterable[str]) -> list[str]:
    """Return those of ``topics`` whose deletion starts for the first time in this term: their
    partitions still have to be taken to NonExistent."""
    return [topic for topic in topics if topic not in context.topics_with_deletion_started]


def replicas_to_delete(context: ControllerContext, topics: Iterable[str]) -> ReplicasToDelete:
    """Classify the replicas of ``topics`` that are not deleted yet by whether they are online."""
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
    """Split the partitions of a StopReplica response into failed and deleted replicas. Partitions
    whose topic is not being deleted are left out."""
    failed: list[PartitionAndReplica] = []
    deleted: list[PartitionAndReplica] = []
    for partition, partition_error in sorted(partition_errors):
        if partition.topic not in context.topics_with_deletion_started:
            continue
        replica = PartitionAndReplica(partition, broker_id)
        succeeded = error is ErrorCode.NONE and partition_error is ErrorCode.NONE
        (deleted if succeeded else failed).append(replica)
    return failed, deleted


def split_by_deletion(
    context: ControllerContext, replicas: Collection[PartitionAndReplica]
) -> tuple[list[PartitionAndReplica], list[PartitionAndReplica]]:
    """Split replicas into those of topics to be deleted, and the others."""
    deleting = [r for r in replicas if context.is_queued_for_deletion(r.topic_partition.topic)]
    others = [r for r in replicas if not context.is_queued_for_deletion(r.topic_partition.topic)]
    return deleting, others
