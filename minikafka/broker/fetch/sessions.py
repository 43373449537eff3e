"""Fetch sessions of one broker: what each version of Fetch carries, and a context per request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from minikafka.broker.fetch.reader import FetchEntry, ReadResult
from minikafka.broker.record_formats import FETCH_FORMATS, FetchFormat
from minikafka.core.replication.fetch_session import (
    FINAL_EPOCH,
    MAX_EPOCH,
    NO_SESSION,
    PARTITION_BYTES,
    FetchSession,
    FetchSessionCache,
    PartitionKey,
    is_full,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock, Entropy
from minikafka.network.memory_budget import MemoryBudget
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.fetch import FetchRequest, ForgottenTopic


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


class FetchContext(NamedTuple):
    """One Fetch request within its session (Kafka's ``FetchContext``).

    ``entries`` are the partitions to read. ``respond`` takes their results, in the same order, and
    selects those that the response contains."""

    entries: Sequence[FetchEntry]
    respond: Callable[[Sequence[ReadResult]], SessionResponse]


ResolveName: TypeAlias = Callable[..., str | None]


class FetchSessions:
    """The fetch sessions of one broker (Kafka's ``FetchManager``). Their partitions are counted in
    ``memory``; while it is used up, consumers are served without new sessions.

    ``topic_name`` returns the name of a topic id, or None. It is called again for partitions whose
    topic id was unknown when they were added to the session."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        metrics: Metrics,
        topic_name: ResolveName,
        slots: int = DEFAULT_SLOTS,
        memory: MemoryBudget | None = None,
    ) -> None:
        self._clock = clock
        self._memory = memory or MemoryBudget()
        self._entropy = entropy
        self._topic_name = topic_name
        cache: FetchSessionCache[FetchEntry] = FetchSessionCache(slots)
        self.cache = cache
        self._request_saved = metrics.counter(
            "minikafka.server:type=FetchSessionCache,name=RequestBytesSavedPerSec"
        )
        self._response_saved = metrics.counter(
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
        privileged: bool,
    ) -> FetchContext:
        """Return the context of ``request``, which names the partitions ``named``.

        ``privileged`` is true for followers. Raises KafkaError as ``FetchSessionCache.resume``."""
        epoch = request.session_epoch
        if not is_full(epoch):
            return self._incremental(request, named, version)
        if request.session_id != NO_SESSION:
            self.cache.close(request.session_id)
            self._count()
        if epoch == FINAL_EPOCH:
            return FetchContext(named, lambda results: SessionResponse(NO_SESSION, named, results))
        return FetchContext(
            named, lambda results: self._open(named, results, version.by_id, privileged)
        )

    def _open(
        self,
        named: Sequence[FetchEntry],
        results: Sequence[ReadResult],
        by_id: bool,
        privileged: bool,
    ) -> SessionResponse:
        """Create a session, if the cache has room, and return the response to a full request."""
        now_ms = self._clock.monotonic_ms()
        # Of a partition that is named twice, the last entry counts.
        keyed = {key_of(entry): place for place, entry in enumerate(named)}
        self._limit()
        if not self.cache.make_room(privileged, len(keyed), now_ms):
            return SessionResponse(NO_SESSION, named, results)
        session: FetchSession[FetchEntry] = FetchSession(self._new_id(), privileged, by_id, now_ms)
        session.fill(
            [(key, named[place]) for key, place in keyed.items()],
            [results[place] for place in keyed.values()],
        )
        self.cache.add(session, now_ms)
        self._count()
        return SessionResponse(session.id, named, results)

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._entropy.randrange(MAX_EPOCH)
            if session_id not in self.cache:
                return session_id

    def _incremental(
        self, request: FetchRequest, named: Sequence[FetchEntry], version: FetchVersion
    ) -> FetchContext:
        if named:
            self._limit()
        try:
            session = self.cache.resume(
                request.session_id,
                request.session_epoch,
                version.by_id,
                {key_of(entry): entry for entry in named},
                forgotten_keys(request.forgotten_topics_data, version.by_id),
                self._clock.monotonic_ms(),
            )
        finally:
            self._count()
        epoch = session.epoch
        partitions = list(session.partitions.items())
        entries = self._entries(session)
        self._request_saved.mark((len(partitions) - len(named)) * version.partition_bytes)

        def respond(results: Sequence[ReadResult]) -> SessionResponse:
            if session.epoch != epoch:  # the next request has overtaken this one
                return SessionResponse(session.id, (), (), ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            places = session.select_changed(partitions, results)
            self._response_saved.mark((len(partitions) - len(places)) * version.response_bytes)
            return SessionResponse(
                session.id if partitions else NO_SESSION,
                [entries[place] for place in places],
                [results[place] for place in places],
            )

        return FetchContext(entries, respond)

    def _limit(self) -> None:
        """Let consumers' sessions grow by what the memory has left."""
        self.cache.consumers_max_partitions = self._memory.session_room // PARTITION_BYTES

    def _count(self) -> None:
        self._memory.set_sessions(self.cache.partitions * PARTITION_BYTES)

    def _entries(self, session: FetchSession[FetchEntry]) -> list[FetchEntry]:
        entries = []
        for cached in session.partitions.values():
            entry = cached.request
            if not entry.topic_partition.topic and entry.topic_id is not None:
                name = self._topic_name(entry.topic_id) or ""
                topic_partition = TopicPartition(name, entry.topic_partition.partition)
                entry = cached.request = entry._replace(topic_partition=topic_partition)
            entries.append(entry)
        return entries


def key_of(entry: FetchEntry) -> PartitionKey:
    topic, partition = entry.topic_partition
    return topic if entry.topic_id is None else entry.topic_id, partition


def forgotten_keys(topics: Iterable[ForgottenTopic], by_id: bool) -> list[PartitionKey]:
    return [
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in topics
        for partition in topic.partitions
    ]
