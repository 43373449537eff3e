"""Which followers are caught up, leave the ISR or join it, and the effect of a pending change."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.replication.partition_state import (
    NEVER_MS,
    FollowerState,
    IsrState,
    LeadershipState,
    after_election,
    after_fetch,
    as_follower,
    as_leader,
    commit_isr,
    elected_followers,
    joined_by,
    leader_and_isr,
    lose_isr,
    may_join,
    out_of_sync,
    propose_isr,
    still_caught_up,
    without,
)
from minikafka.kernel.cluster import LeaderAndIsr, ReplicaAssignment

LAG_MS = 100


def test_reading_to_the_end_is_caught_up_now() -> None:
    state = after_fetch(FollowerState(), 10, 0, 10, now_ms=50)
    assert state.last_caught_up_ms == 50
    assert state.log_end_offset == 10


def test_reaching_the_end_of_the_previous_fetch_was_caught_up_then() -> None:
    state = after_fetch(FollowerState(), 10, 0, 10, now_ms=50)
    state = after_fetch(state, 10, 0, 13, now_ms=60)
    assert state.last_caught_up_ms == 50
    state = after_fetch(state, 13, 0, 16, now_ms=70)  # always three behind, and yet in sync
    assert state.last_caught_up_ms == 60
    state = after_fetch(state, 14, 0, 20, now_ms=80)
    assert state.last_caught_up_ms == 60


def test_a_new_leader_gives_members_of_the_isr_a_lag_period_and_others_nothing() -> None:
    member = after_election(FollowerState(5), 9, in_isr=True, new_leader=True, now_ms=7)
    assert member.log_end_offset == -1
    assert member.is_caught_up(9, 7 + LAG_MS, LAG_MS)
    assert not member.is_caught_up(9, 8 + LAG_MS, LAG_MS)
    other = after_election(FollowerState(5), 9, in_isr=False, new_leader=True, now_ms=7)
    assert not other.is_caught_up(9, 7, LAG_MS)


def test_the_first_fetch_from_a_new_leader_takes_no_grace_away() -> None:
    member = after_election(FollowerState(), 9, in_isr=True, new_leader=True, now_ms=7)
    behind = after_fetch(member, 3, 0, 9, now_ms=50)
    assert behind.last_caught_up_ms == 7


def test_a_follower_that_stays_at_the_end_is_caught_up_as_by_any_fetch() -> None:
    at_end = after_fetch(FollowerState(), 10, 2, 10, now_ms=50)
    assert still_caught_up(at_end, 60) == after_fetch(at_end, 10, 2, 10, now_ms=60)


def test_never_is_never_even_on_a_clock_that_has_just_started() -> None:
    assert not FollowerState(3).is_caught_up(9, now_ms=0, lag_time_max_ms=1 << 40)
    assert FollowerState().last_fetch_ms == NEVER_MS


def test_re_elected_leader_keeps_follower_offsets() -> None:
    known = FollowerState(5, 1, 5, 3, 3)
    state = after_election(known, 9, in_isr=True, new_leader=False, now_ms=20)
    assert state == FollowerState(5, 1, 9, 20, 20)
    state = after_election(known, 9, in_isr=False, new_leader=False, now_ms=20)
    assert state == FollowerState(5, 1, 9, NEVER_MS, NEVER_MS)


@pytest.mark.mission("DOP-1")
def test_follower_that_lags_too_long_leaves_the_isr() -> None:
    isr = IsrState((1, 2, 3, 4))
    followers = {
        2: FollowerState(9, last_caught_up_ms=0),
        3: FollowerState(10, last_caught_up_ms=0),  # holds everything, however long ago
        4: FollowerState(9, last_caught_up_ms=1),
    }
    assert out_of_sync(isr, 1, followers, 10, now_ms=101, lag_time_max_ms=LAG_MS) == (2,)
    assert without(isr, (2,)) == (1, 3, 4)
    assert out_of_sync(IsrState((1, 2), (1,)), 1, followers, 10, 101, LAG_MS) == ()


def test_a_member_without_a_replica_is_out() -> None:
    assert out_of_sync(IsrState((1, 9)), 1, {}, 0, 0, LAG_MS) == (9,)


@pytest.mark.parametrize(
    ("end", "high_watermark", "epoch_start", "joins"),
    [(10, 10, 8, True), (10, 10, 11, False), (9, 10, 8, False), (12, 10, 12, True)],
)
def test_isr_joiner_has_reached_the_high_watermark_and_the_epoch_start(
    end: int, high_watermark: int, epoch_start: int, joins: bool
) -> None:
    isr = IsrState((1,))
    assert may_join(isr, 2, FollowerState(end), high_watermark, epoch_start, 0) is joins
    assert joined_by(isr, 2) == (1, 2)


def test_no_follower_joins_the_isr_twice_or_during_a_pending_change() -> None:
    assert not may_join(IsrState((1, 2)), 2, FollowerState(10), 10, 0, 0)
    assert not may_join(IsrState((1,), (1, 3)), 2, FollowerState(10), 10, 0, 0)


def leading() -> LeadershipState:
    return as_leader(
        LeadershipState(),
        LeaderAndIsr(1, 4, (1, 2, 3), zk_version=6),
        ReplicaAssignment((1, 2, 3)),
        controller_epoch=2,
        log_end_offset=17,
    )


def test_until_it_is_known_which_isr_zookeeper_holds_both_count() -> None:
    state = propose_isr(leading(), (1, 2))
    assert leader_and_isr(state) == LeaderAndIsr(1, 4, (1, 2), zk_version=6)
    assert state.isr.maximal == {1, 2, 3}
    assert not state.isr.lost
    assert state.isr.committed == (1, 2, 3)
    written = commit_isr(state, 7)
    assert (written.isr, written.zk_version) == (IsrState((1, 2)), 7)
    refused = lose_isr(state)
    assert refused.isr.committed == (1, 2, 3)
    assert refused.isr.in_flight
    assert refused.isr.lost
    grown = propose_isr(written, (1, 2, 3))
    assert grown.isr.maximal == {1, 2, 3}


def test_the_start_of_an_epoch_is_where_the_log_ended() -> None:
    state = leading()
    assert state.leader_epoch_start_offset == 17
    again = as_leader(state, LeaderAndIsr(1, 4, (1, 2), 7), state.assignment, 2, 30)
    assert again.leader_epoch_start_offset == 17
    newer = as_leader(state, LeaderAndIsr(1, 5, (1, 2), 8), state.assignment, 2, 30)
    assert newer.leader_epoch_start_offset == 30
    followed = as_follower(LeaderAndIsr(2, 4, (1, 2), 3), state.assignment, 2)
    leads = as_leader(followed, LeaderAndIsr(1, 4, (1, 2), 8), state.assignment, 2, 40)
    assert leads.leader_epoch_start_offset == 40


def test_a_follower_knows_no_isr() -> None:
    state = as_follower(LeaderAndIsr(2, 4, (1, 2), 3), ReplicaAssignment((1, 2)), 2)
    assert state.isr == IsrState()
    assert state.leader_epoch_start_offset is None


def test_followers_follow_the_assignment() -> None:
    first = elected_followers({}, 1, ReplicaAssignment((3, 1, 2)), (1, 3), 5, True, True, 40)
    assert list(first) == [3, 2]
    assert first[3].last_caught_up_ms == 40
    assert first[2].last_caught_up_ms == NEVER_MS
    second = elected_followers(first, 1, ReplicaAssignment((1, 2, 4)), (1, 3), 5, False, False, 50)
    assert second == {2: first[2], 4: FollowerState()}


def test_a_new_leader_knows_no_offsets_of_followers_and_an_old_one_none_of_new_ones() -> None:
    known = {2: FollowerState(5, 1, 5, 3, 3)}
    assignment = ReplicaAssignment((1, 2, 4))
    unknown = FollowerState(last_fetch_leader_end_offset=-1, last_caught_up_ms=50)
    new = elected_followers(known, 1, assignment, (1, 2, 4), 9, True, True, 50)
    assert new == {2: unknown, 4: unknown}
    old = elected_followers(known, 1, assignment, (1, 2, 4), 9, False, True, 50)
    assert old == {2: FollowerState(5, 1, 9, 50, 50), 4: unknown}


def test_replicas_being_added_do_not_count_for_the_replication_factor() -> None:
    assignment = ReplicaAssignment((1, 2, 3, 4), adding=(4,), removing=(1,))
    assert LeadershipState(assignment=assignment).replication_factor == 3


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 50)), max_size=30))
def test_being_caught_up_never_goes_back(fetches: list[tuple[int, int, int]]) -> None:
    state, now_ms, leader_end = FollowerState(), 0, 0
    for offset, growth, wait_ms in fetches:
        now_ms, leader_end = now_ms + wait_ms, leader_end + growth
        after = after_fetch(state, min(offset, leader_end), 0, leader_end, now_ms)
        assert after.last_caught_up_ms >= state.last_caught_up_ms
        assert after.last_caught_up_ms <= now_ms
        assert after.last_fetch_leader_end_offset >= state.last_fetch_leader_end_offset
        state = after


@pytest.mark.parametrize(
    ("start", "leader_start", "joins"),
    [(-1, 0, True), (-1, 1, False), (0, 1, False), (3, 4, False), (4, 4, True), (9, 4, True)],
)
def test_a_follower_with_deleted_records_joins_when_it_has_deleted_them(
    start: int, leader_start: int, joins: bool
) -> None:
    follower = FollowerState(10, start)
    assert may_join(IsrState((1,)), 2, follower, 10, 0, leader_start) is joins
