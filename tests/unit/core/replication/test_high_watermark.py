"""The high watermark: examples, and what holds for any cluster of followers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.replication.partition_state import (
    NEVER_MS,
    FollowerState,
    IsrState,
    after_election,
    after_fetch,
    bounded_high_watermark,
    effective_min_isr,
    joined_by,
    leader_high_watermark,
    low_watermark,
    may_join,
    out_of_sync,
    without,
)

LAG_MS = 100


def follower(end: int, caught_up_ms: int = NEVER_MS) -> FollowerState:
    return FollowerState(log_end_offset=end, last_caught_up_ms=caught_up_ms)


def high_watermark(
    current: int,
    end: int,
    followers: dict[int, FollowerState],
    isr: set[int],
    alive: frozenset[int] = frozenset({1, 2, 3}),
    now_ms: int = 1_000,
) -> int:
    return leader_high_watermark(current, end, followers, isr, alive, now_ms, LAG_MS)


def test_alone_everything_is_committed() -> None:
    assert high_watermark(3, 10, {}, {1}) == 10


@pytest.mark.mission("DOP-1")
def test_the_slowest_member_of_the_isr_decides() -> None:
    followers = {2: follower(7), 3: follower(9)}
    assert high_watermark(3, 10, followers, {1, 2, 3}) == 7
    assert high_watermark(3, 10, followers, {1, 3}) == 9


def test_isr_member_that_never_fetched_holds_back_the_high_watermark() -> None:
    assert high_watermark(3, 10, {2: FollowerState()}, {1, 2}) == 3


def test_a_caught_up_live_follower_about_to_join_is_waited_for() -> None:
    followers = {2: follower(8, caught_up_ms=950)}
    assert high_watermark(3, 10, followers, {1}) == 8
    assert high_watermark(3, 10, followers, {1}, alive=frozenset({1})) == 10
    assert high_watermark(3, 10, followers, {1}, now_ms=1_051) == 10


def test_min_isr_is_bounded_by_the_number_of_replicas() -> None:
    assert effective_min_isr(2, set()) == 1
    assert effective_min_isr(2, {2, 3}) == 2
    assert effective_min_isr(5, {2, 3}) == 3


def test_a_checkpoint_is_brought_into_the_log() -> None:
    assert bounded_high_watermark(5, 0, 10) == 5
    assert bounded_high_watermark(50, 0, 10) == 10
    assert bounded_high_watermark(0, 4, 10) == 4


@pytest.mark.mission("DOP-8")
def test_the_low_watermark_is_that_of_the_live_replica_that_starts_first() -> None:
    def starts(**by_id: int) -> dict[int, FollowerState]:
        return {int(i[1:]): FollowerState(10, start) for i, start in by_id.items()}

    assert low_watermark(5, {}, {1}) == 5
    assert low_watermark(5, starts(b2=7, b3=5), {1, 2, 3}) == 5
    assert low_watermark(5, starts(b2=3, b3=4), {1, 2, 3}) == 3
    assert low_watermark(5, starts(b2=3, b3=4), {1, 3}) == 4
    assert low_watermark(5, {2: FollowerState()}, {1, 2}) == -1  # has not fetched yet
    assert low_watermark(5, {2: FollowerState()}, {1}) == 5


@dataclass
class Leader:
    """A leader with three followers, driven step by step through the pure functions."""

    end: int = 0
    watermark: int = 0
    now_ms: int = 0
    isr: IsrState = field(default_factory=lambda: IsrState((1, 2, 3)))
    followers: dict[int, FollowerState] = field(
        default_factory=lambda: {
            id: after_election(FollowerState(), 0, id in (2, 3), True, 0) for id in (2, 3, 4)
        }
    )

    def advance(self) -> None:
        self.watermark = leader_high_watermark(
            self.watermark,
            self.end,
            self.followers,
            self.isr.maximal,
            {1, 2, 3, 4},
            self.now_ms,
            LAG_MS,
        )

    def fetch(self, replica: int, progress: int) -> None:
        known = max(0, self.followers[replica].log_end_offset)
        offset = min(self.end, known + progress)
        state = after_fetch(self.followers[replica], offset, 0, self.end, self.now_ms)
        self.followers[replica] = state
        if may_join(self.isr, replica, state, self.watermark, 0, 0):
            self.isr = IsrState(self.isr.committed, joined_by(self.isr, replica))

    def shrink(self) -> None:
        gone = out_of_sync(self.isr, 1, self.followers, self.end, self.now_ms, LAG_MS)
        if gone:
            self.isr = IsrState(self.isr.committed, without(self.isr, gone))

    def settle(self, won: bool) -> None:
        if self.isr.proposed is not None:
            self.isr = IsrState(self.isr.proposed if won else self.isr.committed)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("wait"), st.integers(1, 150)),
        st.tuples(st.sampled_from(["fetch2", "fetch3", "fetch4"]), st.integers(0, 8)),
        st.tuples(st.sampled_from(["shrink", "won", "refused"]), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_it_never_passes_the_maximal_isr_and_never_goes_back(steps: list[tuple[str, int]]) -> None:
    leader = Leader()
    for step, amount in steps:
        before = leader.watermark
        if step == "append":
            leader.end += amount
        elif step == "wait":
            leader.now_ms += amount
        elif step == "shrink":
            leader.shrink()
        elif step in ("won", "refused"):
            leader.settle(step == "won")
        else:
            leader.fetch(int(step[-1]), amount)
        leader.advance()
        counted = [leader.end] + [
            state.log_end_offset
            for replica, state in leader.followers.items()
            if replica in leader.isr.maximal
        ]
        assert before <= leader.watermark <= max(before, min(counted))
        assert leader.watermark <= leader.end
        for replica in leader.isr.maximal - {1}:
            held = leader.followers[replica].log_end_offset
            assert held >= leader.watermark or held == -1
        assert 1 in leader.isr.committed
