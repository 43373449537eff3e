"""AlterPartitionReassignments, ListPartitionReassignments (45, 46), answered by the controller."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import Protocol

from minikafka.broker.context import RequestContext
from minikafka.kernel.cluster import ReplicaAssignment, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


class ReassigningController(Protocol):
    def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> Awaitable[Mapping[TopicPartition, KafkaError | None]]:
        """Why some reassignments have not begun (or ended). Raises ``KafkaError``."""
        ...

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None
    ) -> Awaitable[Mapping[TopicPartition, ReplicaAssignment]]:
        """Raises ``KafkaError``."""
        ...


class AlterPartitionReassignmentsHandler:
    """A TaskHandler. It answers when all reassignments have begun, not when they are done."""

    def __init__(self, controller: ReassigningController) -> None:
        self._controller = controller

    async def __call__(
        self, context: RequestContext, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        targets = {
            TopicPartition(topic.name, row.partition_index): (
                None if row.replicas is None else tuple(row.replicas)
            )
            for topic in request.topics
            for row in topic.partitions
        }
        try:
            results = await self._controller.alter_partition_reassignments(targets)
        except KafkaError as error:
            return AlterPartitionReassignmentsResponse(
                error_code=error.code, error_message=error.message
            )
        topics: dict[str, ReassignableTopicResponse] = {}
        for tp in targets:
            row = topics.setdefault(tp.topic, ReassignableTopicResponse(tp.topic))
            row.partitions.append(_result(tp.partition, results[tp]))
        return AlterPartitionReassignmentsResponse(
            error_message=None, responses=list(topics.values())
        )


def _result(partition: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    if error is None:
        return ReassignablePartitionResponse(partition, ErrorCode.NONE, None)
    return ReassignablePartitionResponse(partition, error.code, error.message)


class ListPartitionReassignmentsHandler:
    """A TaskHandler. Partitions that are at rest, or unknown, are not in the answer."""

    def __init__(self, controller: ReassigningController) -> None:
        self._controller = controller

    async def __call__(
        self, context: RequestContext, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        asked = (
            None
            if request.topics is None
            else [
                TopicPartition(t.name, number)
                for t in request.topics
                for number in t.partition_indexes
            ]
        )
        try:
            found = await self._controller.list_partition_reassignments(asked)
        except KafkaError as error:
            return ListPartitionReassignmentsResponse(
                error_code=error.code, error_message=error.message
            )
        topics: dict[str, OngoingTopicReassignment] = {}
        for tp, assignment in found.items():
            row = topics.setdefault(tp.topic, OngoingTopicReassignment(tp.topic))
            row.partitions.append(
                OngoingPartitionReassignment(
                    tp.partition,
                    list(assignment.replicas),
                    list(assignment.adding),
                    list(assignment.removing),
                )
            )
        return ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))
