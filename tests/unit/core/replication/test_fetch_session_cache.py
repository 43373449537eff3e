"""The cache of fetch sessions: epochs, refusals, and who makes room, beside a cache that scans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.replication.fetch_session import (
    FINAL_EPOCH,
    MAX_EPOCH,
    FetchSession,
    PartitionKey,
    is_full,
    next_epoch,
)
from minikafka.core.replication.fetch_session_cache import FetchSessionCache
from minikafka.kernel.errors import ErrorCode, KafkaError

EVICTION_MS = 120_000


class Told(NamedTuple):
    size: int
    high_watermark: int
    log_start_offset: int
    is_error: bool = False
    is_urgent: bool = False


def wanted(count: int, value: str = "w") -> dict[PartitionKey, str]:
    return {("t", i): value for i in range(count)}


def opened(
    cache: FetchSessionCache[str],
    session_id: int,
    size: int = 1,
    privileged: bool = False,
    now_ms: int = 0,
    by_id: bool = False,
) -> bool:
    if not cache.make_room(privileged, size, now_ms):
        return False
    session: FetchSession[str] = FetchSession(session_id, privileged, by_id, now_ms)
    session.fill(list(wanted(size).items()), [Told(0, 0, 0)] * size)
    cache.add(session, now_ms)
    return True


def refusal(cache: FetchSessionCache[str], session_id: int, epoch: int, by_id: bool = False) -> str:
    with pytest.raises(KafkaError) as raised:
        cache.resume(session_id, epoch, by_id, {}, (), 0)
    return raised.value.code.name


@pytest.mark.mission("FET-5")
def test_epochs() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, MAX_EPOCH, FINAL_EPOCH)] == [1, 2, 1, FINAL_EPOCH]
    assert [is_full(epoch) for epoch in (FINAL_EPOCH, 0, 1)] == [True, True, False]


@pytest.mark.mission("FET-5")
def test_refusals_leave_the_session_as_it_was() -> None:
    cache: FetchSessionCache[str] = FetchSessionCache(10)
    assert opened(cache, 7)
    assert refusal(cache, 8, 1) == "FETCH_SESSION_ID_NOT_FOUND"
    assert refusal(cache, 7, 2) == "INVALID_FETCH_SESSION_EPOCH"
    assert refusal(cache, 7, 1, by_id=True) == "FETCH_SESSION_TOPIC_ID_ERROR"
    assert cache.resume(7, 1, False, {}, (), 5).epoch == 2
    assert refusal(cache, 7, 1) == "INVALID_FETCH_SESSION_EPOCH"


@pytest.mark.mission("FET-8")
def test_forgotten_partitions_leave_and_the_last_takes_the_session_with_it() -> None:
    cache: FetchSessionCache[str] = FetchSessionCache(10)
    opened(cache, 7, size=3)
    session = cache.resume(7, 1, False, {("t", 1): "new", ("u", 0): "w"}, [("t", 0)], 5)
    assert {key: p.wanted for key, p in session.partitions.items()} == {
        ("t", 1): "new",
        ("t", 2): "w",
        ("u", 0): "w",
    }
    assert cache.partitions == 3
    cache.resume(7, 2, False, {}, [("t", 1), ("t", 2), ("u", 0), ("x", 0)], 6)
    assert (len(cache), cache.partitions, cache.get(7)) == (0, 0, None)


def test_nobody_is_put_out_before_two_minutes_except_consumers_by_followers() -> None:
    cache: FetchSessionCache[str] = FetchSessionCache(2)
    assert opened(cache, 1, size=1)
    assert opened(cache, 2, size=5, privileged=True)
    assert not opened(cache, 3, size=100, now_ms=EVICTION_MS)
    assert opened(cache, 4, size=1, privileged=True, now_ms=EVICTION_MS)
    assert 1 not in cache
    assert cache.evictions == 1
    assert not opened(cache, 5, size=100, privileged=True, now_ms=EVICTION_MS)
    assert opened(cache, 6, size=1, now_ms=EVICTION_MS + 1)  # 2 was not used since
    assert 2 not in cache


def test_no_slots_no_sessions() -> None:
    assert not opened(FetchSessionCache(0), 1, privileged=True)


@pytest.mark.mission("FET-7")
def test_only_news_are_told_and_errors_are_told_again() -> None:
    session: FetchSession[str] = FetchSession(1, False, False, 0)
    keys = list(wanted(3))

    def news(told: list[Told]) -> list[int]:
        return session.news([(key, session.partitions[key]) for key in keys], told)

    quiet = Told(0, 5, 0)
    session.fill(list(wanted(3).items()), [quiet] * 3)
    assert news([quiet] * 3) == []
    assert news([quiet, Told(9, 5, 0), quiet]) == [1]
    assert list(session.partitions) == [keys[0], keys[2], keys[1]]  # it had its turn
    assert news([Told(0, 6, 0), quiet, Told(0, 5, 1)]) == [0, 2]
    assert news([Told(0, 6, 0), Told(0, -1, -1, is_error=True, is_urgent=True), Told(0, 5, 1)]) == [
        1
    ]
    assert news([Told(0, 6, 0), quiet, Told(0, 5, 1)]) == [1]
    urgent = Told(0, 5, 0, is_urgent=True)
    assert news([Told(0, 6, 0), urgent, Told(0, 5, 1)]) == [1]


# ------------------------------------------------------------------------ beside a cache that scans


@dataclass
class Naive:
    """One session, as the rules of KIP-227 speak of it."""

    id: int
    privileged: bool
    size: int
    created_ms: int
    used_ms: int
    epoch: int = 1


class ScanningCache:
    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.sessions: list[Naive] = []

    def open(self, new: Naive) -> bool:
        if len(self.sessions) >= self.slots:
            loser = self._loser(new)
            if loser is None:
                return False
            self.sessions.remove(loser)
        self.sessions.append(new)
        return True

    def _loser(self, new: Naive) -> Naive | None:
        if not self.sessions:
            return None
        oldest = min(self.sessions, key=lambda s: s.used_ms)
        if new.used_ms - oldest.used_ms > EVICTION_MS:
            return min((s for s in self.sessions if s.used_ms == oldest.used_ms), key=self.place)
        may_go = [
            s
            for s in self.sessions
            if s.used_ms - s.created_ms > EVICTION_MS or (new.privileged and not s.privileged)
        ]
        least = min(may_go, key=lambda s: (s.privileged, s.size, s.id), default=None)
        if least is None or (new.privileged, new.size) < (least.privileged, least.size):
            return None
        if (new.privileged, new.size) == (least.privileged, least.size):
            return None  # equal, and session ids are above the newcomer's 0
        return least

    def place(self, session: Naive) -> int:
        return self.sessions.index(session)

    def use(self, session_id: int, size: int, now_ms: int) -> None:
        session = next(s for s in self.sessions if s.id == session_id)
        self.sessions.remove(session)
        session.used_ms, session.size = now_ms, size
        if size:
            self.sessions.append(session)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["open", "open", "use", "close"]),
        st.booleans(),
        st.integers(0, 4),
        st.integers(0, 70_000),
        st.integers(0, 100),
    ),
    max_size=60,
)


@settings(max_examples=150)
@given(slots=st.integers(0, 4), steps=STEPS)
def test_it_keeps_what_a_scan_would_keep(
    slots: int, steps: list[tuple[str, bool, int, int, int]]
) -> None:
    cache: FetchSessionCache[str] = FetchSessionCache(slots)
    model = ScanningCache(slots)
    now_ms = 0
    for number, (what, privileged, size, pause_ms, pick) in enumerate(steps, start=1):
        now_ms += pause_ms
        live = [s.id for s in model.sessions]
        if what == "open":
            naive = Naive(number, privileged, size, now_ms, now_ms)
            assert opened(cache, number, size, privileged, now_ms) == model.open(naive)
        elif live:
            session_id = live[pick % len(live)]
            session = cache.get(session_id)
            assert session is not None
            if what == "use":
                held = set(session.partitions)
                keys = set(wanted(size))
                cache.resume(
                    session_id,
                    session.epoch,
                    False,
                    wanted(size),
                    sorted(held - keys),
                    now_ms,
                )
                model.use(session_id, size, now_ms)
            else:
                assert cache.close(session_id) is session
                model.use(session_id, 0, now_ms)
        assert {s.id for s in model.sessions} == {n for n in range(number + 1) if n in cache}
        assert len(cache) == len(model.sessions) <= slots
        assert cache.partitions == sum(s.size for s in model.sessions)


def test_errors_are_those_of_kafka() -> None:
    codes = [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ]
    assert [int(code) for code in codes] == [70, 71, 106]
    assert all(code.retriable for code in codes)
