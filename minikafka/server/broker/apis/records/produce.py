"""Produce (key 0): check the records, append them, respond per partition."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import INTERNAL_TOPICS, ProducerIdAndEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.slices import Slices, in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from minikafka.protocol.records.batch import is_transactional, producer_of
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization, denied
from minikafka.server.broker.apis.guards import Admitted, ApiGuard, TopicRows, before, knowing
from minikafka.server.broker.apis.records.current_leader import (
    LeaderHint,
    leader_hint,
    node_endpoints,
)
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.apis.topic_ids import name_topics
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.quotas import Quota
from minikafka.server.broker.record_formats import refusal_of
from minikafka.server.broker.replication.append_order import AppendOrder, more_than_one_producer
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.record_appends import (
    ACKS_NONE,
    VALID_ACKS,
    AppendEntry,
    AppendReply,
    AppendResult,
    Entries,
)
from minikafka.server.broker.replication.transaction_verification import TransactionSupport

FIRST_VERSION_WITH_LEADER = 10
FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_WITH_TOPIC_IDS = 13
# A request of more topics or partitions is served in slices, and the connection waits for it.
SERVED_AT_ONCE: Final = 200
# Partitions of such a request that are appended to without a pause: a millisecond. The first append
# to a partition makes its files, and takes ten times as long.
APPENDED_AT_ONCE: Final = 50
ADMIN_CLIENT_ID = "__admin_client"  # Kafka lets it write to internal topics
_new_tuple: Final = tuple.__new__  # a third of the work of ``TopicPartition(...)``


class ProduceHandler:
    """Serves Produce (an ``ImmediateHandler``).

    Its requests may overlap (see ``Api``). With acks=0 no response is sent: after a failure
    the connection is closed (by a KafkaError as reply), since the producer would not notice it
    otherwise.

    A partition that is named twice is refused. Kafka appends the last of its batches, drops the
    others, and reports a success.

    A request of very many partitions is served as a row of smaller ones. From version 13 on topics
    have ids: those that are unknown have UNKNOWN_TOPIC_ID, the others are served by name
    (KIP-516)."""

    def __init__(
        self,
        appends: AppendOrder,
        hosted: HostedPartitions,
        cache: MetadataCache,
    ) -> None:
        self._appends = appends
        self._hosted = hosted
        self._cache = cache

    def __call__(
        self, context: RequestContext, request: ProduceRequest, reply: Reply
    ) -> Coroutine[Any, Any, None] | None:
        if context.header.api_version < FIRST_VERSION_WITH_TOPIC_IDS:
            return self._serve(context, request, reply)
        name_topics(request.topic_data, self._cache)
        unknown = [topic for topic in request.topic_data if not topic.name]
        request.topic_data = [topic for topic in request.topic_data if topic.name]
        ids = {topic.name: topic.topic_id for topic in request.topic_data}

        def respond(response: ProduceResponse | KafkaError | None) -> None:
            if isinstance(response, ProduceResponse):
                for topic in response.responses:
                    topic.topic_id = ids[topic.name]
                response.responses += [_unknown_topic(topic) for topic in unknown]
            elif response is None and unknown:
                response = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "acks=0 produce")
            reply(response)

        return self._serve(context, request, respond)

    def _serve(
        self, context: RequestContext, request: ProduceRequest, reply: Reply
    ) -> Coroutine[Any, Any, None] | None:
        """Serve a request whose topics are named."""
        version, acks = context.header.api_version, request.acks
        closed_topics = INTERNAL_TOPICS
        if context.header.client_id == ADMIN_CLIENT_ID or acks not in VALID_ACKS:
            closed_topics = frozenset()  # after invalid acks all partitions have that error
        entries: list[AppendEntry] = []
        refused: dict[int, AppendResult] = {}  # by place in the request
        place, transactional = 0, False
        for topic in request.topic_data:
            if place + len(topic.partition_data) > SERVED_AT_ONCE:
                request.copy_records()
                return self._serve_in_slices(context, request, reply)
            name = topic.name
            for data in topic.partition_data:
                topic_partition = _new_tuple(TopicPartition, (name, data.index))
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
                    entries.append(AppendEntry(topic_partition, data.records))
                    transactional = transactional or is_transactional(data.records)
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
                reply(self.response(context.listener, version, results))

        if not entries:
            respond(())
        elif transactional:
            self._append_in_transaction(context, request, entries, respond)
        else:
            timeout_ms = max(0, request.timeout_ms)  # a negative time-out has expired
            self._appends.append(context.connection, entries, acks, timeout_ms, respond)
        return None

    async def _serve_in_slices(
        self, context: RequestContext, request: ProduceRequest, reply: Reply
    ) -> None:
        """Serve the request as a row of smaller ones. Each is appended when the one before it is,
        and waits for its replicas by itself. What concerns the whole request is checked first."""
        refused = await _refused_rows(request)
        replies: list[asyncio.Future[Any]] = []
        some: list[tuple[str, PartitionProduceData]] = []

        async def append() -> None:
            await self._appends.wait_for_earlier(context.connection)
            replied: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            replies.append(replied)
            self._serve(context, _part(request, some), partial(_set_reply, replied))
            some.clear()
            await asyncio.sleep(0)

        async for place, row in in_slices(enumerate(partition_rows(request))):
            if place not in refused:
                some.append(row)
            if len(some) == APPENDED_AT_ONCE:
                await append()
        if some:
            await append()
        parts = [await replied for replied in replies]
        if request.acks != ACKS_NONE:
            reply(await self._joined(context, request, refused, parts))
            return
        failures = [failure for failure in parts if failure is not None]
        if failures:
            reply(failures[0])
        else:
            self._after_acks_0(list(refused.values()), reply)

    async def _joined(
        self,
        context: RequestContext,
        request: ProduceRequest,
        refused: Mapping[int, AppendResult],
        parts: Sequence[ProduceResponse],
    ) -> ProduceResponse:
        """Join the responses for parts of the request. They have all rows but the ``refused``."""
        accepted = (
            row for part in parts for topic in part.responses for row in topic.partition_responses
        )
        response = ProduceResponse()
        topic: TopicProduceResponse | None = None
        async for place, (name, _) in in_slices(enumerate(partition_rows(request))):
            if topic is None or topic.name != name:
                topic = TopicProduceResponse(name)
                response.responses.append(topic)
            result = refused.get(place)
            if result is None:
                topic.partition_responses.append(next(accepted))
            else:
                alone = self.response(context.listener, context.version, [result]).responses[0]
                topic.partition_responses.append(alone.partition_responses[0])
        endpoints = {node.node_id: node for part in parts for node in part.node_endpoints}
        response.node_endpoints = list(endpoints.values())
        return response

    def _append_in_transaction(
        self,
        context: RequestContext,
        request: ProduceRequest,
        entries: Entries,
        respond: AppendReply,
    ) -> None:
        """Append transactional batches. The request needs a transactional id, and must not have
        acks=0."""
        refusal = _refusal_of_transaction(request)
        if refusal is not None:
            respond([AppendResult(entry.topic_partition, refusal) for entry in entries])
            return
        try:
            self._appends.append_in_transaction(
                context.connection,
                request.transactional_id or "",
                entries,
                request.acks,
                max(0, request.timeout_ms),
                TransactionSupport.of(context.version, FIRST_VERSION_WITH_ABORTABLE),
                respond,
            )
        except KafkaError as error:
            respond(
                [
                    AppendResult(entry.topic_partition, error.code, error_message=error.message)
                    for entry in entries
                ]
            )

    @staticmethod
    def _after_acks_0(results: Sequence[AppendResult], reply: Reply) -> None:
        for result in results:
            if result.error:
                reply(KafkaError(result.error, f"acks=0 produce to {result.topic_partition}"))
                return
        reply(None)

    def response(
        self, listener: str, version: int, results: Sequence[AppendResult]
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
                    hint = leader_hint(self._cache, self._hosted, result.topic_partition, listener)
                    respond.current_leader = LeaderIdAndEpoch(hint.leader, hint.leader_epoch)
                    hints.append(hint)
            topic.partition_responses.append(respond)
        if hints:
            response.node_endpoints = node_endpoints(hints, NodeEndpoint)
        return response


def _refuse_repeated(
    entries: list[AppendEntry], places: int, refused: dict[int, AppendResult]
) -> list[AppendEntry]:
    """Return the entries without those of partitions that are named twice, which are added to
    ``refused``. The request has ``places`` entries with those that are refused already."""
    if len({entry.topic_partition for entry in entries}) == len(entries):
        return entries
    times = Counter(entry.topic_partition for entry in entries)
    kept = []
    accepted = [place for place in range(places) if place not in refused]
    for place, entry in zip(accepted, entries, strict=True):
        if times[entry.topic_partition] == 1:
            kept.append(entry)
        else:
            refused[place] = _repeated(entry.topic_partition)
    return kept


def _unknown_topic(topic: TopicProduceData) -> TopicProduceResponse:
    rows = [
        PartitionProduceResponse(data.index, ErrorCode.UNKNOWN_TOPIC_ID, -1)
        for data in topic.partition_data
    ]
    return TopicProduceResponse(topic_id=topic.topic_id, partition_responses=rows)


def _repeated(topic_partition: TopicPartition) -> AppendResult:
    return AppendResult(
        topic_partition,
        ErrorCode.INVALID_REQUEST,
        error_message="The request names the partition more than once.",
    )


def _refusal_of_transaction(request: ProduceRequest) -> ErrorCode | None:
    """Return the error of a request with transactional batches that must not have any."""
    if request.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.acks == ACKS_NONE:
        return ErrorCode.INVALID_REQUIRED_ACKS
    return None


def partition_rows(request: ProduceRequest) -> Iterator[tuple[str, PartitionProduceData]]:
    """Yield each partition with the name of its topic."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            yield topic.name, data


