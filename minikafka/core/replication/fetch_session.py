"""Fetch sessions of a broker (KIP-227): what each holds, and which have to make room for others.

A client that fetches many partitions names them once. The session remembers them, and later
requests name only changes. A response leaves out partitions without news. The broker keeps a
bounded number of sessions; a client without one sends full requests.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID

from minikafka.kernel.errors import ErrorCode, KafkaError

R = TypeVar("R")

# Topic name, or topic id from Fetch v13 on, and partition.
PartitionKey: TypeAlias = tuple[str | UUID, int]

NO_SESSION: Final = 0  # a session id
INITIAL_EPOCH: Final = 0  # a full request that wants a session
FINAL_EPOCH: Final = -1  # a full request that wants none, and ends the one it names
MAX_EPOCH: Final = 2**31 - 1
UNTOLD: Final = -1  # an offset that no answer has


def next_epoch(epoch: int) -> int:
    """The epoch after ``epoch``; after the greatest comes 1, as 0 and -1 have meanings."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == MAX_EPOCH else epoch + 1


def is_full(epoch: int) -> bool:
    """Whether a request of this session epoch names all that it wants."""
    return epoch in (INITIAL_EPOCH, FINAL_EPOCH)


class PartitionRead(Protocol):
    """What was read of one partition, as far as sessions look at it; ``ReadResult`` of the broker
    has these fields. ``is_urgent``: in every response (an error, a divergence, a preferred
    replica)."""

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
    """The request of a partition, and the offsets in the last response for it."""

    __slots__ = ("_last_read", "high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: R) -> None:
        self.wanted = wanted
        self.high_watermark = UNTOLD
        self.log_start_offset = UNTOLD
        self._last_read: PartitionRead | None = None  # the same object again has no news

    def has_news(self, read: PartitionRead) -> bool:
        """Whether ``read`` belongs into the response; note its offsets as sent."""
        if read is self._last_read:
            return False  # the most frequent case
        size, is_error = read.size, read.is_error
        news = (
            size > 0
            or read.is_urgent
            or read.high_watermark != self.high_watermark
            or read.log_start_offset != self.log_start_offset
        )
        # After an error the partition is sent again, even if nothing else has changed.
        self.high_watermark = UNTOLD if is_error else read.high_watermark
        self.log_start_offset = read.log_start_offset
        self._last_read = None if size or read.is_urgent else read
        return news


class FetchSession(Generic[R]):
    """Kafka's FetchSession. ``epoch`` is that of the next request. ``privileged``: a follower's.

    ``partitions`` that had records move to the end, so that full responses serve all partitions in
    turn (Kafka's ImplicitLinkedHashCollection)."""

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

    def update(self, wanted: Mapping[PartitionKey, R], forgotten: Iterable[PartitionKey]) -> None:
        """Apply an incremental request. New partitions are the last. A partition that is named in
        both arguments is removed."""
        partitions = self.partitions
        for key, want in wanted.items():
            known = partitions.get(key)
            if known is None:
                partitions[key] = CachedPartition(want)
            else:
                known.wanted = want
        for key in forgotten:
            partitions.pop(key, None)

    def fill(
        self, wanted: Sequence[tuple[PartitionKey, R]], reads: Sequence[PartitionRead]
    ) -> None:
        """Begin with the partitions of a full request and what was read for them."""
        for (key, want), read in zip(wanted, reads, strict=True):
            cached = self.partitions[key] = CachedPartition(want)
            cached.has_news(read)

    def news(
        self,
        asked: Sequence[tuple[PartitionKey, CachedPartition[R]]],
        reads: Iterable[PartitionRead],
    ) -> list[int]:
        """The indexes of those ``reads`` that belong into the response. Partitions with records
        become the last in the order of the session."""
        partitions = self.partitions
        places = []
        for place, ((key, cached), read) in enumerate(zip(asked, reads, strict=True)):
            if not cached.has_news(read):
                continue
            places.append(place)
            if read.size:
                del partitions[key]
                partitions[key] = cached
        return places


MIN_EVICTION_MS = 120_000

# (privileged, partitions, session id): the least goes first.
_Rank: TypeAlias = tuple[bool, int, int]


class FetchSessionCache(Generic[R]):
    """Kafka's FetchSessionCacheShard; there is one, as there is one thread.

    A new session takes a free slot, or that of

    A. the one that has not been used for the longest time, if that is more than two minutes;
    B. else the least one that may be put out: by a follower any consumer's, and by anybody one
       that was used when it was older than two minutes; consumers' before followers', small ones
       before large ones, and never one that outranks the newcomer.
    """

    def __init__(self, slots: int, eviction_ms: int = MIN_EVICTION_MS) -> None:
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, FetchSession[R]] = {}  # the longest unused first
        self._ranks: dict[int, tuple[_Rank, bool]] = {}  # and whether it is old enough for all
        self._for_followers: list[_Rank] = []  # sorted, as the next
        self._for_all: list[_Rank] = []
        self.partitions = 0  # in all sessions
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._sessions

    def get(self, session_id: int) -> FetchSession[R] | None:
        return self._sessions.get(session_id)

    def make_room(self, privileged: bool, size: int, now_ms: int) -> bool:
        """Whether a session of so many partitions gets a slot, from now on free."""
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
        """A session that room was made for."""
        assert session.id not in self._sessions
        assert session.id != NO_SESSION
        assert len(self._sessions) < self._slots, "no slot is free"
        self._sessions[session.id] = session
        self._touch(session, now_ms)

    def close(self, session_id: int) -> FetchSession[R] | None:
        """Forget a session; None when there is none of that id."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._unrank(session_id)
        return session

    def resume(
        self,
        session_id: int,
        epoch: int,
        by_id: bool,
        wanted: Mapping[PartitionKey, R],
        forgotten: Iterable[PartitionKey],
        now_ms: int,
    ) -> FetchSession[R]:
        """The session of an incremental request, brought up to date by it. One that nothing is left
        of is closed, and has no partitions.

        Raises KafkaError(FETCH_SESSION_ID_NOT_FOUND | INVALID_FETCH_SESSION_EPOCH |
        FETCH_SESSION_TOPIC_ID_ERROR); the session stays as it was."""
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(wanted, forgotten)
        if session.partitions:
            session.epoch = next_epoch(epoch)
            self._touch(session, now_ms)
        else:
            self.close(session_id)
        return session

    def _touch(self, session: FetchSession[R], now_ms: int) -> None:
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
