"""ElectLeaders (key 43): the controller elects preferred or unclean leaders."""

from __future__ import annotations

from minikafka.core.security.acls import AclOperation
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.slices import Slices, in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicResult,
)
from minikafka.server.broker.admin.elections import LeaderElectionAdmin
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import Admitted, before
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.quotas import Quota


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


async def _admit_elections(
    authorization: Authorization, context: RequestContext, request: ElectLeadersRequest
) -> Admitted:
    if authorization.on_cluster(context, AclOperation.ALTER):
        return Admitted(request)
    rows, slices = [], Slices()
    async for topic in slices.over(request.topic_partitions or ()):
        partitions = [
            ElectLeadersPartitionResult(index, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
            async for index in slices.over(topic.partitions)
        ]
        rows.append(ElectLeadersTopicResult(topic.topic, partitions))
    error = (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED if context.version > 0 else ErrorCode.NONE
    )  # version 0 has no place for it
    response = ElectLeadersResponse(error_code=error, replica_election_results=rows)
    return Admitted(None, response=response)


ELECT_LEADERS = Api(
    key=ApiKey.ELECT_LEADERS,
    handler=lambda broker: ElectLeadersHandler(broker.elections),
    task=True,
    authorization=before(_admit_elections),
    quota=Quota.REQUESTS,
    changes_state=False,
    to_controller=True,
)
