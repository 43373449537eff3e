"""ElectLeaders (key 43), answered by the controller."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.leader_elections import LeaderElections
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicResult,
)


class ElectLeadersHandler:
    """A TaskHandler. Asked for all partitions, it leaves out those that need no election."""

    def __init__(self, elections: LeaderElections) -> None:
        self._elections = elections

    async def __call__(
        self, context: RequestContext, request: ElectLeadersRequest
    ) -> ElectLeadersResponse:
        try:
            election_type = ElectionType(request.election_type)
        except ValueError:
            return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
        partitions = (
            self._elections.all_partitions()
            if request.topic_partitions is None
            else [
                TopicPartition(row.topic, number)
                for row in request.topic_partitions
                for number in row.partitions
            ]
        )
        results = await self._elections.elect(
            dict.fromkeys(partitions), election_type, request.timeout_ms
        )
        if request.topic_partitions is None:
            results = {tp: error for tp, error in results.items() if not _needless(error)}
        topics: dict[str, ElectLeadersTopicResult] = {}
        for tp, error in sorted(results.items(), key=lambda row: row[0]):
            row = topics.setdefault(tp.topic, ElectLeadersTopicResult(tp.topic))
            row.partition_result.append(_result(tp.partition, error))
        return ElectLeadersResponse(replica_election_results=list(topics.values()))


def _needless(error: KafkaError | None) -> bool:
    return error is not None and error.code is ErrorCode.ELECTION_NOT_NEEDED


def _result(partition: int, error: KafkaError | None) -> ElectLeadersPartitionResult:
    if error is None:
        return ElectLeadersPartitionResult(partition, ErrorCode.NONE, None)
    return ElectLeadersPartitionResult(partition, error.code, error.message)
