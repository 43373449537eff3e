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


class FetchVersion(NamedTuple):
    """``partition_bytes``: what naming a partition costs in a request, ``answer_bytes`` in an
    answer without records; tagged fields that are hardly ever there not counted."""

    records: FetchFormat
    by_id: bool  # topics go by id (KIP-516)
    replica_state: bool  # the follower's id stands in a tagged field (KIP-903)
    follower_reads: bool  # a follower may answer, the leader may send to one (KIP-392)
    storage_error: bool  # clients know KAFKA_STORAGE_ERROR
    names_leader: bool  # who leads instead is named, with its address (KIP-951)
    partition_bytes: int
    answer_bytes: int


def _bytes(*rows: tuple[int, int]) -> list[int]:
    """By version, from (first version, bytes from there on)."""
    return [max(row for row in rows if row[0] <= version)[1] for version in _VERSIONS]


_VERSIONS: Final = range(ApiKey.FETCH.max_version + 1)
_PARTITION_BYTES: Final = _bytes((0, 16), (5, 24), (9, 28), (12, 33))
_ANSWER_BYTES: Final = _bytes((0, 18), (4, 30), (5, 38), (11, 42), (12, 37))

FETCH_VERSIONS: Final = tuple(
    FetchVersion(
        records=FETCH_FORMATS[version],
        by_id=version >= 13,
        replica_state=version >= 15,
        follower_reads=version >= 11,
        storage_error=version >= 6,
        names_leader=version >= 16,
        partition_bytes=_PARTITION_BYTES[version],
        answer_bytes=_ANSWER_BYTES[version],
    )
    for version in _VERSIONS
)


DEFAULT_SLOTS = 1_000


class SessionResponse(NamedTuple):
    """What goes out of all that was read, and under which session id."""

    session_id: int
    entries: Sequence[FetchEntry]
    results: Sequence[ReadResult]
    error: ErrorCode = ErrorCode.NONE


class FetchContext(NamedTuple):
    """``entries`` is what this request reads; ``answer`` turns what was read for them, in their
    order, into what is said of it."""

    entries: Sequence[FetchEntry]
    answer: Callable[[Sequence[ReadResult]], SessionResponse]


Wanted: TypeAlias = Sequence[FetchEntry]
ResolveName: TypeAlias = Callable[..., str | None]


class FetchSessions:
    """Kafka's FetchManager. ``topic_name`` resolves the topic ids of partitions that stand in a
    session under a name not known then."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        metrics: Metrics,
        topic_name: ResolveName,
        slots: int = DEFAULT_SLOTS,
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._topic_name = topic_name
        cache: FetchSessionCache[FetchEntry] = FetchSessionCache(slots)
        self.cache = cache
        self._request_saved = metrics.counter("kafka.server:FetchSessionRequestBytesSavedPerSec")
        self._answer_saved = metrics.counter("kafka.server:FetchSessionResponseBytesSavedPerSec")
        for name, read in (
            ("NumIncrementalFetchSessions", lambda: len(cache)),
            ("NumIncrementalFetchPartitionsCached", lambda: cache.partitions),
            ("IncrementalFetchSessionEvictionsPerSec", lambda: cache.evictions),
        ):
            metrics.gauge(f"kafka.server:{name}", read)

    def context(
        self, request: FetchRequest, wanted: Wanted, version: FetchVersion, privileged: bool
    ) -> FetchContext:
        """Raises KafkaError with the errors of sessions, see ``FetchSessionCache.resume``."""
        epoch = request.session_epoch
        if not is_full(epoch):
            return self._incremental(request, wanted, version)
        if request.session_id != NO_SESSION:
            self.cache.close(request.session_id)
        if epoch == FINAL_EPOCH:
            return FetchContext(
                wanted, lambda results: SessionResponse(NO_SESSION, wanted, results)
            )
        return FetchContext(
            wanted, lambda results: self._open(wanted, results, version.by_id, privileged)
        )

    def _open(
        self, wanted: Wanted, results: Sequence[ReadResult], by_id: bool, privileged: bool
    ) -> SessionResponse:
        """The answer to a full request: with it the session begins, if there is room."""
        now_ms = self._clock.monotonic_ms()
        keyed = {key_of(entry): place for place, entry in enumerate(wanted)}  # the last one counts
        if not self.cache.make_room(privileged, len(keyed), now_ms):
            return SessionResponse(NO_SESSION, wanted, results)
        session: FetchSession[FetchEntry] = FetchSession(self._new_id(), privileged, by_id, now_ms)
        session.fill(
            [(key, wanted[place]) for key, place in keyed.items()],
            [results[place] for place in keyed.values()],
        )
        self.cache.add(session, now_ms)
        return SessionResponse(session.id, wanted, results)

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._entropy.randrange(MAX_EPOCH)
            if session_id not in self.cache:
                return session_id

    def _incremental(
        self, request: FetchRequest, wanted: Wanted, version: FetchVersion
    ) -> FetchContext:
        session = self.cache.resume(
            request.session_id,
            request.session_epoch,
            version.by_id,
            {key_of(entry): entry for entry in wanted},
            forgotten_keys(request.forgotten_topics_data, version.by_id),
            self._clock.monotonic_ms(),
        )
        epoch = session.epoch
        asked = list(session.partitions.items())
        entries = self._entries(session)
        self._request_saved.mark((len(asked) - len(wanted)) * version.partition_bytes)

        def answer(results: Sequence[ReadResult]) -> SessionResponse:
            if session.epoch != epoch:  # the next request has overtaken this one
                return SessionResponse(session.id, (), (), ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            places = session.news(asked, results)
            self._answer_saved.mark((len(asked) - len(places)) * version.answer_bytes)
            return SessionResponse(
                session.id if asked else NO_SESSION,
                [entries[place] for place in places],
                [results[place] for place in places],
            )

        return FetchContext(entries, answer)

    def _entries(self, session: FetchSession[FetchEntry]) -> list[FetchEntry]:
        entries = []
        for cached in session.partitions.values():
            entry = cached.wanted
            if not entry.topic_partition.topic and entry.topic_id is not None:
                name = self._topic_name(entry.topic_id) or ""
                topic_partition = TopicPartition(name, entry.topic_partition.partition)
                entry = cached.wanted = entry._replace(topic_partition=topic_partition)
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
