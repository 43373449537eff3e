"""Guards of transactions."""

from __future__ import annotations

from minikafka.broker.requests.authorization.authorization import Authorization
from minikafka.broker.requests.authorization.facts import GuardFacts
from minikafka.broker.requests.authorization.rows import TopicRows, Verdict, split
from minikafka.broker.requests.authorization.wrapping import Admitted, Guard, Serve, around, before
from minikafka.broker.requests.routes import RequestContext
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import INTERNAL_TOPICS, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.slices import Slices, in_slices
from minikafka.protocol.messages import add_partitions_to_txn, txn_offset_commit
from minikafka.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from minikafka.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from minikafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from minikafka.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from minikafka.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TRANSACTION = AclResourceType.TRANSACTIONAL_ID
NO_PRODUCER = -1


def _may_write(authorization: Authorization, context: RequestContext, name: str) -> bool:
    return authorization.is_allowed(context, AclOperation.WRITE, TRANSACTION, name)


async def _admit_init(
    authorization: Authorization, context: RequestContext, request: InitProducerIdRequest
) -> Admitted:
    """An idempotent producer needs IDEMPOTENT_WRITE on the cluster, or WRITE on any topic
    (KIP-679)."""
    error = ErrorCode.NONE
    if request.transactional_id is not None:
        if not _may_write(authorization, context, request.transactional_id):
            error = REFUSED
    elif not authorization.on_cluster(
        context, AclOperation.IDEMPOTENT_WRITE, log_if_denied=False
    ) and not authorization.on_any(context, AclOperation.WRITE, AclResourceType.TOPIC):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if error is ErrorCode.NONE:
        return Admitted(request)
    refusal = InitProducerIdResponse(0, error, NO_PRODUCER, NO_PRODUCER)
    return Admitted(None, response=refusal)


init_producer_id = before(_admit_init)

FIRST_VERSION_OF_BROKERS = 4
_ADD = TopicRows(
    add_partitions_to_txn.AddPartitionsToTxnResponse,
    add_partitions_to_txn.AddPartitionsToTxnTopicResult,
    add_partitions_to_txn.AddPartitionsToTxnPartitionResult,
    requested="v3_and_below_topics",
    responded="results_by_topic_v3_and_below",
)


def add_partitions(facts: GuardFacts) -> Guard:
    """Return the guard of AddPartitionsToTxn. Version 4 is for brokers. Below, the transactional id
    and the topics need WRITE, and internal topics are refused to everybody. All partitions are
    added, or none."""

    async def admit(
        authorization: Authorization,
        context: RequestContext,
        request: add_partitions_to_txn.AddPartitionsToTxnRequest,
    ) -> Admitted:
        if context.version >= FIRST_VERSION_OF_BROKERS:
            authorization.require_on_cluster(context, AclOperation.CLUSTER_ACTION)
            return Admitted(request)
        if not _may_write(authorization, context, request.v3_and_below_transactional_id):
            return Admitted(None, response=await _ADD.refuse_all(request, REFUSED))
        topics = request.v3_and_below_topics
        names = [t.name for t in topics for _ in t.partitions if t.name not in INTERNAL_TOPICS]
        allowed = await authorization.allowed(
            context, AclOperation.WRITE, AclResourceType.TOPIC, names
        )
        kept, refused = await split(topics, "name", allowed)
        if not any(topic.partitions for topic in refused):
            return Admitted(request)
        rows = await _ADD.refused(refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        async for topic in in_slices(kept):
            rows.append(_not_attempted(topic))
        response = add_partitions_to_txn.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=rows
        )
        return Admitted(None, response=response)

    def _not_attempted(
        topic: add_partitions_to_txn.AddPartitionsToTxnTopic,
    ) -> add_partitions_to_txn.AddPartitionsToTxnTopicResult:
        return add_partitions_to_txn.AddPartitionsToTxnTopicResult(
            topic.name,
            [
                add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
                    index,
                    ErrorCode.OPERATION_NOT_ATTEMPTED
                    if facts.contains(TopicPartition(topic.name, index))
                    else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
                for index in topic.partitions
            ],
        )

    return before(admit)


