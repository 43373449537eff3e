"""Fetch (key 1): read the partitions of the fetch session, or wait for ``fetch.min.bytes``.

The handler asks the authorizer itself, since the topics are those of the fetch session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from minikafka.core.replication.fetch_session import NO_SESSION, is_full
from minikafka.kernel.cluster import CONSUMER_REPLICA_ID, ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from minikafka.server.broker.apis.api import Api, Senders
from minikafka.server.broker.apis.eager_start import begun
from minikafka.server.broker.apis.guards import BY_HANDLER
from minikafka.server.broker.apis.records.current_leader import (
    LeaderHint,
    leader_hint,
    node_endpoints,
)
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.fetch.reader import FetchEntry, FetchParams, Isolation, ReadResult
from minikafka.server.broker.fetch.record_fetches import FetchOperation, RecordFetches
from minikafka.server.broker.fetch.sessions import (
    FETCH_VERSIONS,
    FetchContext,
    FetchSessions,
    FetchVersion,
    SessionResponse,
    key_of,
)
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.quotas import Quota
from minikafka.server.broker.record_formats import FormatConversion, in_format, limited, num_records
from minikafka.server.broker.replication.replica_manager import ReplicaManager

READ_COMMITTED = 1
FIXED_BYTES = 20  # of a response without partitions, about
_new_tuple: Final = tuple.__new__  # a third of the work of ``TopicPartition(...)``
_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_ERRORS_BEFORE_READING = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)


@dataclass(frozen=True)
class FetchConfig:
    """Kafka's ``fetch.max.bytes``: the broker's own limit for one response."""

    fetch_max_bytes: int = 55 * 1024 * 1024


class FetchAuthorization(Protocol):
    """What a Fetch request may read."""

    def may_follow(self, context: RequestContext) -> bool:
        """Return whether the client may fetch as a replica."""
        ...

    async def readable(self, context: RequestContext, topics: Iterable[str]) -> Collection[str]:
        """Return the topics that the client may read."""
        ...


class _Response:
    """The response of one Fetch that is being served. It keeps nothing of the request."""

    __slots__ = (
        "_entries",
        "_handler",
        "_listener",
        "_params",
        "_reply",
        "_session",
        "_session_id",
        "_throttle",
        "_version",
    )

    def __init__(
        self,
        handler: FetchHandler,
        context: RequestContext,
        request: FetchRequest,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        session: FetchContext,
        reply: Reply,
    ) -> None:
        self._handler = handler
        self._listener = context.listener
        self._version = FETCH_VERSIONS[context.header.api_version]
        self._throttle = None if params.is_from_follower else context.throttle
        self._session_id = NO_SESSION if is_full(request.session_epoch) else request.session_id
        self._params = params
        self._entries = entries
        self._session = session
        self._reply = reply

    def send(self, results: Sequence[ReadResult]) -> None:
        """Send the results of all entries: in the record format of the request's version, perhaps
        later, and none if the client's quota is exceeded."""
        version, throttle = self._version, self._throttle
        if throttle is not None and throttle.fetched(_size(results, version)):
            # No records, and the session stays as it is (Kafka's getThrottledResponse).
            self._reply(FetchResponse(session_id=self._session_id))
        elif version.records.is_any:
            self._send(results)
        else:
            self._handler.convert(results, self._entries, self._params, version, self._send)

    def _send(self, results: Sequence[ReadResult]) -> None:
        selected = self._session.respond(results)
        isolation = self._params.isolation
        self._reply(self._handler.response(self._listener, self._version, isolation, selected))


