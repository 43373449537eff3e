"""The fetch sessions of one broker: as many as there are slots, and who has to make room."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import Generic, TypeAlias, TypeVar

from minikafka.core.replication.fetch_session import (
    NO_SESSION,
    FetchSession,
    PartitionKey,
    next_epoch,
)
from minikafka.kernel.errors import ErrorCode, KafkaError

R = TypeVar("R")

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