async def _admit_offsets(
    authorization: Authorization, context: RequestContext, request: AddOffsetsToTxnRequest
) -> Admitted:
    error = ErrorCode.NONE
    if not _may_write(authorization, context, request.transactional_id):
        error = REFUSED
    elif not authorization.is_allowed(
        context, AclOperation.READ, AclResourceType.GROUP, request.group_id
    ):
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if error is ErrorCode.NONE:
        return Admitted(request)
    return Admitted(None, response=AddOffsetsToTxnResponse(error_code=error))


add_offsets = before(_admit_offsets)


async def _admit_end(
    authorization: Authorization, context: RequestContext, request: EndTxnRequest
) -> Admitted:
    if _may_write(authorization, context, request.transactional_id):
        return Admitted(request)
    return Admitted(None, response=EndTxnResponse(error_code=REFUSED))


end = before(_admit_end)


async def _admit_markers(
    authorization: Authorization, context: RequestContext, request: WriteTxnMarkersRequest
) -> Admitted:
    """Tools that abort a hanging transaction need ALTER on the cluster, brokers CLUSTER_ACTION."""
    if authorization.on_cluster(context, AclOperation.ALTER, log_if_denied=False):
        return Admitted(request)
    if authorization.on_cluster(context, AclOperation.CLUSTER_ACTION):
        return Admitted(request)
    markers, slices = [], Slices()
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    async for marker in slices.over(request.markers):
        topics = []
        async for topic in slices.over(marker.topics):
            rows = [
                WritableTxnMarkerPartitionResult(index, error)
                async for index in slices.over(topic.partition_indexes)
            ]
            topics.append(WritableTxnMarkerTopicResult(topic.name, rows))
        markers.append(WritableTxnMarkerResult(marker.producer_id, topics))
    return Admitted(None, response=WriteTxnMarkersResponse(markers=markers))


write_markers = before(_admit_markers)

_COMMIT = TopicRows(
    txn_offset_commit.TxnOffsetCommitResponse,
    txn_offset_commit.TxnOffsetCommitResponseTopic,
    lambda row, error: txn_offset_commit.TxnOffsetCommitResponsePartition(
        row.partition_index, error
    ),
)


async def _may_commit(
    authorization: Authorization,
    context: RequestContext,
    request: txn_offset_commit.TxnOffsetCommitRequest,
) -> Verdict | ErrorCode:
    if not _may_write(authorization, context, request.transactional_id):
        return REFUSED
    group = request.group_id
    if not authorization.is_allowed(context, AclOperation.READ, AclResourceType.GROUP, group):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return Verdict.TOPICS_DECIDE


commit_of_offsets = before(_COMMIT.gate(AclOperation.READ, _may_commit))


async def _filter_description(
    authorization: Authorization,
    context: RequestContext,
    request: DescribeTransactionsRequest,
    serve: Serve,
) -> DescribeTransactionsResponse:
    """Topics that the principal may not describe are left out of a transaction."""
    names = request.transactional_ids
    allowed = await authorization.allowed(context, AclOperation.DESCRIBE, TRANSACTION, names)
    request.transactional_ids = [name for name in names if name in allowed]
    response: DescribeTransactionsResponse = await serve(request)
    topics = [topic.topic for state in response.transaction_states for topic in state.topics]
    visible = await authorization.allowed(
        context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topics
    )
    for state in response.transaction_states:
        state.topics = [topic for topic in state.topics if topic.topic in visible]
    served = iter(response.transaction_states)
    response.transaction_states = [
        next(served) if name in allowed else TransactionState(REFUSED, name) for name in names
    ]
    return response


description = around(_filter_description)


async def _filter_listing(
    authorization: Authorization,
    context: RequestContext,
    request: ListTransactionsRequest,
    serve: Serve,
) -> ListTransactionsResponse:
    response: ListTransactionsResponse = await serve(request)
    names = [state.transactional_id for state in response.transaction_states]
    allowed = await authorization.allowed(context, AclOperation.DESCRIBE, TRANSACTION, names)
    response.transaction_states = [
        state for state in response.transaction_states if state.transactional_id in allowed
    ]
    return response


listing = around(_filter_listing)
