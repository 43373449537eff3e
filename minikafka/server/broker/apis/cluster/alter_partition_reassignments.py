"""AlterPartitionReassignments (key 45): the controller moves replicas (KIP-455)."""

from __future__ import annotations

from minikafka.core.security.acls import AclOperation
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.slices import Slices, in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import MESSAGES, Authorization
from minikafka.server.broker.apis.guards import Admitted, before
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.ports import Controller
from minikafka.server.broker.quotas import Quota


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
        may_change_factor = request.allow_replication_factor_change
        try:
            results = await self._controller.alter_partition_reassignments(
                targets, may_change_factor
            )
        except KafkaError as error:
            return AlterPartitionReassignmentsResponse(
                0, may_change_factor, error.code, error.message
            )
        topics: dict[str, ReassignableTopicResponse] = {}
        async for tp in in_slices(targets):
            topic = topics.get(tp.topic)
            if topic is None:
                topic = topics[tp.topic] = ReassignableTopicResponse(tp.topic, [])
            topic.partitions.append(_reassignment_result(tp.partition, results[tp]))
        return AlterPartitionReassignmentsResponse(
            0, may_change_factor, ErrorCode.NONE, None, list(topics.values())
        )


def _reassignment_result(partition: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    if error is None:
        return ReassignablePartitionResponse(partition, ErrorCode.NONE, None)
    return ReassignablePartitionResponse(partition, error.code, error.message)


async def _admit_reassignments(
    authorization: Authorization,
    context: RequestContext,
    request: AlterPartitionReassignmentsRequest,
) -> Admitted:
    if authorization.on_cluster(context, AclOperation.ALTER):
        return Admitted(request)
    rows, slices = [], Slices()
    async for topic in slices.over(request.topics):
        partitions = [
            ReassignablePartitionResponse(
                partition.partition_index,
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                MESSAGES[ErrorCode.CLUSTER_AUTHORIZATION_FAILED],
            )
            async for partition in slices.over(topic.partitions)
        ]
        rows.append(ReassignableTopicResponse(topic.name, partitions))
    response = AlterPartitionReassignmentsResponse(
        0,
        request.allow_replication_factor_change,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        MESSAGES[ErrorCode.CLUSTER_AUTHORIZATION_FAILED],
        rows,
    )
    return Admitted(None, response=response)


ALTER_PARTITION_REASSIGNMENTS = Api(
    key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    handler=lambda broker: AlterPartitionReassignmentsHandler(broker.controller),
    task=True,
    authorization=before(_admit_reassignments),
    quota=Quota.REQUESTS,
    changes_state=False,
    to_controller=True,
)
