"""Produce (key 0): check the records, append them, respond per partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from minikafka.broker.metadata.cache import MetadataCache
from minikafka.broker.record_formats import refusal_of
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.broker.replication.record_appends import (
    ACKS_NONE,
    VALID_ACKS,
    AppendReply,
    AppendResult,
    Entries,
)
from minikafka.broker.replication.record_preparation import (
    LongAppend,
    RecordPreparation,
    entries_of,
    needs_preparation,
)
from minikafka.broker.replication.transactional_appends import (
    TransactionalAppends,
    is_transactional,
)
from minikafka.broker.requests.apis import Reply, RequestContext
from minikafka.broker.requests.current_leader import LeaderHint, leader_hint, node_endpoints
from minikafka.kernel.cluster import INTERNAL_TOPICS, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Buffer
from minikafka.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

FIRST_VERSION_WITH_LEADER = 10
FIRST_VERSION_WITH_ABORTABLE = 11
ADMIN_CLIENT_ID = "__admin_client"  # Kafka lets it write to internal topics


class ProduceHandler:
    """Serves Produce (an ``ImmediateHandler``).

    Its requests may overlap (see ``Route``). With acks=0 no response is sent: after a failure
    the connection is closed (by a KafkaError as reply), since the producer would not notice it
    otherwise.

    A partition that is named twice is refused. Kafka appends the last of its batches, drops the
    others, and reports a success."""

    def __init__(
        self,
        appends: TransactionalAppends,
        preparation: RecordPreparation,
        hosted: HostedPartitions,
        cache: MetadataCache,
    ) -> None:
        self._appends = appends
        self._preparation = preparation
        self._hosted = hosted
        self._cache = cache

    def __call__(self, context: RequestContext, request: ProduceRequest, reply: Reply) -> None:
        version, acks = context.header.api_version, request.acks
        closed_topics = INTERNAL_TOPICS
        if context.header.client_id == ADMIN_CLIENT_ID or acks not in VALID_ACKS:
            closed_topics = frozenset()  # after invalid acks all partitions have that error
        entries: list[tuple[TopicPartition, Buffer]] = []
        refused: dict[int, AppendResult] = {}  # by place in the request
        place, transactional, compressed = 0, False, False
        for topic in request.topic_data:
            name = topic.name
            for data in topic.partition_data:
                topic_partition = TopicPartition(name, data.index)
                error = refusal_of(data.records, version)
                if error is not None:
                    refused[place] = AppendResult(
                        topic_partition, error.code, error_message=error.message
                    )
                elif name in closed_topics:
                    refused[place] = AppendResult(
                        topic_partition, ErrorCode.INVALID_TOPIC_EXCEPTION
                    )
                elif data.records is not None:
                    entries.append((topic_partition, data.records))
                    transactional = transactional or is_transactional(data.records)
                    compressed = compressed or needs_preparation(data.records)
                place += 1
        if place > 1:
            entries = _refuse_repeated(entries, place, refused)

        # A parked request must not refer to its records, which lie in the connection's buffer.
        def respond(results: Sequence[AppendResult]) -> None:
            if refused:
                rest = iter(results)
                results = [refused.get(i) or next(rest) for i in range(place)]
            if acks == ACKS_NONE:
                self._after_acks_0(results, reply)
            else:
                reply(self._response(context, version, results))

        ready = self._preparation.prepare(entries) if compressed and entries else entries
        if not entries:
            respond(())
        elif transactional:
            self._append_in_transaction(context, request, ready, respond)
        else:
            timeout_ms = max(0, request.timeout_ms)  # a negative time-out has expired
            self._appends.append_plain(context.connection, ready, acks, timeout_ms, respond)

    def _append_in_transaction(
        self,
        context: RequestContext,
        request: ProduceRequest,
        entries: Entries | LongAppend,
        respond: AppendReply,
    ) -> None:
        """Append transactional batches. The request needs a transactional id, and must not have
        acks=0."""
        refusal: ErrorCode | None = None
        if request.transactional_id is None:
            refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        elif request.acks == ACKS_NONE:
            refusal = ErrorCode.INVALID_REQUIRED_ACKS
        partitions = entries_of(entries)
        if refusal is not None:
            respond([AppendResult(topic_partition, refusal) for topic_partition, _ in partitions])
            return
        try:
            self._appends.append(
                context.connection,
                request.transactional_id or "",
                entries,
                request.acks,
                max(0, request.timeout_ms),
                context.version >= FIRST_VERSION_WITH_ABORTABLE,
                respond,
            )
        except KafkaError as error:
            respond(
                [
                    AppendResult(topic_partition, error.code, error_message=error.message)
                    for topic_partition, _ in partitions
                ]
            )

    @staticmethod
    def _after_acks_0(results: Sequence[AppendResult], reply: Reply) -> None:
        for result in results:
            if result.error:
                reply(KafkaError(result.error, f"acks=0 produce to {result.topic_partition}"))
                return
        reply(None)

    def _response(
        self, context: RequestContext, version: int, results: Sequence[AppendResult]
    ) -> ProduceResponse:
        """Return the response in the order of the request. Consecutive partitions of one topic
        share an entry."""
        response = ProduceResponse()
        hints: list[LeaderHint] = []
        topic: TopicProduceResponse | None = None
        for result in results:
            name, index = result.topic_partition
            if topic is None or topic.name != name:
                topic = TopicProduceResponse(name)
                response.responses.append(topic)
            info = result.info
            respond = PartitionProduceResponse(
                index, result.error, info.first_offset, info.log_append_time, info.log_start_offset
            )
            if result.error:
                respond.error_message = result.error_message
                respond.record_errors = [
                    BatchIndexAndErrorMessage(*error) for error in result.record_errors
                ]
                if (
                    result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
                    and version >= FIRST_VERSION_WITH_LEADER
                ):
                    hint = leader_hint(
                        self._cache, self._hosted, result.topic_partition, context.listener
                    )
                    respond.current_leader = LeaderIdAndEpoch(hint.leader, hint.leader_epoch)
                    hints.append(hint)
            topic.partition_responses.append(respond)
        if hints:
            response.node_endpoints = node_endpoints(hints, NodeEndpoint)
        return response


def _refuse_repeated(
    entries: list[tuple[TopicPartition, Buffer]], places: int, refused: dict[int, AppendResult]
) -> list[tuple[TopicPartition, Buffer]]:
    """Return the entries without those of partitions that are named twice, which are added to
    ``refused``. The request has ``places`` entries with those that are refused already."""
    if len({topic_partition for topic_partition, _ in entries}) == len(entries):
        return entries
    times = Counter(topic_partition for topic_partition, _ in entries)
    kept = []
    accepted = [place for place in range(places) if place not in refused]
    for place, entry in zip(accepted, entries, strict=True):
        if times[entry[0]] == 1:
            kept.append(entry)
        else:
            refused[place] = AppendResult(
                entry[0],
                ErrorCode.INVALID_REQUEST,
                error_message="The request names the partition more than once.",
            )
    return kept
