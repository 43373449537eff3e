"""The APIs of transactions (keys 22, 24 to 27, 61, 65, 66)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from minikafka.broker.metadata.cache import MetadataCache
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.broker.replication.record_appends import AppendEntry, AppendResult
from minikafka.broker.replication.replica_manager import ReplicaManager
from minikafka.broker.requests.routes import Reply, RequestContext
from minikafka.core.coordinator_shard import RespondError
from minikafka.core.log.append import AppendOrigin
from minikafka.core.topic_names import require_valid
from minikafka.core.transaction.result import Initialized
from minikafka.core.transaction.transaction import NO_EPOCH, NO_PRODUCER_ID
from minikafka.kernel.cluster import (
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    ProducerIdAndEpoch,
    TopicPartition,
    grouped,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Clock
from minikafka.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from minikafka.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
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
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.control import (
    ControlRecordType,
    EndTxnMarker,
    encode_end_txn_marker,
)


class TransactionCoordination(Protocol):
    """The interface of the transaction coordinator for request handlers. ``respond`` arguments are
    called exactly once, now or later."""

    async def init_producer_id(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
    ) -> Initialized:
        """Return the producer id and epoch for a transactional id, or a new producer id without
        one. Raises KafkaError."""
        ...

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        respond: RespondError,
    ) -> None: ...

    def verify_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
    ) -> Mapping[TopicPartition, ErrorCode]: ...

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        committed: bool,
        respond: RespondError,
    ) -> None: ...

    def describe(self, transactional_id: str) -> TransactionState: ...

    def list_transactions(
        self, states: Collection[str], producer_ids: Collection[int], longer_than_ms: int
    ) -> ListTransactionsResponse: ...


def as_known_to(version: int, error: ErrorCode, first_with_fenced: int = 2) -> ErrorCode:
    """Return INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED for versions below
    ``first_with_fenced``."""
    if error is ErrorCode.PRODUCER_FENCED and version < first_with_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


FIRST_VERSION_WITH_PRODUCER_FENCED = 4


class InitProducerIdHandler:
    """Serves InitProducerId (a ``TaskHandler``)."""

    def __init__(self, transactions: TransactionCoordination) -> None:
        self._transactions = transactions

    async def __call__(
        self, context: RequestContext, request: InitProducerIdRequest
    ) -> InitProducerIdResponse:
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        expected = None
        if request.producer_id != NO_PRODUCER_ID:
            expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        begun = await self._transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, expected
        )
        return InitProducerIdResponse(
            error_code=as_known_to(
                context.version, begun.error, FIRST_VERSION_WITH_PRODUCER_FENCED
            ),
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
        )


FIRST_VERSION_WITH_MANY = 4


class AddPartitionsToTxnHandler:
    """Serves AddPartitionsToTxn (an ``ImmediateHandler``).

    All partitions of a transaction are added, or none: if one does not exist the others have
    OPERATION_NOT_ATTEMPTED. As in Kafka, clients cannot add internal topics, whatever they may
    do otherwise."""

    def __init__(self, transactions: TransactionCoordination, cluster: MetadataCache) -> None:
        self._transactions = transactions
        self._cluster = cluster

    def __call__(
        self, context: RequestContext, request: AddPartitionsToTxnRequest, reply: Reply
    ) -> None:
        version = context.version
        if version < FIRST_VERSION_WITH_MANY:
            transaction = AddPartitionsToTxnTransaction(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
            self._one(version, transaction, lambda result: reply(_old_response(result)))
            return
        results: dict[int, AddPartitionsToTxnResult] = {}
        requested = request.transactions
        for place, transaction in enumerate(requested):

            def respond(result: AddPartitionsToTxnResult, place: int = place) -> None:
                results[place] = result
                if len(results) == len(requested):
                    in_order = [results[place] for place in range(len(requested))]
                    reply(AddPartitionsToTxnResponse(results_by_transaction=in_order))

            self._one(version, transaction, respond)
        if not requested:
            reply(AddPartitionsToTxnResponse())

    def _one(
        self,
        version: int,
        transaction: AddPartitionsToTxnTransaction,
        respond: Callable[[AddPartitionsToTxnResult], None],
    ) -> None:
        transactional_id = transaction.transactional_id
        producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
        partitions = list(_partitions(transaction.topics))
        unknown = [tp for tp in partitions if not self._cluster.contains(tp)]
        internal: list[TopicPartition] = []
        if version < FIRST_VERSION_WITH_MANY:
            internal = [tp for tp in partitions if tp.topic in INTERNAL_TOPICS]

        def respond_errors(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            respond(_result(transactional_id, errors))

        if unknown or internal:
            respond_errors(
                {
                    **dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED),
                    **dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    **dict.fromkeys(internal, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
                }
            )
        elif transaction.verify_only:
            respond_errors(
                self._transactions.verify_partitions(transactional_id, producer, partitions)
            )
        else:
            self._transactions.add_partitions(
                transactional_id,
                producer,
                partitions,
                lambda error: respond_errors(
                    dict.fromkeys(partitions, as_known_to(version, error))
                ),
            )


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> Iterable[TopicPartition]:
    return (TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)


def _result(
    transactional_id: str, errors: Mapping[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResult:
    rows = (
        (topic, AddPartitionsToTxnPartitionResult(index, error))
        for (topic, index), error in errors.items()
    )
    topics = [AddPartitionsToTxnTopicResult(*of_topic) for of_topic in grouped(rows).items()]
    return AddPartitionsToTxnResult(transactional_id, topics)


def _old_response(result: AddPartitionsToTxnResult) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)


class AddOffsetsToTxnHandler:
    """Serves AddOffsetsToTxn (an ``ImmediateHandler``).

    It adds the group's partition of ``__consumer_offsets`` to the transaction. ``partition_for``
    returns that partition for a group id."""

    def __init__(
        self, transactions: TransactionCoordination, partition_for: Callable[[str], int]
    ) -> None:
        self._transactions = transactions
        self._partition_for = partition_for

    def __call__(
        self, context: RequestContext, request: AddOffsetsToTxnRequest, reply: Reply
    ) -> None:
        version = context.version
        where = TopicPartition(GROUP_METADATA_TOPIC, self._partition_for(request.group_id))
        self._transactions.add_partitions(
            request.transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            [where],
            lambda error: reply(AddOffsetsToTxnResponse(error_code=as_known_to(version, error))),
        )


class EndTxnHandler:
    """Serves EndTxn (an ``ImmediateHandler``)."""

    def __init__(self, transactions: TransactionCoordination) -> None:
        self._transactions = transactions

    def __call__(self, context: RequestContext, request: EndTxnRequest, reply: Reply) -> None:
        version = context.version
        self._transactions.end(
            request.transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            request.committed,
            lambda error: reply(EndTxnResponse(error_code=as_known_to(version, error))),
        )


ALL_IN_SYNC = -1

# Called when markers are replicated in partitions of ``__consumer_offsets``: with the producer id,
# the offset of the marker in each partition, and whether the transaction is committed.
OffsetsDecided: TypeAlias = Callable[[int, Mapping[int, int], bool], None]


class WriteTxnMarkersHandler:
    """Serves WriteTxnMarkers (an ``ImmediateHandler``).

    The response is sent when all in-sync replicas have the markers, or after
    ``request_timeout_ms``."""

    def __init__(
        self,
        replicas: ReplicaManager,
        clock: Clock,
        offsets_decided: OffsetsDecided,
        request_timeout_ms: int,
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._offsets_decided = offsets_decided
        self._request_timeout_ms = request_timeout_ms

    def __call__(
        self, context: RequestContext, request: WriteTxnMarkersRequest, reply: Reply
    ) -> None:
        now_ms = self._clock.wall_ms()
        entries: list[AppendEntry] = []
        for marker in request.markers:
            batch = _batch(marker, now_ms)
            entries += [
                AppendEntry(TopicPartition(topic.name, index), batch)
                for topic in marker.topics
                for index in topic.partition_indexes
            ]

        def respond(results: Sequence[AppendResult]) -> None:
            rest = iter(results)
            reply(WriteTxnMarkersResponse([self._result(m, rest) for m in request.markers]))

        if not entries:
            respond(())
            return
        self._replicas.appends.append(
            AppendOrigin.COORDINATOR, entries, ALL_IN_SYNC, self._request_timeout_ms, respond
        )

    def _result(
        self, marker: WritableTxnMarker, results: Iterator[AppendResult]
    ) -> WritableTxnMarkerResult:
        """Return the result of one marker, whose partitions come next in ``results``. Call
        ``offsets_decided`` with its markers in ``__consumer_offsets``."""
        marker_result = WritableTxnMarkerResult(marker.producer_id)
        decided: dict[int, int] = {}
        for topic in marker.topics:
            of_topic = WritableTxnMarkerTopicResult(topic.name)
            marker_result.topics.append(of_topic)
            for index in topic.partition_indexes:
                result = next(results)
                of_topic.partitions.append(WritableTxnMarkerPartitionResult(index, result.error))
                if topic.name == GROUP_METADATA_TOPIC and result.error is ErrorCode.NONE:
                    decided[index] = result.info.first_offset
        if decided:
            self._offsets_decided(marker.producer_id, decided, marker.transaction_result)
        return marker_result


def _batch(marker: WritableTxnMarker, now_ms: int) -> bytes:
    kind = ControlRecordType.COMMIT if marker.transaction_result else ControlRecordType.ABORT
    key, value = encode_end_txn_marker(EndTxnMarker(kind, marker.coordinator_epoch))
    return build_batch(
        [(now_ms, key, value, ())],
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transactional=True,
        control=True,
    )


NOT_HOSTED = "This server does not host this topic-partition."


class DescribeProducersHandler:
    """Serves DescribeProducers (an ``ImmediateHandler``). Followers serve it, too: a tool that
    looks for hanging transactions requests all replicas of one broker."""

    def __init__(self, hosted: HostedPartitions, cluster: MetadataCache) -> None:
        self._hosted = hosted
        self._cluster = cluster

    def __call__(
        self, context: RequestContext, request: DescribeProducersRequest, reply: Reply
    ) -> None:
        reply(
            DescribeProducersResponse(
                topics=[
                    TopicResponse(
                        topic.name,
                        [
                            self._of_partition(TopicPartition(topic.name, index))
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in request.topics
                ]
            )
        )

    def _of_partition(self, topic_partition: TopicPartition) -> PartitionResponse:
        topic, index = topic_partition
        try:
            require_valid(topic)
            if not self._cluster.contains_topic(topic):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED)
            entries = self._hosted.require(topic_partition).log.producers.states.entries
        except KafkaError as error:
            return PartitionResponse(index, error.code, error.message)
        return PartitionResponse(
            index,
            active_producers=[
                ProducerState(
                    entry.producer_id,
                    entry.producer_epoch,
                    entry.last_sequence,
                    entry.last_timestamp,
                    entry.coordinator_epoch,
                    entry.current_txn_first_offset,
                )
                for entry in entries
            ],
        )


class DescribeTransactionsHandler:
    """Serves DescribeTransactions (an ``ImmediateHandler``)."""

    def __init__(self, transactions: TransactionCoordination) -> None:
        self._transactions = transactions

    def __call__(
        self, context: RequestContext, request: DescribeTransactionsRequest, reply: Reply
    ) -> None:
        states = [self._transactions.describe(name) for name in request.transactional_ids]
        reply(DescribeTransactionsResponse(transaction_states=states))


class ListTransactionsHandler:
    """Serves ListTransactions (an ``ImmediateHandler``)."""

    def __init__(self, transactions: TransactionCoordination) -> None:
        self._transactions = transactions

    def __call__(
        self, context: RequestContext, request: ListTransactionsRequest, reply: Reply
    ) -> None:
        reply(
            self._transactions.list_transactions(
                request.state_filters, request.producer_id_filters, request.duration_filter
            )
        )
