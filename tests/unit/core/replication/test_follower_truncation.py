"""Truncation by epoch: its cases, and that it always finds the place where two logs part."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.replication.fetch_state import (
    FIRST_BACKOFF_MS,
    PartitionFetchState,
    failed,
    fetched,
    held_back,
    initial_truncation,
    truncated,
)
from minikafka.core.replication.follower import (
    EpochEnd,
    Restart,
    Truncation,
    diverges,
    restart_at_leader_start,
    restart_below_leader_end,
    truncation_by_epoch,
)

UNDEFINED = EpochEnd()


@pytest.mark.parametrize(
    ("case", "leader", "local", "expected"),
    [
        ("A", UNDEFINED, EpochEnd(2, 20), Truncation(12)),
        ("B", EpochEnd(-1, 15), EpochEnd(2, 20), Truncation(15)),
        ("B", EpochEnd(-1, 35), EpochEnd(2, 20), Truncation(30)),
        ("C", EpochEnd(1, 14), UNDEFINED, Truncation(14)),
        ("D", EpochEnd(3, 25), EpochEnd(2, 20), Truncation(20, completed=False)),
        ("E", EpochEnd(3, 25), EpochEnd(3, 28), Truncation(25)),
        ("E", EpochEnd(3, 29), EpochEnd(3, 28), Truncation(28)),
        ("E", EpochEnd(3, 35), EpochEnd(3, 32), Truncation(30)),
    ],
)
def test_cases(case: str, leader: EpochEnd, local: EpochEnd, expected: Truncation) -> None:
    assert truncation_by_epoch(leader, local, high_watermark=12, log_end_offset=30) == expected


def test_truncation_offset_never_exceeds_the_log_end_offset() -> None:
    assert truncation_by_epoch(UNDEFINED, UNDEFINED, 12, log_end_offset=10) == Truncation(10)
    leader, local = EpochEnd(3, 25), EpochEnd(2, 20)
    assert truncation_by_epoch(leader, local, 5, log_end_offset=10) == Truncation(10, False)


@pytest.mark.parametrize(
    ("end", "undefined"), [((-1, -1), True), ((-1, 5), True), ((5, -1), True), ((0, 0), False)]
)
def test_an_end_has_an_epoch_and_an_offset(end: tuple[int, int], undefined: bool) -> None:
    assert EpochEnd(*end).is_undefined is undefined


def test_a_log_without_epochs_goes_back_to_its_high_watermark() -> None:
    assert initial_truncation(10, 4, None) == Truncation(4, completed=True)
    assert initial_truncation(10, 4, latest_epoch=0) is None
    assert initial_truncation(0, 0, None) is None


def test_out_of_range() -> None:
    assert restart_below_leader_end(10, 7) == Restart(7, truncate_to=7)
    assert restart_below_leader_end(10, 10) is None
    assert restart_at_leader_start(10, 25) == Restart(25, start_at=25)
    assert restart_at_leader_start(10, 3) == Restart(10)
    assert restart_at_leader_start(10, 10) == Restart(10)  # nothing here is stale


def test_follower_is_in_sync_at_the_high_watermark_of_the_last_response() -> None:
    state = PartitionFetchState(None, 3, 10)
    assert not state.in_sync  # not known yet
    assert not fetched(state, 12, 3, 13).in_sync
    assert fetched(state, 13, 3, 13).in_sync
    ahead = fetched(state, 14, 3, 13)  # of what the leader had committed
    assert (ahead.lag, ahead.in_sync) == (0, True)


def test_one_that_is_throttled_waits_unless_it_waits_already() -> None:
    state = PartitionFetchState(None, 3, 10)
    waiting = held_back(state, 1_000, 50)
    assert waiting == state._replace(delayed_until_ms=1_050)
    assert held_back(waiting, 1_049, 50) is waiting
    assert held_back(waiting, 1_050, 50).delayed_until_ms == 1_100


def test_errors_in_a_row_are_backed_off_from_longer_and_longer() -> None:
    state = PartitionFetchState(UUID(int=1), 3, 10)
    delays = []
    now_ms = 0
    for failures in range(9):
        assert state.failures == failures
        state = failed(state, now_ms, backoff_max_ms=1_000)
        assert state.delayed_until_ms is not None
        delays.append(state.delayed_until_ms - now_ms)
        assert failed(state, now_ms, 1_000) is state  # one delay at a time
        now_ms = state.delayed_until_ms
        assert not state.is_delayed(now_ms)
    assert delays[0] == FIRST_BACKOFF_MS
    assert delays == sorted(delays)
    assert delays[-1] == 1_000
    assert fetched(state, 12, 3, 20) == PartitionFetchState(UUID(int=1), 3, 12, 3, lag=8)
    assert fetched(state, 10, None, 20).last_fetched_epoch is None


def test_a_follower_that_has_failed_all_day_waits_no_longer_than_is_permitted() -> None:
    state = PartitionFetchState(None, 3, 10, failures=10_000)
    assert failed(state, 0, 1_000).delayed_until_ms == 1_000
    assert failed(state, 0, 1).delayed_until_ms == 1


def test_partitions_that_fail_in_succession_are_retried_together() -> None:
    state = PartitionFetchState(UUID(int=1), 3, 10, failures=10)
    ends = {failed(state, now_ms, 1_000).delayed_until_ms for now_ms in range(10_000, 10_500)}
    assert ends == {11_000}


def test_a_cut_goes_on_from_where_it_cut() -> None:
    state = PartitionFetchState(None, 3, 10, last_fetched_epoch=2)
    assert truncated(state, 6, 1, False) == PartitionFetchState(None, 3, 6, 1)
    waiting = truncated(state, 6, 1, True)
    assert waiting.is_delayed(10**9)
    assert failed(waiting, 0, 1_000) is waiting


# ------------------------------------------------------------------------------------ whole logs

Log = list[int]  # the epoch of every record; the offset is the index


def end_of(log: Log, epoch: int) -> EpochEnd:
    """The OffsetForLeaderEpoch response of a log, by scanning: nothing for an epoch above all it
    knows, its start for an epoch below."""
    if not log or epoch > log[-1]:
        return UNDEFINED
    known = [e for e in log if e <= epoch]
    return EpochEnd(max(known, default=epoch), len(known))


def common_prefix(left: Log, right: Log) -> int:
    """In a lineage of leaders, equal epochs at equal offsets are equal records."""
    for offset, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return offset
    return min(len(left), len(right))


@st.composite
def lineages(draw: st.DrawFn) -> tuple[Log, Log, int]:
    """Two logs as failovers leave them. They have a common prefix of epochs; after it, each has
    epochs that the other does not have."""
    logs: list[Log] = [[], [], []]
    leader, epoch = 0, 0
    for _ in range(draw(st.integers(1, 8))):
        logs[leader] += [epoch] * draw(st.integers(1, 4))
        for other in range(3):
            if other != leader and draw(st.booleans()):
                keep = common_prefix(logs[other], logs[leader])
                upto = draw(st.integers(keep, len(logs[leader])))
                logs[other] = logs[leader][:upto]
        leader = draw(st.integers(0, 2))
        epoch += 1
    logs[leader] += [epoch]
    follower = (leader + 1) % 3
    high_watermark = draw(st.integers(0, common_prefix(logs[leader], logs[follower])))
    return logs[leader], logs[follower], high_watermark


@settings(max_examples=200, deadline=None)
@given(lineages())
def test_truncated_follower_keeps_committed_records_and_a_prefix_of_the_leader(
    setting: tuple[Log, Log, int],
) -> None:
    leader, follower, high_watermark = setting
    for _ in range(len(follower) + 1):
        if not follower:
            break
        answer = end_of(leader, follower[-1])
        if not answer.is_undefined and not diverges(follower[-1], len(follower), answer):
            break
        local = end_of(follower, answer.epoch)
        cut = truncation_by_epoch(answer, local, high_watermark, len(follower))
        assert cut.offset >= high_watermark
        assert cut.offset < len(follower) or answer.is_undefined
        follower = follower[: cut.offset]
        if answer.is_undefined:
            break
    assert follower == leader[: len(follower)]
