"""Calls about placement: reassign replicas, elect leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from minikafka.core.client.calls import ControllerCall, error_of, of_each, raise_for
from minikafka.kernel.cluster import ElectionType, ReplicaAssignment, TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopic,
)
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListReassignmentsTopic,
)

PlacementOutcomes: TypeAlias = dict[TopicPartition, KafkaError | None]


def elect_leaders(
    election_type: ElectionType, partitions: Iterable[TopicPartition] | None, timeout_ms: int
) -> ControllerCall[PlacementOutcomes]:
    """Build ElectLeaders. The result is None for each partition that got a new leader.

    If ``partitions`` is None, all are elected, and those that need no election have no outcome.
    """

    def read(response: ElectLeadersResponse) -> PlacementOutcomes:
        raise_for(response.error_code)
        outcomes = {
            TopicPartition(topic.topic, row.partition_id): error_of(
                row.error_code, row.error_message
            )
            for topic in response.replica_election_results
            for row in topic.partition_result
        }
        for error in outcomes.values():
            if error is not None and error.code is ErrorCode.NOT_CONTROLLER:
                raise error  # retried at the current controller
        return outcomes

    topics = None
    if partitions is not None:
        topics = [ElectLeadersTopic(t, numbers) for t, numbers in grouped(partitions).items()]
    return ControllerCall(ElectLeadersRequest(election_type, topics, timeout_ms), read)


def alter_partition_reassignments(
    targets: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int
) -> ControllerCall[PlacementOutcomes]:
    """Build AlterPartitionReassignments. A target of None cancels a reassignment.

    The result is None for each partition whose reassignment has begun.
    """

    def read(response: AlterPartitionReassignmentsResponse) -> PlacementOutcomes:
        raise_for(response.error_code, response.error_message)
        found = {
            TopicPartition(topic.name, row.partition_index): error_of(
                row.error_code, row.error_message
            )
            for topic in response.responses
            for row in topic.partitions
        }
        return of_each(targets, found)

    rows = grouped(
        (tp.topic, ReassignablePartition(tp.partition, None if to is None else list(to)))
        for tp, to in targets.items()
    )
    topics = [ReassignableTopic(name, partitions) for name, partitions in rows.items()]
    return ControllerCall(AlterPartitionReassignmentsRequest(timeout_ms, topics), read)


def list_partition_reassignments(
    partitions: Iterable[TopicPartition] | None, timeout_ms: int
) -> ControllerCall[dict[TopicPartition, ReplicaAssignment]]:
    """Build ListPartitionReassignments for ``partitions``, or for all if None.

    The result has the reassignments in progress.
    """

    def read(
        response: ListPartitionReassignmentsResponse,
    ) -> dict[TopicPartition, ReplicaAssignment]:
        raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, row.partition_index): ReplicaAssignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in response.topics
            for row in topic.partitions
        }

    topics = None
    if partitions is not None:
        topics = [ListReassignmentsTopic(t, numbers) for t, numbers in grouped(partitions).items()]
    return ControllerCall(ListPartitionReassignmentsRequest(timeout_ms, topics), read)
