"""DeleteRecords (key 21), answered by the leaders of the partitions."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.delayed_delete_records import DeletionResult
from minikafka.broker.record_deletion import RecordDeletion
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


class DeleteRecordsHandler:
    """An ImmediateHandler. A partition named twice is answered once, for its last offset."""

    def __init__(self, deletion: RecordDeletion) -> None:
        self._deletion = deletion

    def __call__(
        self, context: RequestContext, request: DeleteRecordsRequest, reply: Reply
    ) -> None:
        offsets = {
            TopicPartition(topic.name, wanted.partition_index): wanted.offset
            for topic in request.topics
            for wanted in topic.partitions
        }

        def answer(results: Sequence[DeletionResult]) -> None:
            reply(_response(results))

        self._deletion.delete(offsets, request.timeout_ms, answer)


def _response(results: Sequence[DeletionResult]) -> DeleteRecordsResponse:
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for result in results:
        name, index = result.topic_partition
        topic = topics.setdefault(name, DeleteRecordsTopicResult(name))
        topic.partitions.append(
            DeleteRecordsPartitionResult(index, result.low_watermark, result.error)
        )
    return DeleteRecordsResponse(topics=list(topics.values()))
