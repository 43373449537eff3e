"""DeleteRecords (key 21): advance the log start offset of partitions."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from minikafka.core.security.acls import AclOperation
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.slices import Slices, in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.eager_start import begun
from minikafka.server.broker.apis.guards import TopicRows, before
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.quotas import Quota
from minikafka.server.broker.replication.record_deletion import RecordDeletion


class DeleteRecordsHandler:
    """Serves DeleteRecords (an ``ImmediateHandler``).

    A partition that is named twice has one result, for its last offset. The records of many
    partitions are deleted in slices."""

    def __init__(self, deletion: RecordDeletion) -> None:
        self._deletion = deletion

    def __call__(
        self, context: RequestContext, request: DeleteRecordsRequest, reply: Reply
    ) -> Coroutine[Any, Any, None] | None:
        return begun(self._delete(request, reply), reply)

    async def _delete(self, request: DeleteRecordsRequest, reply: Reply) -> None:
        offsets: dict[TopicPartition, int] = {}
        slices = Slices()
        for topic in request.topics:
            if slices.ended():
                await slices.pause()
            for requested in topic.partitions:
                if slices.ended():
                    await slices.pause()
                offsets[TopicPartition(topic.name, requested.partition_index)] = requested.offset
        topics: dict[str, DeleteRecordsTopicResult] = {}
        async for result in in_slices(await self._deletion.delete(offsets, request.timeout_ms)):
            name, index = result.topic_partition
            if name not in topics:
                topics[name] = DeleteRecordsTopicResult(name)
            row = DeleteRecordsPartitionResult(index, result.low_watermark, result.error)
            topics[name].partitions.append(row)
        reply(DeleteRecordsResponse(topics=list(topics.values())))


_DELETE_RECORDS = TopicRows(
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    lambda row, error: DeleteRecordsPartitionResult(row.partition_index, -1, error),
)


DELETE_RECORDS = Api(
    key=ApiKey.DELETE_RECORDS,
    handler=lambda broker: DeleteRecordsHandler(broker.replicas.deletion),
    task=False,
    authorization=before(_DELETE_RECORDS.gate(AclOperation.DELETE)),
    quota=Quota.REQUESTS,
    changes_state=True,
)
