"""ListPartitionReassignments (key 46): the reassignments that are not complete (KIP-455)."""

from __future__ import annotations

from minikafka.core.security.acls import AclOperation
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.slices import in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.guards import needs
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.ports import Controller
from minikafka.server.broker.quotas import Quota


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


LIST_PARTITION_REASSIGNMENTS = Api(
    key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    handler=lambda broker: ListPartitionReassignmentsHandler(broker.controller),
    task=True,
    authorization=needs(AclOperation.DESCRIBE),
    quota=Quota.REQUESTS,
    changes_state=False,
    to_controller=True,
)