class FetchHandler:
    """Serves Fetch (an ``ImmediateHandler``).

    It reads the partitions of the request and of its fetch session (KIP-227). With an
    ``authorization`` the topics of the whole session are decided about in each request, as in
    Kafka, since an ACL may have changed."""

    def __init__(
        self,
        replicas: ReplicaManager,
        fetches: RecordFetches,
        cluster: MetadataCache,
        sessions: FetchSessions,
        conversion: FormatConversion,
        config: FetchConfig,
        authorization: FetchAuthorization | None = None,
    ) -> None:
        self._authorization = authorization
        self._replicas = replicas
        self._fetches = fetches
        self._cluster = cluster
        self._sessions = sessions
        self._conversion = conversion
        self._config = config

    def __call__(
        self, context: RequestContext, request: FetchRequest, reply: Reply
    ) -> Coroutine[Any, Any, None] | None:
        version = FETCH_VERSIONS[context.header.api_version]
        params = self.params(context, request, version)
        if context.throttle is not None and params.is_from_follower:
            context.throttle.exempt = True
        named = self.entries(request, version)
        session = self._sessions.context(request, named, version, params.replica_id)
        entries = session.entries
        if version.records.is_converted and entries:
            params, entries = limited(params, entries, version.records)
        response = _Response(self, context, request, params, entries, session, reply)
        fetch = FetchOperation(params, entries, response.send, context.contain, session.follower)
        if not entries and fetch.cannot_grow:
            fetch.respond(())
        elif self._authorization is None:
            self._fetches.fetch(fetch)
        else:
            return begun(self._fetch_allowed(self._authorization, context, fetch), reply)
        return None

    async def _fetch_allowed(
        self, authorization: FetchAuthorization, context: RequestContext, fetch: FetchOperation
    ) -> None:
        """Fetch from the partitions that the client may read, and refuse the others. As in Kafka, a
        topic id that is unknown is not decided about."""
        if fetch.params.is_from_follower:
            if not authorization.may_follow(context):
                if fetch.follower is not None:
                    fetch.follower.take_in_all()
                fetch.respond([_refusal(entry) for entry in fetch.entries])
                return
        else:
            entries = fetch.entries
            topics = [e.topic_partition.topic for e in entries if e.topic_partition.topic]
            refused = set(topics).difference(await authorization.readable(context, topics))
            if refused:
                fetch.set_aside(
                    [_refusal(e) if e.topic_partition.topic in refused else None for e in entries]
                )
                if not fetch.entries:
                    fetch.respond(())
                    return
        self._fetches.fetch(fetch)

    def entries(self, request: FetchRequest, version: FetchVersion) -> list[FetchEntry]:
        """Return the entries of the request without those of its session. A topic whose id is
        unknown has an empty name. As in Kafka, the last entry counts for a partition that is named
        twice."""
        entries = []
        for topic in request.topics:
            name, topic_id = topic.topic, None
            if version.by_id:
                topic_id = topic.topic_id
                name = self._replicas.hosted.topic_name(topic_id) or ""
            for partition in topic.partitions:
                entries.append(
                    FetchEntry(
                        _new_tuple(TopicPartition, (name, partition.partition)),
                        topic_id,
                        partition.fetch_offset,
                        max(0, partition.partition_max_bytes),
                        partition.current_leader_epoch,
                        partition.last_fetched_epoch,
                        partition.log_start_offset,
                    )
                )
        if len(entries) > 1:
            keyed = {key_of(entry): entry for entry in entries}
            if len(keyed) < len(entries):
                return list(keyed.values())
        return entries

    def params(
        self, context: RequestContext, request: FetchRequest, version: FetchVersion
    ) -> FetchParams:
        replica_id = request.replica_id
        if version.replica_state:
            state = request.replica_state
            replica_id = state.replica_id if state is not None else CONSUMER_REPLICA_ID
        if replica_id >= 0:
            isolation = Isolation.LOG_END  # a follower copies everything
        elif request.isolation_level == READ_COMMITTED:
            isolation = Isolation.TXN_COMMITTED
        else:
            isolation = Isolation.HIGH_WATERMARK
        max_bytes = max(0, min(request.max_bytes, self._config.fetch_max_bytes))
        if context.throttle is not None and replica_id < 0:
            max_bytes = int(min(max_bytes, max(0, context.throttle.most_fetched)))
        return FetchParams(
            replica_id,
            request.max_wait_ms,
            min(request.min_bytes, max_bytes),
            max_bytes,
            isolation,
            replica_id >= 0 or not version.follower_reads,
            False,
            request.rack_id,
            context.listener,
        )

    def convert(
        self,
        results: Sequence[ReadResult],
        entries: Sequence[FetchEntry],
        params: FetchParams,
        version: FetchVersion,
        send: Callable[[Sequence[ReadResult]], None],
    ) -> None:
        """Call ``send`` with the results in the record format of ``version``, perhaps later."""
        record_format = version.records
        topics, follower = self._replicas.topic_configs, params.is_from_follower
        configs = [topics.get(entry.topic_partition.topic).log for entry in entries]

        def convert(result: ReadResult, index: int) -> ReadResult:
            if result.error:
                return result
            return in_format(result, entries[index], record_format, configs[index], follower)

        if record_format.is_converted:
            for result in results:
                topic = result.topic_partition.topic
                self._replicas.topic_metrics.fetch_converted(topic, num_records(result.records))
            self._conversion.convert(results, convert, send)
        else:
            send([convert(result, index) for index, result in enumerate(results)])

    def response(
        self,
        listener: str,
        version: FetchVersion,
        isolation: Isolation,
        selected: SessionResponse,
    ) -> FetchResponse:
        """Return the response. Partitions keep the order of the request or session; consecutive
        partitions of one topic share an entry."""
        response = FetchResponse(error_code=selected.error, session_id=selected.session_id)
        hints: list[LeaderHint] = []
        topic: FetchableTopicResponse | None = None
        last_name, last_id = "", None
        committed = isolation is Isolation.TXN_COMMITTED
        aborted: list[AbortedTransaction] | None = None
        for entry, result in zip(selected.entries, selected.results, strict=True):
            name, index = entry.topic_partition
            topic_id = entry.topic_id
            if topic is None or name != last_name or topic_id != last_id:
                topic = FetchableTopicResponse(name, topic_id or ZERO_UUID)
                last_name, last_id = name, topic_id
                response.responses.append(topic)
            error = result.error
            if committed:
                aborted = [
                    AbortedTransaction(t.producer_id, t.first_offset) for t in result.aborted
                ]
            else:  # null for read_uncommitted, but empty, as in Kafka, if no log was looked at
                aborted = [] if error and error in _ERRORS_BEFORE_READING else None
            data = PartitionData(
                partition_index=index,
                error_code=error,
                high_watermark=result.high_watermark,
                last_stable_offset=result.last_stable_offset,
                log_start_offset=result.log_start_offset,
                aborted_transactions=aborted,
                preferred_read_replica=result.preferred_read_replica,
                records=result.records,
            )
            if result.diverging is not None:
                data.diverging_epoch = EpochEndOffset(*result.diverging)
            if error in _LEADER_ERRORS and version.names_leader:
                hosted, where = self._replicas.hosted, result.topic_partition
                hint = leader_hint(self._cluster, hosted, where, listener)
                data.current_leader = LeaderIdAndEpoch(hint.leader, hint.leader_epoch)
                hints.append(hint)
            if error is ErrorCode.KAFKA_STORAGE_ERROR and not version.storage_error:
                # Clients of these versions do not know the error. After this one they look for
                # another leader.
                data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            topic.partitions.append(data)
        if hints:
            response.node_endpoints = node_endpoints(hints, NodeEndpoint)
        return response


def _refusal(entry: FetchEntry) -> ReadResult:
    return ReadResult(entry.topic_partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _size(results: Sequence[ReadResult], version: FetchVersion) -> int:
    """Return about how many bytes a response with these results has. Of partitions without records
    it may contain fewer: a session leaves out those without changes."""
    filled = [result.size for result in results if result.size]
    return FIXED_BYTES + len(filled) * version.response_bytes + sum(filled)


FETCH = Api(
    key=ApiKey.FETCH,
    handler=lambda broker: FetchHandler(
        broker.replicas,
        broker.fetches,
        broker.cache,
        broker.fetch_sessions,
        broker.conversion,
        FetchConfig(broker.config.integer("fetch.max.bytes")),
        broker.authorization,
    ),
    task=False,
    authorization=BY_HANDLER,
    quota=Quota.FETCH,
    changes_state=True,
    senders=Senders.CLIENTS_AND_BROKERS,
    in_parts=True,
    parks_reads=True,
)
