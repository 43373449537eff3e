"""What waits for members: for a sign of life, for all to join, for all to sync."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from minikafka.core.group.group import Group
from minikafka.core.group.liveness import heartbeat_is_over
from minikafka.core.group.rebalance import sync_is_over
from minikafka.core.group.result import HeartbeatTimer, JoinTimer, SyncTimer
from minikafka.core.purgatory import DelayedOperation


class MemberKey(NamedTuple):
    """The only kind of key in the purgatory "Heartbeat"."""

    group_id: str
    member_id: str

    def __str__(self) -> str:
        return f"{self.group_id}-{self.member_id}"


@dataclass(frozen=True, slots=True)
class GroupJoinKey:
    group_id: str

    def __str__(self) -> str:
        return f"join-{self.group_id}"


@dataclass(frozen=True, slots=True)
class GroupSyncKey:
    group_id: str

    def __str__(self) -> str:
        return f"sync-{self.group_id}"


class GroupTimers(Protocol):
    """Hears of what is over."""

    def heartbeat_expired(self, timer: HeartbeatTimer) -> None: ...

    def join_over(self, timer: JoinTimer) -> None: ...

    def sync_expired(self, timer: SyncTimer) -> None: ...


class DelayedHeartbeat(DelayedOperation):
    """The session of a member. Completes without effect when there was a later sign of life, the
    member waits for an answer, or nobody waits for it any more (``heartbeat_is_over``, A to D).
    Otherwise the session times out at ``deadline_ms``, and the member is removed."""

    __slots__ = ("_heard", "deadline_ms", "timer")

    def __init__(self, timer: HeartbeatTimer, deadline_ms: int, heard: GroupTimers) -> None:
        super().__init__(timer.delay_ms)
        self.timer = timer
        self.deadline_ms = deadline_ms
        self._heard = heard

    def try_complete(self) -> bool:
        timer = self.timer
        over = heartbeat_is_over(timer.group, timer.member_id, timer.beat, timer.pending)
        return over and self.force_complete()

    def on_complete(self) -> None:
        """Nothing: only its expiry means something."""

    def on_expiration(self) -> None:
        self._heard.heartbeat_expired(self.timer)

    def watched_keys(self) -> Iterable[Hashable]:
        return (MemberKey(self.timer.group.group_id, self.timer.member_id),)


class DelayedJoin(DelayedOperation):
    """The joining phase of a rebalance. A. All members that are known have joined. B. The rebalance
    time-out is over: who has not joined is put out. C. The group is dead. Either way the phase is
    over."""

    __slots__ = ("_heard", "timer")

    def __init__(self, timer: JoinTimer, heard: GroupTimers) -> None:
        super().__init__(timer.delay_ms)
        self.timer = timer
        self._heard = heard

    def try_complete(self) -> bool:
        group: Group = self.timer.group
        return (group.is_dead or group.has_all_members_joined) and self.force_complete()  # C, A

    def on_complete(self) -> None:
        self._heard.join_over(self.timer)

    def on_expiration(self) -> None:
        """B: ``on_complete`` has done it."""

    def watched_keys(self) -> Iterable[Hashable]:
        return (GroupJoinKey(self.timer.group.group_id),)


class InitialDelayedJoin(DelayedJoin):
    """The joining phase of a group that was empty: it lasts ``group.initial.rebalance.delay.ms``
    whoever has joined, and on and on while new members come."""

    __slots__ = ()

    def try_complete(self) -> bool:
        return self.timer.group.is_dead and self.force_complete()


class DelayedSync(DelayedOperation):
    """Members have joined and are to sync. Completes without effect when all have, or the group has
    gone on to something else. Otherwise the rebalance time-out puts out who has not."""

    __slots__ = ("_heard", "timer")

    def __init__(self, timer: SyncTimer, heard: GroupTimers) -> None:
        super().__init__(timer.delay_ms)
        self.timer = timer
        self._heard = heard

    def try_complete(self) -> bool:
        return sync_is_over(self.timer.group, self.timer.generation_id) and self.force_complete()

    def on_complete(self) -> None:
        """Nothing: only its expiry means something."""

    def on_expiration(self) -> None:
        self._heard.sync_expired(self.timer)

    def watched_keys(self) -> Iterable[Hashable]:
        return (GroupSyncKey(self.timer.group.group_id),)
