"""Fetch sessions of one broker: what each version of Fetch carries, and a context per request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from minikafka.core.replication.fetch_session import (
    FINAL_EPOCH,
    MAX_EPOCH,
    NO_SESSION,
    PARTITION_BYTES,
    CachedPartition,
    FetchSession,
    FetchSessionCache,
    PartitionKey,
    is_full,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock, Entropy
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.fetch import FetchRequest, ForgottenTopic
from minikafka.server.broker.fetch.follower_sessions import FollowerFetch, FollowerSession, Sent
from minikafka.server.broker.fetch.reader import FetchEntry, ReadResult
from minikafka.server.broker.record_formats import FETCH_FORMATS, FetchFormat
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.listeners.memory_budget import MemoryBudget
from minikafka.server.storage.directories.log_starts import LogStarts


class FetchVersion(NamedTuple):
    """The features of one version of Fetch, and the size of a partition in its messages.

    ``partition_bytes`` is the encoded size of one partition in a request, ``response_bytes`` in a
    response without records. Tagged fields are not counted, since they are rarely present."""

    records: FetchFormat
    by_id: bool  # topics are identified by topic id (KIP-516)
    replica_state: bool  # the follower's broker id is in a tagged field (KIP-903)
    follower_reads: bool  # followers serve consumers, leaders name a preferred replica (KIP-392)
    storage_error: bool  # clients know KAFKA_STORAGE_ERROR
    names_leader: bool  # NOT_LEADER_OR_FOLLOWER comes with the current leader (KIP-951)
    partition_bytes: int
    response_bytes: int


def _bytes(*rows: tuple[int, int]) -> list[int]:
    """Return the size for each version. A row is (first version, bytes from that version on)."""
    return [max(row for row in rows if row[0] <= version)[1] for version in _VERSIONS]


_VERSIONS: Final = range(ApiKey.FETCH.max_version + 1)
_PARTITION_BYTES: Final = _bytes((0, 16), (5, 24), (9, 28), (12, 33))
_RESPONSE_BYTES: Final = _bytes((0, 18), (4, 30), (5, 38), (11, 42), (12, 37))

FETCH_VERSIONS: Final = tuple(
    FetchVersion(
        records=FETCH_FORMATS[version],
        by_id=version >= 13,
        replica_state=version >= 15,
        follower_reads=version >= 11,
        storage_error=version >= 6,
        names_leader=version >= 16,
        partition_bytes=_PARTITION_BYTES[version],
        response_bytes=_RESPONSE_BYTES[version],
    )
    for version in _VERSIONS
)


DEFAULT_SLOTS = 1_000


class SessionResponse(NamedTuple):
    """The partitions that a Fetch response contains, and the id of its session."""

    session_id: int
    entries: Sequence[FetchEntry]
    results: Sequence[ReadResult]
    error: ErrorCode = ErrorCode.NONE


class FetchContext:
    """One Fetch request within its session (Kafka's ``FetchContext``): this one has none.

    ``entries`` are the partitions to read. ``respond`` takes their results, in the same order, and
    selects those that the response contains. ``follower`` is the fetch of a follower; it has the
    same ``entries``, which may grow."""

    __slots__ = ("entries", "follower")

    def __init__(
        self, entries: Sequence[FetchEntry], follower: FollowerFetch | None = None
    ) -> None:
        self.entries = entries
        self.follower = follower

    def respond(self, results: Sequence[ReadResult]) -> SessionResponse:
        return SessionResponse(NO_SESSION, self.entries, results)


class _FullContext(FetchContext):
    """A full request, which opens a session."""

    __slots__ = ("_by_id", "_replica_id", "_sessions")

    def __init__(
        self, sessions: FetchSessions, entries: Sequence[FetchEntry], by_id: bool, replica_id: int
    ) -> None:
        super().__init__(entries)
        self._sessions = sessions
        self._by_id = by_id
        self._replica_id = replica_id

    def respond(self, results: Sequence[ReadResult]) -> SessionResponse:
        return self._sessions.open(self.entries, results, self._by_id, self._replica_id)


class _IncrementalContext(FetchContext):
    """An incremental request: of all partitions of its session, or of those that a follower's
    fetch has ``sent``. If the session has got its next request before the response, that one is
    refused."""

    __slots__ = ("_epoch", "_sent", "_session", "_sessions", "_size", "_version")

    def __init__(
        self,
        sessions: FetchSessions,
        session: FetchSession[FetchEntry],
        sent: Sequence[Sent],
        entries: Sequence[FetchEntry],
        version: FetchVersion,
        follower: FollowerFetch | None,
    ) -> None:
        super().__init__(entries, follower)
        self._sessions = sessions
        self._session = session
        self._sent = sent
        self._epoch = session.epoch
        self._size = len(session)
        self._version = version

    def respond(self, results: Sequence[ReadResult]) -> SessionResponse:
        session = self._session
        if session.epoch != self._epoch:
            return SessionResponse(session.id, (), (), ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if self.follower is None:
            places = session.select_changed(self._sent, results)
        else:
            places = self.follower.session.respond(self._sent, results)
        saved = self._size - len(places)
        self._sessions.response_saved.mark(saved * self._version.response_bytes)
        entries = self.entries
        if len(places) < len(results):
            entries = [entries[place] for place in places]
            results = [results[place] for place in places]
        return SessionResponse(session.id if self._size else NO_SESSION, entries, results)


class FetchSessions:
    """The fetch sessions of one broker (Kafka's ``FetchManager``). Their partitions are counted in
    ``memory``; while it is used up, consumers are served without new sessions.

    The names of topic ids are looked up again for partitions whose id was unknown when they were
    added to the session."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        metrics: Metrics,
        hosted: HostedPartitions,
        log_starts: LogStarts,
        slots: int = DEFAULT_SLOTS,
        memory: MemoryBudget | None = None,
    ) -> None:
        self._clock = clock
        self._memory = memory or MemoryBudget()
        self._entropy = entropy
        self._hosted = hosted
        self._log_starts = log_starts
        cache: FetchSessionCache[FetchEntry] = FetchSessionCache(slots)
        self.cache = cache
        self._request_saved = metrics.counter(
            "minikafka.server:type=FetchSessionCache,name=RequestBytesSavedPerSec"
        )
        self.response_saved = metrics.counter(
            "minikafka.server:type=FetchSessionCache,name=ResponseBytesSavedPerSec"
        )
        for name, read in (
            ("NumIncrementalFetchSessions", lambda: len(cache)),
            ("NumIncrementalFetchPartitionsCached", lambda: cache.partitions),
            ("IncrementalFetchSessionEvictionsPerSec", lambda: cache.evictions),
        ):
            metrics.gauge(f"kafka.server:type=FetchSessionCache,name={name}", read)

    def context(
        self,
        request: FetchRequest,
        named: Sequence[FetchEntry],
        version: FetchVersion,
        replica_id: int,
    ) -> FetchContext:
        """Return the context of ``request``, which names the partitions ``named``. ``replica_id``
        is -1 for consumers.

        Raises KafkaError as ``FetchSessionCache.resume``."""
        epoch = request.session_epoch
        if not is_full(epoch):
            forgotten = forgotten_keys(request.forgotten_topics_data, version.by_id)
            return self.resume(request.session_id, epoch, named, forgotten, version, replica_id)
        if request.session_id != NO_SESSION:
            self.cache.close(request.session_id)
            self._count()
        if epoch == FINAL_EPOCH:
            return FetchContext(named)
        return _FullContext(self, named, version.by_id, replica_id)

    def open(
        self,
        named: Sequence[FetchEntry],
        results: Sequence[ReadResult],
        by_id: bool,
        replica_id: int,
    ) -> SessionResponse:
        """Create a session, if the cache has room, and return the response to a full request."""
        now_ms = self._clock.monotonic_ms()
        # Of a partition that is named twice, the last entry counts.
        keyed = {key_of(entry): place for place, entry in enumerate(named)}
        self._limit()
        if not self.cache.make_room(replica_id >= 0, len(keyed), now_ms):
            return SessionResponse(NO_SESSION, named, results)
        session = self._new_session(replica_id, by_id, now_ms)
        session.fill(
            [(key, named[place]) for key, place in keyed.items()],
            [results[place] for place in keyed.values()],
        )
        self.cache.add(session, now_ms)
        self._count()
        return SessionResponse(session.id, named, results)

    def _new_session(self, replica_id: int, by_id: bool, now_ms: int) -> FetchSession[FetchEntry]:
        session_id = self._new_id()
        if replica_id < 0:
            return FetchSession(session_id, False, by_id, now_ms)
        return FollowerSession(
            session_id, replica_id, by_id, now_ms, self._hosted, self._log_starts
        )

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._entropy.randrange(MAX_EPOCH)
            if session_id not in self.cache:
                return session_id

    def resume(
        self,
        session_id: int,
        epoch: int,
        named: Sequence[FetchEntry],
        forgotten: Iterable[PartitionKey],
        version: FetchVersion,
        replica_id: int,
    ) -> FetchContext:
        """Return the context of a request that continues a session: the session's partitions, with
        those that the request names, and without the forgotten ones. Raises KafkaError."""
        if named:
            self._limit()
        requests = self._requests_by_key(session_id, named)
        try:
            session = self.cache.resume(
                session_id,
                epoch,
                version.by_id,
                requests,
                forgotten,
                self._clock.monotonic_ms(),
            )
        finally:
            self._count()
        self._request_saved.mark((len(session) - len(named)) * version.partition_bytes)
        if isinstance(session, FollowerSession):
            if session.replica_id == replica_id and not version.records.is_converted:
                follower = session.begin(self._entries)
                sent, entries = follower.sent, follower.entries
                return _IncrementalContext(self, session, sent, entries, version, follower)
            session.unsettle_all()
        sent = list(session.partitions.items())
        return _IncrementalContext(self, session, sent, self._entries(sent), version, None)

    def _requests_by_key(
        self, session_id: int, named: Sequence[FetchEntry]
    ) -> dict[PartitionKey, FetchEntry]:
        """Return the requests by key. If the metadata cache lacks a topic id, take the topic name
        from the session (Kafka's ``CachedPartition``): the topic may be deleted, and another topic
        may have its name."""
        requests = {key_of(entry): entry for entry in named}
        session = self.cache.get(session_id) if named else None
        if session is not None:
            for key, entry in requests.items():
                if not entry.topic_partition.topic and key in session.partitions:
                    cached = session.partitions[key].request.topic_partition
                    requests[key] = entry.changed(cached, entry.max_bytes)
        return requests

    def _limit(self) -> None:
        """Let consumers' sessions grow by what the memory has left."""
        self.cache.consumers_max_partitions = self._memory.session_room // PARTITION_BYTES

    def _count(self) -> None:
        self._memory.set_sessions(self.cache.partitions * PARTITION_BYTES)

    def _entries(
        self, partitions: Iterable[tuple[PartitionKey, CachedPartition[FetchEntry]]]
    ) -> list[FetchEntry]:
        """Return the requests for partitions of a session, with the names of their topics."""
        entries = []
        for _, cached in partitions:
            entry = cached.request
            if not entry.topic_partition.topic and entry.topic_id is not None:
                name = self._hosted.topic_name(entry.topic_id) or ""
                topic_partition = TopicPartition(name, entry.topic_partition.partition)
                entry = cached.request = entry.changed(topic_partition, entry.max_bytes)
            entries.append(entry)
        return entries


def key_of(entry: FetchEntry) -> PartitionKey:
    topic, partition = entry.topic_partition
    return topic if entry.topic_id is None else entry.topic_id.int, partition


def forgotten_keys(topics: Iterable[ForgottenTopic], by_id: bool) -> list[PartitionKey]:
    return [
        (topic.topic_id.int if by_id else topic.topic, partition)
        for topic in topics
        for partition in topic.partitions
    ]
