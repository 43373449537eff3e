"""Guards of records and their offsets: Produce, ListOffsets, DeleteRecords, OffsetForLeaderEpoch,
DescribeProducers. Fetch is decided about in its handler, which knows the fetch session."""

from __future__ import annotations

from typing import Any

from minikafka.broker.requests.authorization.authorization import MESSAGES, Authorization, denied
from minikafka.broker.requests.authorization.rows import TopicRows, Verdict
from minikafka.broker.requests.authorization.wrapping import Admitted, before
from minikafka.broker.requests.produce import partition_rows
from minikafka.broker.requests.routes import RequestContext
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.core.topic_names import name_problem
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.slices import Slices, in_slices
from minikafka.protocol.messages import delete_records, describe_producers, list_offsets
from minikafka.protocol.messages import offset_for_leader_epoch as epochs
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.records.batch import is_transactional

NO_ACKS = 0

_PRODUCE = TopicRows(
    ProduceResponse,
    TopicProduceResponse,
    lambda data, error: PartitionProduceResponse(data.index, error, -1),
    requested="topic_data",
    partitions="partition_data",
    responded="responses",
)
_write_topics = _PRODUCE.gate(AclOperation.WRITE)


async def _admit_produce(
    authorization: Authorization, context: RequestContext, request: ProduceRequest
) -> Admitted:
    """Transactional batches need WRITE on the transactional id, and all need WRITE on their topics.
    With acks=0 an error closes the connection, after what is allowed has been appended."""
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if await _has_transactional_batch(request) and not _may_use_id(authorization, context, request):
        if request.acks == NO_ACKS:
            return Admitted(None, response=denied(error))
        return Admitted(None, response=await _PRODUCE.refuse_all(request, error))
    admitted = await _write_topics(authorization, context, request)
    if request.acks != NO_ACKS or (admitted.join is None and admitted.request is not None):
        return admitted
    refusal = denied(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return Admitted(admitted.request, lambda failure: failure or refusal, refusal)


async def _has_transactional_batch(request: ProduceRequest) -> bool:
    slices = Slices()
    for _, data in partition_rows(request):
        if slices.ended():
            await slices.pause()
        if data.records is not None and is_transactional(data.records):
            return True
    return False


def _may_use_id(
    authorization: Authorization, context: RequestContext, request: ProduceRequest
) -> bool:
    name, kind = request.transactional_id, AclResourceType.TRANSACTIONAL_ID
    return name is not None and authorization.is_allowed(context, AclOperation.WRITE, kind, name)


produce = before(_admit_produce, on_pause=ProduceRequest.copy_records)

_LIST_OFFSETS = TopicRows(
    list_offsets.ListOffsetsResponse,
    list_offsets.ListOffsetsTopicResponse,
    lambda row, error: list_offsets.ListOffsetsPartitionResponse(row.partition_index, error),
)
list_of_offsets = before(_LIST_OFFSETS.gate(AclOperation.DESCRIBE))

_DELETE_RECORDS = TopicRows(
    delete_records.DeleteRecordsResponse,
    delete_records.DeleteRecordsTopicResult,
    lambda row, error: delete_records.DeleteRecordsPartitionResult(row.partition_index, -1, error),
)
deletion_of_records = before(_DELETE_RECORDS.gate(AclOperation.DELETE))


async def _brokers_or_topics(
    authorization: Authorization, context: RequestContext, request: object
) -> Verdict:
    """Followers may ask about all topics, and consumers about those that they may describe."""
    if authorization.on_cluster(context, AclOperation.CLUSTER_ACTION, log_if_denied=False):
        return Verdict.ALL_ALLOWED
    return Verdict.TOPICS_DECIDE


_EPOCHS = TopicRows(
    epochs.OffsetForLeaderEpochResponse,
    lambda name, rows: epochs.OffsetForLeaderTopicResult(name, rows),
    lambda row, error: epochs.EpochEndOffset(error, row.partition),
    name="topic",
)
offset_for_leader_epoch = before(_EPOCHS.gate(AclOperation.DESCRIBE, _brokers_or_topics))

_PRODUCERS = TopicRows(
    describe_producers.DescribeProducersResponse,
    describe_producers.TopicResponse,
    lambda index, error: describe_producers.PartitionResponse(index, error, MESSAGES[error]),
    partitions="partition_indexes",
)


async def _admit_describe_producers(
    authorization: Authorization, context: RequestContext, request: Any
) -> Admitted:
    """Names that no topic may have are refused by the handler, without a question."""
    valid: list[Any] = []
    invalid: list[Any] = []
    async for topic in in_slices(request.topics):
        (valid if name_problem(topic.name) is None else invalid).append(topic)
    request.topics = valid
    admitted = await _PRODUCERS.gate(AclOperation.READ, answers_alone=False)(
        authorization, context, request
    )
    request.topics = request.topics + invalid
    return admitted


description_of_producers = before(_admit_describe_producers)
