"""The cache of fetch sessions: epochs, errors and evictions, compared with a scanning model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.replication.fetch_session import (
    FINAL_EPOCH,
    MAX_EPOCH,
    NOT_SENT,
    FetchSession,
    FetchSessionCache,
    PartitionKey,
    is_full,
    next_epoch,
)
from minikafka.kernel.errors import ErrorCode, KafkaError

EVICTION_MS = 120_000


class PartitionResult(NamedTuple):
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
    session.fill(list(wanted(size).items()), [PartitionResult(0, 0, 0)] * size)
    cache.add(session, now_ms)
    return True


def refusal(cache: FetchSessionCache[str], session_id: int, epoch: int, by_id: bool = False) -> str:
    with pytest.raises(KafkaError) as raised:
        cache.resume(session_id, epoch, by_id, {}, (), 0)
    return raised.value.code.name


def use(
    cache: FetchSessionCache[str],
    session_id: int,
    now_ms: int,
    more: Mapping[PartitionKey, str] | None = None,
) -> FetchSession[str]:
    """An incremental request of that session."""
    session = cache.get(session_id)
    assert session is not None
    return cache.resume(session_id, session.epoch, session.by_id, more or {}, (), now_ms)


def held(cache: FetchSessionCache[str]) -> set[int]:
    return {session_id for session_id in range(1, 10) if session_id in cache}


@pytest.mark.mission("FET-5")
def test_epochs() -> None:
    assert (FINAL_EPOCH, MAX_EPOCH, NOT_SENT) == (-1, 2_147_483_647, -1)
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
    assert {key: p.request for key, p in session.partitions.items()} == {
        ("t", 1): "new",
        ("t", 2): "w",
        ("u", 0): "w",
    }
    assert cache.partitions == 3
    cache.resume(7, 2, False, {}, [("t", 1), ("t", 2), ("u", 0), ("x", 0)], 6)
    assert (len(cache), cache.partitions, cache.get(7)) == (0, 0, None)


class TestEviction:
    """The cache is full. The eviction time is two minutes, strictly: a session unused for exactly
    that long stays."""

    @pytest.mark.mission("FET-11")
    def test_the_longest_unused_once_that_is_more_than_two_minutes(self) -> None:
        cache: FetchSessionCache[str] = FetchSessionCache(2)
        assert opened(cache, 1, size=9, privileged=True)
        assert opened(cache, 2, size=9, privileged=True, now_ms=10)
        assert not opened(cache, 3, now_ms=EVICTION_MS)
        assert opened(cache, 3, now_ms=EVICTION_MS + 1)
        assert held(cache) == {2, 3}
        assert cache.evictions == 1

    @pytest.mark.mission("FET-11")
    def test_use_makes_a_session_the_last_to_go(self) -> None:
        cache: FetchSessionCache[str] = FetchSessionCache(2)
        assert opened(cache, 1, size=9, privileged=True)
        assert opened(cache, 2, size=9, privileged=True, now_ms=10)
        use(cache, 1, 20)
        assert not opened(cache, 3, now_ms=EVICTION_MS + 10)  # 2 was used at 10, 1 at 20
        assert opened(cache, 3, now_ms=EVICTION_MS + 11)
        assert held(cache) == {1, 3}

    @pytest.mark.mission("FET-12")
    def test_a_consumers_makes_room_for_a_followers_however_young_or_large(self) -> None:
        cache: FetchSessionCache[str] = FetchSessionCache(2)
        assert opened(cache, 1, size=100)
        assert opened(cache, 2, size=1, privileged=True)
        assert opened(cache, 3, size=1, privileged=True, now_ms=1)
        assert held(cache) == {2, 3}
        assert not opened(cache, 4, size=100, privileged=True, now_ms=2)

    @pytest.mark.mission("FET-12")
    def test_a_young_session_makes_room_for_no_consumer(self) -> None:
        cache: FetchSessionCache[str] = FetchSessionCache(1)
        assert opened(cache, 1, size=1)
        use(cache, 1, EVICTION_MS)  # used when exactly that old: still young
        assert not opened(cache, 2, size=100, now_ms=EVICTION_MS + 1)
        use(cache, 1, EVICTION_MS + 1)
        assert opened(cache, 2, size=100, now_ms=EVICTION_MS + 1)
        assert held(cache) == {2}

    @pytest.mark.mission("FET-13")
    def test_of_the_old_the_one_with_the_fewest_partitions(self) -> None:
        cache: FetchSessionCache[str] = FetchSessionCache(3)
        for session_id, size in ((1, 3), (2, 2), (3, 4)):
            assert opened(cache, session_id, size=size)
            use(cache, session_id, EVICTION_MS)
        for session_id in (1, 2, 3):
            use(cache, session_id, EVICTION_MS + 1)
        assert opened(cache, 4, size=3, now_ms=EVICTION_MS + 2)
        assert held(cache) == {1, 3, 4}

    @pytest.mark.mission("FET-13")
    def test_of_the_old_a_consumers_before_a_followers(self) -> None:
        cache: FetchSessionCache[str] = FetchSessionCache(2)
        assert opened(cache, 1, size=1, privileged=True)
        assert opened(cache, 2, size=50)
        for session_id in (1, 2):
            use(cache, session_id, EVICTION_MS)
            use(cache, session_id, EVICTION_MS + 1)
        assert opened(cache, 3, size=60, now_ms=EVICTION_MS + 2)
        assert held(cache) == {1, 3}

    @pytest.mark.mission("FET-13")
    @pytest.mark.parametrize(
        ("kept", "kept_is_followers", "newcomer"),
        [(5, False, 4), (5, False, 5), (1, True, 100)],
        ids=["smaller", "as large", "a consumers, against a followers"],
    )
    def test_a_session_that_outranks_the_newcomer_stays(
        self, kept: int, kept_is_followers: bool, newcomer: int
    ) -> None:
        cache: FetchSessionCache[str] = FetchSessionCache(1)
        assert opened(cache, 1, size=kept, privileged=kept_is_followers)
        use(cache, 1, EVICTION_MS)
        use(cache, 1, EVICTION_MS + 1)
        assert not opened(cache, 2, size=newcomer, now_ms=EVICTION_MS + 2)
        assert held(cache) == {1}
        assert cache.evictions == 0
        assert opened(cache, 3, size=newcomer, privileged=True, now_ms=EVICTION_MS + 2) == (
            not kept_is_followers or newcomer > kept
        )

    @pytest.mark.mission("FET-13")
    def test_a_session_is_ranked_by_the_partitions_it_has_now(self) -> None:
        cache: FetchSessionCache[str] = FetchSessionCache(2)
        assert opened(cache, 1, size=1)
        assert opened(cache, 2, size=5)
        for session_id in (1, 2):
            use(cache, session_id, EVICTION_MS)
            use(cache, session_id, EVICTION_MS + 1)
        assert len(use(cache, 1, EVICTION_MS + 1, wanted(9))) == 9
        assert opened(cache, 3, size=6, now_ms=EVICTION_MS + 2)
        assert held(cache) == {1, 3}


def test_sessions_live_two_minutes_unless_a_follower_evicts_a_consumer() -> None:
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
def test_only_changed_partitions_and_errors_are_in_the_response() -> None:
    session: FetchSession[str] = FetchSession(1, False, False, 0)
    keys = list(wanted(3))

    def changed(results: list[PartitionResult]) -> list[int]:
        return session.select_changed([(key, session.partitions[key]) for key in keys], results)

    quiet = PartitionResult(0, 5, 0)
    session.fill(list(wanted(3).items()), [quiet] * 3)
    assert changed([quiet] * 3) == []
    assert changed([quiet, PartitionResult(9, 5, 0), quiet]) == [1]
    assert list(session.partitions) == [keys[0], keys[2], keys[1]]  # it had its turn
    assert changed([PartitionResult(0, 6, 0), quiet, PartitionResult(0, 5, 1)]) == [0, 2]
    assert changed(
        [
            PartitionResult(0, 6, 0),
            PartitionResult(0, -1, -1, is_error=True, is_urgent=True),
            PartitionResult(0, 5, 1),
        ]
    ) == [1]
    assert changed([PartitionResult(0, 6, 0), quiet, PartitionResult(0, 5, 1)]) == [1]
    urgent = PartitionResult(0, 5, 0, is_urgent=True)
    assert changed([PartitionResult(0, 6, 0), urgent, PartitionResult(0, 5, 1)]) == [1]


@pytest.mark.mission("FET-7")
def test_partition_with_records_or_after_an_error_is_in_every_response() -> None:
    session: FetchSession[str] = FetchSession(1, False, False, 0)
    quiet = PartitionResult(0, 5, 0)
    session.fill(list(wanted(1).items()), [quiet])

    def is_sent(result: PartitionResult) -> bool:
        return session.select_changed(list(session.partitions.items()), [result]) == [0]

    failed = PartitionResult(0, 5, 0, is_error=True, is_urgent=True)
    one_byte = PartitionResult(1, 5, 0)
    assert is_sent(failed)
    assert is_sent(failed), "the very same error"
    assert is_sent(quiet), "the error is over, though no offset has changed"
    assert not is_sent(quiet)
    assert is_sent(one_byte)
    assert is_sent(one_byte), "the very same records, as when the first response got lost"
    assert not is_sent(quiet)


# ------------------------------------------------------------------------ beside a cache that scans


@dataclass
class Naive:
    """One session with the facts that the eviction rules of KIP-227 use."""

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


# Times around the two minutes, and such that several together pass them.
PAUSES_MS = st.sampled_from([0, 1, 1_000, 50_000, 90_000, EVICTION_MS, EVICTION_MS + 1])
STEPS = st.lists(
    st.tuples(
        # Most live on long enough to become old only if they are used again and again.
        st.sampled_from(["open", "use", "use all", "use all but one", "resize", "close"]),
        st.booleans(),
        st.integers(1, 4),
        PAUSES_MS,
        st.integers(0, 3),
    ),
    min_size=10,
    max_size=40,
)


@settings(max_examples=300)
@given(slots=st.integers(0, 4), steps=STEPS)
def test_cache_keeps_the_same_sessions_as_a_full_scan(
    slots: int, steps: list[tuple[str, bool, int, int, int]]
) -> None:
    cache: FetchSessionCache[str] = FetchSessionCache(slots)
    model = ScanningCache(slots)
    now_ms = 0
    for number, (what, privileged, size, pause_ms, pick) in enumerate(steps, start=1):
        now_ms += pause_ms
        live = [s.id for s in model.sessions]
        picked = live[pick % len(live)] if live else 0
        if what == "open":
            naive = Naive(number, privileged, size, now_ms, now_ms)
            assert opened(cache, number, size, privileged, now_ms) == model.open(naive)
        elif what == "close" and live:
            assert cache.close(picked) is not None
            model.use(picked, 0, now_ms)
        else:
            used = [picked] if what in ("use", "resize") else live
            for session_id in used:
                if session_id and (what != "use all but one" or session_id != picked):
                    resize(cache, model, session_id, size if what == "resize" else None, now_ms)
        assert {s.id for s in model.sessions} == {n for n in range(number + 1) if n in cache}
        assert len(cache) == len(model.sessions) <= slots
        assert cache.partitions == sum(s.size for s in model.sessions)


def resize(
    cache: FetchSessionCache[str],
    model: ScanningCache,
    session_id: int,
    size: int | None,
    now_ms: int,
) -> None:
    """Use a session, with other partitions if a size is given."""
    session = cache.get(session_id)
    assert session is not None
    keys = wanted(len(session) if size is None else size)
    forgotten = sorted(session.partitions.keys() - keys.keys())
    cache.resume(session_id, session.epoch, False, keys, forgotten, now_ms)
    model.use(session_id, len(keys), now_ms)


def test_errors_are_those_of_kafka() -> None:
    codes = [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ]
    assert [int(code) for code in codes] == [70, 71, 106]
    assert all(code.retriable for code in codes)


@pytest.mark.mission("SAFE-35")
def test_all_sessions_together_have_only_so_many_partitions() -> None:
    cache: FetchSessionCache[str] = FetchSessionCache(10, EVICTION_MS, max_partitions=100)
    assert not opened(cache, 1, 101)
    assert opened(cache, 1, 60)
    assert opened(cache, 2, 40, privileged=True)
    assert not opened(cache, 3, 1, now_ms=EVICTION_MS)
    assert not opened(cache, 3, 1, privileged=True, now_ms=EVICTION_MS)
    use(cache, 1, EVICTION_MS)
    assert opened(cache, 3, 40, now_ms=EVICTION_MS + 1)  # 2 was not used for two minutes
    assert held(cache) == {1, 3}
    assert (cache.partitions, cache.evictions) == (100, 1)


@pytest.mark.mission("SAFE-35")
def test_a_session_that_would_grow_too_large_is_closed() -> None:
    cache: FetchSessionCache[str] = FetchSessionCache(10, EVICTION_MS, max_partitions=100)
    assert opened(cache, 1, 60)
    assert opened(cache, 2, 30)
    assert len(use(cache, 2, 0, wanted(40))) == 40
    assert len(use(cache, 2, 0, wanted(40, "again"))) == 40  # nothing is added
    with pytest.raises(KafkaError) as refused:
        use(cache, 2, 0, wanted(41))
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert held(cache) == {1}
    assert cache.partitions == 60
