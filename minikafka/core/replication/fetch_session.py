"""Fetch sessions of a broker (KIP-227): their partitions, and which session is evicted first.

A client that fetches many partitions names them once. The session remembers them, and later
requests name only the changes. A response leaves out unchanged partitions. The broker keeps a
bounded number of sessions; a client without a session sends full requests.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from minikafka.kernel.errors import ErrorCode, KafkaError

R = TypeVar("R")

# Topic name, or from Fetch v13 on ``UUID.int`` of the topic id, and partition. Functions in Python
# hash and compare a ``UUID``, a dozen times for each Fetch.
PartitionKey: TypeAlias = tuple[str | int, int]

NO_SESSION: Final = 0  # a session id
INITIAL_EPOCH: Final = 0  # a full request that creates a session
FINAL_EPOCH: Final = -1  # a full request that creates no session and closes the one it names
MAX_EPOCH: Final = 2**31 - 1
NOT_SENT: Final = -1  # an offset that no response contains


def next_epoch(epoch: int) -> int:
    """Return the session epoch after ``epoch``. 1 follows the greatest, since 0 and -1 are
    reserved. ``FINAL_EPOCH`` follows itself."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == MAX_EPOCH else epoch + 1


def is_full(epoch: int) -> bool:
    """Whether a request with this session epoch names all of its partitions."""
    return epoch in (INITIAL_EPOCH, FINAL_EPOCH)


