"""Leadership and placement: ElectLeaders, partition reassignments (keys 43, 45, 46)."""

from __future__ import annotations

from minikafka.broker.admin.elections import LeaderElectionAdmin
from minikafka.broker.ports import Controller
from minikafka.broker.requests.routes import RequestContext
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.slices import in_slices
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from minikafka.protocol.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicResult,
)
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


class ElectLeadersHandler:
    """Serves ElectLeaders (a ``TaskHandler``).

    The response to a request for all partitions omits those that need no election. A request may
    name every partition of a cluster: it is read, and its response built, in slices."""

    def __init__(self, elections: LeaderElectionAdmin) -> None:
        self._elections = elections

    async def __call__(
        self, context: RequestContext, request: ElectLeadersRequest
    ) -> ElectLeadersResponse:
        try:
            election_type = ElectionType(request.election_type)
        except ValueError:
            return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
        named = (
            self._elections.all_partitions()
            if request.topic_partitions is None
            else (
                TopicPartition(row.topic, number)
                for row in request.topic_partitions
                for number in row.partitions
            )
        )
        partitions = {tp: None async for tp in in_slices(named)}
        results = await self._elections.elect(partitions, election_type, request.timeout_ms)
        topics: dict[str, ElectLeadersTopicResult] = {}
        async for tp in in_slices(sorted(results)):
            error = results[tp]
            if request.topic_partitions is None and _needless(error):
                continue
            topic = topics.get(tp.topic)
            if topic is None:
                topic = topics[tp.topic] = ElectLeadersTopicResult(tp.topic, [])
            topic.partition_result.append(_election_result(tp.partition, error))
        return ElectLeadersResponse(replica_election_results=list(topics.values()))


def _needless(error: KafkaError | None) -> bool:
    return error is not None and error.code is ErrorCode.ELECTION_NOT_NEEDED


def _election_result(partition: int, error: KafkaError | None) -> ElectLeadersPartitionResult:
    if error is None:
        return ElectLeadersPartitionResult(partition, ErrorCode.NONE, None)
    return ElectLeadersPartitionResult(partition, error.code, error.message)


class AlterPartitionReassignmentsHandler:
    """Serves AlterPartitionReassignments (a ``TaskHandler``).

    The response is sent when all reassignments have begun, not when they are complete. A request
    may name every partition of a cluster: it is read, and its response built, in slices."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def __call__(
        self, context: RequestContext, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        targets: dict[TopicPartition, tuple[int, ...] | None] = {}
        named = ((topic.name, row) for topic in request.topics for row in topic.partitions)
        async for name, row in in_slices(named):
            replicas = None if row.replicas is None else tuple(row.replicas)
            targets[TopicPartition(name, row.partition_index)] = replicas
        try:
            results = await self._controller.alter_partition_reassignments(targets)
        except KafkaError as error:
            return AlterPartitionReassignmentsResponse(
                error_code=error.code, error_message=error.message
            )
        topics: dict[str, ReassignableTopicResponse] = {}
        async for tp in in_slices(targets):
            topic = topics.get(tp.topic)
            if topic is None:
                topic = topics[tp.topic] = ReassignableTopicResponse(tp.topic, [])
            topic.partitions.append(_reassignment_result(tp.partition, results[tp]))
        return AlterPartitionReassignmentsResponse(
            error_message=None, responses=list(topics.values())
        )


def _reassignment_result(partition: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    if error is None:
        return ReassignablePartitionResponse(partition, ErrorCode.NONE, None)
    return ReassignablePartitionResponse(partition, error.code, error.message)


class ListPartitionReassignmentsHandler:
    """Serves ListPartitionReassignments (a ``TaskHandler``).

    The response omits partitions that are unknown or not being reassigned. The request is read,
    and its response built, in slices."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def __call__(
        self, context: RequestContext, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        requested = (
            None
            if request.topics is None
            else [
                TopicPartition(topic.name, number)
                async for topic, number in in_slices(
                    (t, number) for t in request.topics for number in t.partition_indexes
                )
            ]
        )
        try:
            found = await self._controller.list_partition_reassignments(requested)
        except KafkaError as error:
            return ListPartitionReassignmentsResponse(
                error_code=error.code, error_message=error.message
            )
        ongoing: dict[str, OngoingTopicReassignment] = {}
        async for tp, assignment in in_slices(found.items()):
            of_topic = ongoing.get(tp.topic)
            if of_topic is None:
                of_topic = ongoing[tp.topic] = OngoingTopicReassignment(tp.topic, [])
            of_topic.partitions.append(
                OngoingPartitionReassignment(
                    tp.partition,
                    list(assignment.replicas),
                    list(assignment.adding),
                    list(assignment.removing),
                )
            )
        return ListPartitionReassignmentsResponse(error_message=None, topics=list(ongoing.values()))