async def _refused_rows(request: ProduceRequest) -> dict[int, AppendResult]:
    """Return the results of the partitions that the request as a whole refuses, by their place:
    those that it names twice, or all if its batches must not be transactional or belong to several
    producers."""
    times: Counter[TopicPartition] = Counter()
    producers: set[ProducerIdAndEpoch] = set()
    async for name, data in in_slices(partition_rows(request)):
        times[TopicPartition(name, data.index)] += 1
        if data.records is not None and is_transactional(data.records):
            producers.add(producer_of(data.records)[0])
    refusal: KafkaError | None = None
    if producers:
        error = _refusal_of_transaction(request)
        if error is not None:
            refusal = KafkaError(error)
        elif len(producers) > 1:
            refusal = more_than_one_producer()
    refused: dict[int, AppendResult] = {}
    async for place, (name, data) in in_slices(enumerate(partition_rows(request))):
        topic_partition = TopicPartition(name, data.index)
        if refusal is not None:
            refused[place] = AppendResult(
                topic_partition, refusal.code, error_message=refusal.message
            )
        elif times[topic_partition] > 1:
            refused[place] = _repeated(topic_partition)
    return refused


def _part(
    request: ProduceRequest, rows: Sequence[tuple[str, PartitionProduceData]]
) -> ProduceRequest:
    """Return a request for some of the partitions."""
    topics: list[TopicProduceData] = []
    for name, data in rows:
        if not topics or topics[-1].name != name:
            topics.append(TopicProduceData(name))
        topics[-1].partition_data.append(data)
    return ProduceRequest(request.transactional_id, request.acks, request.timeout_ms, topics)