class PartitionRead(Protocol):
    """The result of reading one partition, as sessions see it (``ReadResult`` implements it).

    ``size`` is in bytes of records. An ``is_urgent`` result (an error, a diverging epoch, a
    preferred replica) is part of every response."""

    @property
    def size(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def is_error(self) -> bool: ...

    @property
    def is_urgent(self) -> bool: ...


class CachedPartition(Generic[R]):
    """The last request for one partition, and the offsets in its last response."""

    __slots__ = ("_last_read", "high_watermark", "log_start_offset", "request")

    def __init__(self, request: R) -> None:
        self.request = request
        self.high_watermark = NOT_SENT
        self.log_start_offset = NOT_SENT
        self._last_read: PartitionRead | None = None  # the same object again is unchanged

    def update_response(self, read: PartitionRead, may_repeat: bool) -> bool:
        """Remember the offsets of ``read`` as sent. Return whether the response must contain it:
        Kafka's ``CachedPartition.maybeUpdateResponseData``. ``may_repeat``: the same object may
        come again, so that it is worth its memory."""
        if read is self._last_read:
            return False  # the most frequent case
        size, is_error = read.size, read.is_error
        is_changed = (
            size > 0
            or read.is_urgent
            or read.high_watermark != self.high_watermark
            or read.log_start_offset != self.log_start_offset
        )
        # The first response after an error contains the partition, even without other changes.
        self.high_watermark = NOT_SENT if is_error else read.high_watermark
        self.log_start_offset = read.log_start_offset
        self._last_read = read if may_repeat and not (size or read.is_urgent) else None
        return is_changed


class FetchSession(Generic[R]):
    """The partitions of one client's session (Kafka's ``FetchSession``).

    ``epoch`` is expected in the next request. ``privileged`` sessions belong to followers, whose
    unchanged partitions are read as the same objects again.
    A partition whose records were sent moves to the end of ``partitions``, so that all partitions
    are served in turn when responses reach their size limit."""

    __slots__ = ("by_id", "created_ms", "epoch", "id", "last_used_ms", "partitions", "privileged")

    def __init__(self, session_id: int, privileged: bool, by_id: bool, now_ms: int) -> None:
        self.id = session_id
        self.privileged = privileged
        self.by_id = by_id
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions: dict[PartitionKey, CachedPartition[R]] = {}

    def __len__(self) -> int:
        return len(self.partitions)

    def update(self, requests: Mapping[PartitionKey, R], forgotten: Iterable[PartitionKey]) -> None:
        """Apply an incremental request: add or replace ``requests``, then remove ``forgotten``.
        New partitions come last."""
        partitions = self.partitions
        for key, request in requests.items():
            known = partitions.get(key)
            if known is None:
                partitions[key] = CachedPartition(request)
            else:
                known.request = request
        for key in forgotten:
            partitions.pop(key, None)

    def fill(
        self, requests: Sequence[tuple[PartitionKey, R]], reads: Sequence[PartitionRead]
    ) -> None:
        """Add the partitions of a full request, and remember what its response contains."""
        for (key, request), read in zip(requests, reads, strict=True):
            cached = self.partitions[key] = CachedPartition(request)
            cached.update_response(read, self.privileged)

    def select_changed(
        self,
        sent: Sequence[tuple[PartitionKey, CachedPartition[R]]],
        reads: Iterable[PartitionRead],
    ) -> list[int]:
        """Return the indexes of the ``reads`` that the response must contain. Partitions with
        records move to the end of the session."""
        partitions = self.partitions
        places = []
        for place, ((key, cached), read) in enumerate(zip(sent, reads, strict=True)):
            if not cached.update_response(read, self.privileged):
                continue
            places.append(place)
            if read.size:
                del partitions[key]
                partitions[key] = cached
        return places


MIN_EVICTION_MS = 120_000
# In all sessions together. Kafka bounds only the number of sessions.
MAX_PARTITIONS = 500_000
PARTITION_BYTES: Final = 300  # that a partition of a session takes, about

# (privileged, number of partitions, session id): the least is evicted first.
_Rank: TypeAlias = tuple[bool, int, int]


class FetchSessionCache(Generic[R]):
    """The sessions of one broker (Kafka's ``FetchSessionCacheShard``, without other shards).

    Without a free slot a new session evicts

    A. the least recently used session, if it was not used for more than ``eviction_ms``;
    B. otherwise the evictable session with the least rank, unless it outranks the new one.
       Consumers' sessions rank below followers', and small sessions below large ones. Every
       session is evictable that was used more than ``eviction_ms`` after its creation. Followers
       may also evict any consumer's session.

    Otherwise the request is served without a session. So is a request with whose partitions all
    sessions would have more than ``max_partitions``, or a consumer's with which they would have
    more than ``consumers_max_partitions``; only sessions of case A are evicted for it. The latter
    may be changed at any time; a session that does not grow is not closed for it.
    """

    def __init__(
        self,
        slots: int,
        eviction_ms: int = MIN_EVICTION_MS,
        max_partitions: int = MAX_PARTITIONS,
    ) -> None:
        self._slots = slots
        self._max_partitions = self.consumers_max_partitions = max_partitions
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, FetchSession[R]] = {}  # least recently used first
        # The rank of each session, and whether any client may evict it.
        self._ranks: dict[int, tuple[_Rank, bool]] = {}
        self._for_followers: list[_Rank] = []  # sorted ranks that followers may evict
        self._for_all: list[_Rank] = []  # sorted ranks that any client may evict
        self.partitions = 0  # in all sessions
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._sessions

    def get(self, session_id: int) -> FetchSession[R] | None:
        return self._sessions.get(session_id)

    def facts(self, limit: int) -> list[dict[str, int | bool]]:
        """Return up to ``limit`` sessions, those that were used least recently first."""
        return [
            {
                "id": session.id,
                "epoch": session.epoch,
                "partitions": len(session),
                "of_follower": session.privileged,
                "created_ms": session.created_ms,
            }
            for session in islice(self._sessions.values(), limit)
        ]

    def make_room(self, privileged: bool, size: int, now_ms: int) -> bool:
        """Evict sessions if there is no slot, or no room for ``size`` partitions. Return whether a
        new session of this size may be added now."""
        most = self._most_partitions(privileged)
        while self.partitions + size > most:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.last_used_ms <= self._eviction_ms:
                return False
            self.close(oldest.id)
            self.evictions += 1
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        evictable = self._for_followers if privileged else self._for_all
        if now_ms - oldest.last_used_ms > self._eviction_ms:
            self.close(oldest.id)  # A
        elif evictable and (privileged, size, NO_SESSION) >= evictable[0]:
            self.close(evictable[0][2])  # B
        else:
            return False
        self.evictions += 1
        return True

    def add(self, session: FetchSession[R], now_ms: int) -> None:
        """Add a session. Call ``make_room`` before."""
        assert session.id not in self._sessions
        assert session.id != NO_SESSION
        assert len(self._sessions) < self._slots, "no slot is free"
        self._sessions[session.id] = session
        self.touch(session, now_ms)

    def close(self, session_id: int) -> FetchSession[R] | None:
        """Remove a session and return it; None if the id is unknown."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._unrank(session_id)
        return session

    def resume(
        self,
        session_id: int,
        epoch: int,
        by_id: bool,
        requests: Mapping[PartitionKey, R],
        forgotten: Iterable[PartitionKey],
        now_ms: int,
    ) -> FetchSession[R]:
        """Apply an incremental request to its session, and return the session. A session without
        partitions is closed, and so is one that would grow beyond the limit of partitions in all
        sessions: its error is FETCH_SESSION_ID_NOT_FOUND, after which the client sends a full
        request.

        Raises KafkaError(FETCH_SESSION_ID_NOT_FOUND | INVALID_FETCH_SESSION_EPOCH |
        FETCH_SESSION_TOPIC_ID_ERROR)."""
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        most = self._most_partitions(session.privileged)
        if self.partitions + len(requests) > most:
            added = sum(key not in session.partitions for key in requests)
            if added and self.partitions + added > most:
                self.close(session_id)
                raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.update(requests, forgotten)
        if session.partitions:
            session.epoch = next_epoch(epoch)
            self.touch(session, now_ms)
        else:
            self.close(session_id)
        return session

    def _most_partitions(self, privileged: bool) -> int:
        if privileged:
            return self._max_partitions
        return min(self._max_partitions, self.consumers_max_partitions)

    def touch(self, session: FetchSession[R], now_ms: int) -> None:
        """Note that a session was used."""
        session.last_used_ms = now_ms
        self._sessions[session.id] = self._sessions.pop(session.id)
        rank = (session.privileged, len(session), session.id)
        for_all = now_ms - session.created_ms > self._eviction_ms
        if self._ranks.get(session.id) == (rank, for_all):
            return
        self._unrank(session.id)
        self._ranks[session.id] = rank, for_all
        self.partitions += len(session)
        if for_all:
            insort(self._for_all, rank)
        if for_all or not session.privileged:
            insort(self._for_followers, rank)

    def _unrank(self, session_id: int) -> None:
        known = self._ranks.pop(session_id, None)
        if known is None:
            return
        rank, _ = known
        self.partitions -= rank[1]
        for ranks in (self._for_all, self._for_followers):
            place = bisect_left(ranks, rank)
            if place < len(ranks) and ranks[place] == rank:
                del ranks[place]
