"""DelayedHeartbeat: one operation a member, its key, its four reasons to end, and its expiry."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from minikafka.core.group.group import NEW_MEMBER_JOIN_TIMEOUT_MS, Group, GroupState
from minikafka.core.group.result import HeartbeatTimer
from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.kernel.errors import ErrorCode
from minikafka.server.coordinator.group_timers import DelayedHeartbeat, MemberKey
from tests.support.coordinator.group_lab import GROUP, GroupLab

SESSION_MS = 10_000


@pytest.fixture
def group() -> Group:
    """Stable, with the one member ``a``."""
    lab = GroupLab()
    lab.stable("a")
    return lab.group


def delayed(
    group: Group,
    member_id: str = "a",
    pending: bool = False,
    expired: Callable[[HeartbeatTimer], None] = lambda timer: None,
) -> DelayedHeartbeat:
    member = group.members.get(member_id)
    beat = 0 if member is None else member.beats
    timer = HeartbeatTimer(group, member_id, beat, SESSION_MS, pending)
    return DelayedHeartbeat(timer, 50_000 + SESSION_MS, expired)


@pytest.mark.mission("HB-3")
def test_it_is_a_delayed_operation_of_the_session_time_out_on_its_members_key(
    group: Group,
) -> None:
    operation = delayed(group)
    assert isinstance(operation, DelayedOperation)
    assert operation.delay_ms == SESSION_MS
    assert operation.deadline_ms == 60_000
    assert list(operation.watched_keys()) == [MemberKey(GROUP, "a")]
    assert not operation.try_complete()


@pytest.mark.mission("HB-3")
def test_it_expires_once_after_the_session_time_out() -> None:
    lab = GroupLab()
    lab.stable("a")
    expired: list[HeartbeatTimer] = []
    timer = HeartbeatTimer(lab.group, "a", lab.group.members["a"].beats, SESSION_MS)
    operation = DelayedHeartbeat(timer, SESSION_MS, expired.append)
    purgatory: Purgatory[DelayedHeartbeat] = Purgatory("Heartbeat")
    assert not purgatory.try_complete_else_watch(operation, list(operation.watched_keys()), 0)
    assert purgatory.advance(SESSION_MS - 1) == 0
    assert expired == []
    assert purgatory.advance(SESSION_MS) == 1
    assert purgatory.advance(10 * SESSION_MS) == 0
    assert expired == [timer]


@pytest.mark.mission("HB-3")
class TestItEndsWithoutEffect:
    """``expired`` is what the operations of these tests would call on expiry."""

    expired: list[HeartbeatTimer]

    @pytest.fixture(autouse=True)
    def nothing_expires(self) -> Iterator[None]:
        self.expired = []
        yield
        assert self.expired == []

    def delayed(
        self, group: Group, member_id: str = "a", pending: bool = False
    ) -> DelayedHeartbeat:
        return delayed(group, member_id, pending, self.expired.append)

    def ended(self, operation: DelayedHeartbeat) -> bool:
        return operation.try_complete() and not operation.expire()

    def test_case_a_the_group_is_dead(self, group: Group) -> None:
        operation = self.delayed(group)
        group.transition_to(GroupState.DEAD, 0)
        assert self.ended(operation)

    def test_case_b_the_pending_member_has_come_or_gone(self, group: Group) -> None:
        group.pending_members["b"] = None
        operation = self.delayed(group, "b", pending=True)
        assert not operation.try_complete()
        del group.pending_members["b"]
        assert self.ended(operation)

    def test_case_c_the_member_has_left(self, group: Group) -> None:
        operation = self.delayed(group)
        group.remove("a")
        assert self.ended(operation)

    def test_case_d_a_later_heartbeat(self, group: Group) -> None:
        operation = self.delayed(group)
        group.members["a"].beats += 1
        assert self.ended(operation)

    @pytest.mark.parametrize("waiting", ["awaiting_join", "awaiting_sync"])
    def test_case_d_the_member_waits_for_a_response(self, group: Group, waiting: str) -> None:
        operation = self.delayed(group)
        setattr(group.members["a"], waiting, object())
        assert self.ended(operation)

    @pytest.mark.parametrize("waiting", ["awaiting_join", "awaiting_sync"])
    def test_but_not_while_it_is_new(self, group: Group, waiting: str) -> None:
        operation = self.delayed(group)
        setattr(group.members["a"], waiting, object())
        group.members["a"].is_new = True
        assert not operation.try_complete()


@pytest.mark.mission("HB-3")
def test_a_member_whose_request_waits_at_the_coordinator_sends_no_heartbeats_and_stays() -> None:
    lab = GroupLab()
    lab.stable("a", "b", rebalance_ms=30_000, session_ms=SESSION_MS)
    lab.join("a", rebalance_ms=30_000)
    for _ in range(4):
        lab.clock.advance(6_000)
        assert lab.beat("b", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(lab.group.members) == ["a", "b"]
    assert lab.clock.monotonic_ms() < NEW_MEMBER_JOIN_TIMEOUT_MS


@pytest.mark.mission("HB-2", "HB-3")
def test_each_heartbeat_ends_the_operation_before_it() -> None:
    lab = GroupLab()
    generation, _ = lab.stable("a")
    seen: list[DelayedOperation] = []
    for _ in range(3):
        lab.clock.advance(1_000)
        assert lab.beat("a", generation) is ErrorCode.NONE
        ((expires_ms, operation),) = lab.heartbeats.purgatory.waiting(10)
        assert isinstance(operation, DelayedHeartbeat)
        assert expires_ms == operation.deadline_ms == lab.clock.monotonic_ms() + SESSION_MS
        assert all(before.is_completed and not before.is_timed for before in seen)
        seen.append(operation)
    assert len(set(map(id, seen))) == 3