def _set_reply(replied: asyncio.Future[Any], response: ProduceResponse | KafkaError | None) -> None:
    if not replied.done():  # cancelled when the node stops
        replied.set_result(response)


_PRODUCE = TopicRows(
    ProduceResponse,
    lambda name, rows: TopicProduceResponse(name, partition_responses=rows),
    lambda data, error: PartitionProduceResponse(data.index, error, -1),
    requested="topic_data",
    partitions="partition_data",
    responded="responses",
    ids_since=FIRST_VERSION_WITH_TOPIC_IDS,
)
_write_topics = _PRODUCE.gate(AclOperation.WRITE)


def _guard(broker: Services) -> ApiGuard:
    """Return the guard of Produce, which needs the names of topics that have ids."""

    async def admit(
        authorization: Authorization, context: RequestContext, request: ProduceRequest
    ) -> Admitted:
        if context.version >= FIRST_VERSION_WITH_TOPIC_IDS:
            name_topics(request.topic_data, broker.cache)
        return await _admit_produce(authorization, context, request)

    return before(admit, on_pause=ProduceRequest.copy_records)


async def _admit_produce(
    authorization: Authorization, context: RequestContext, request: ProduceRequest
) -> Admitted:
    """Transactional batches need WRITE on the transactional id, and all need WRITE on their topics.
    With acks=0 an error closes the connection, after what is allowed has been appended."""
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if await _has_transactional_batch(request) and not _may_use_id(authorization, context, request):
        if request.acks == ACKS_NONE:
            return Admitted(None, response=denied(error))
        return Admitted(None, response=await _PRODUCE.refuse_all(request, error))
    admitted = await _write_topics(authorization, context, request)
    if request.acks != ACKS_NONE or (admitted.join is None and admitted.request is not None):
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


PRODUCE = Api(
    key=ApiKey.PRODUCE,
    handler=lambda broker: ProduceHandler(broker.appends, broker.replicas.hosted, broker.cache),
    task=False,
    authorization=knowing(_guard),
    quota=Quota.PRODUCE,
    changes_state=True,
    overlapping=True,
)
