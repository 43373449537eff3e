"""The delayed operations of groups: session time-outs, joining phases, SyncGroup time-outs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import NamedTuple, TypeAlias, assert_never

from minikafka.core.group.consumer_groups import member_timer_is_over
from minikafka.core.group.liveness import heartbeat_is_over
from minikafka.core.group.modern.group import ModernGroup
from minikafka.core.group.rebalance import sync_is_over
from minikafka.core.group.records import GroupRecord
from minikafka.core.group.result import (
    AssignmentTimer,
    CheckHeartbeat,
    CheckJoin,
    CheckSync,
    ClassicTimer,
    GroupAppendPurpose,
    GroupTimer,
    HeartbeatTimer,
    InitializeStates,
    InitialJoinTimer,
    JoinTimer,
    MemberHeard,
    MemberTimer,
    RequestTimer,
    ResolveRegexes,
    RevocationTimer,
    SyncTimer,
)
from minikafka.core.group.shard import GroupShard
from minikafka.core.metadata_image import MetadataImage
from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock
from minikafka.server.coordinator.ports import DelayedOperationPurgatory
from minikafka.server.coordinator.runtime import CoordinatorContext

GroupContext: TypeAlias = CoordinatorContext[
    GroupShard, GroupRecord, GroupAppendPurpose, GroupTimer
]

# ---- keys


class MemberKey(NamedTuple):
    """The key of the purgatory "Heartbeat": one member of one group."""

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


@dataclass(frozen=True, slots=True)
class MemberStepKey:
    """The key of the purgatory "Rebalance" for what a member must do."""

    group_id: str
    member_id: str

    def __str__(self) -> str:
        return f"step-{self.group_id}-{self.member_id}"


# ---- operations


class DelayedHeartbeat(DelayedOperation):
    """The delayed operation for a member's session time-out.

    It completes without effect if the timer is over (``heartbeat_is_over``). Otherwise it
    expires at ``deadline_ms`` on the monotonic clock, and ``expired`` removes the member.
    """

    __slots__ = ("_expired", "deadline_ms", "timer")

    def __init__(
        self, timer: HeartbeatTimer, deadline_ms: int, expired: Callable[[HeartbeatTimer], None]
    ) -> None:
        super().__init__(timer.delay_ms)
        self.timer = timer
        self.deadline_ms = deadline_ms
        self._expired = expired

    def try_complete(self) -> bool:
        return heartbeat_is_over(self.timer) and self.force_complete()

    def on_complete(self) -> None:
        """Nothing to do: only the expiry has an effect."""

    def on_expiration(self) -> None:
        self._expired(self.timer)

    def watched_keys(self) -> Iterable[Hashable]:
        return (MemberKey(self.timer.group.group_id, self.timer.member_id),)


class DelayedJoin(DelayedOperation):
    """The delayed operation for the joining phase of a rebalance.

    When it completes, ``joined`` begins the generation:

    A. All known members have joined.
    B. The rebalance time-out has passed.
    C. The group is dead.
    """

    __slots__ = ("_joined", "timer")

    def __init__(self, timer: JoinTimer, joined: Callable[[JoinTimer], None]) -> None:
        super().__init__(timer.delay_ms)
        self.timer = timer
        self._joined = joined

    def try_complete(self) -> bool:
        group = self.timer.group
        return (group.is_dead or group.has_all_members_joined) and self.force_complete()  # C, A

    def on_complete(self) -> None:
        self._joined(self.timer)

    def on_expiration(self) -> None:
        """B. Nothing more to do: ``on_complete`` has been called."""

    def watched_keys(self) -> Iterable[Hashable]:
        return (GroupJoinKey(self.timer.group.group_id),)


class InitialDelayedJoin(DelayedOperation):
    """The delayed operation for the joining phase of an empty group.

    It lasts for its whole delay even if all known members have joined, so that the first members
    of a new group join in one generation.
    """

    __slots__ = ("_joined", "timer")

    def __init__(self, timer: InitialJoinTimer, joined: Callable[[InitialJoinTimer], None]) -> None:
        super().__init__(timer.delay_ms)
        self.timer = timer
        self._joined = joined

    def try_complete(self) -> bool:
        return self.timer.group.is_dead and self.force_complete()

    def on_complete(self) -> None:
        self._joined(self.timer)

    def on_expiration(self) -> None:
        """Nothing more to do: ``on_complete`` has been called."""

    def watched_keys(self) -> Iterable[Hashable]:
        return (GroupJoinKey(self.timer.group.group_id),)


class DelayedSync(DelayedOperation):
    """The delayed operation for the SyncGroup time-out of a generation.

    It completes without effect if all members have sent SyncGroup or the generation has ended.
    Otherwise ``expired`` removes the late members.
    """

    __slots__ = ("_expired", "timer")

    def __init__(self, timer: SyncTimer, expired: Callable[[SyncTimer], None]) -> None:
        super().__init__(timer.delay_ms)
        self.timer = timer
        self._expired = expired

    def try_complete(self) -> bool:
        return sync_is_over(self.timer.group, self.timer.generation_id) and self.force_complete()

    def on_complete(self) -> None:
        """Nothing to do: only the expiry has an effect."""

    def on_expiration(self) -> None:
        self._expired(self.timer)

    def watched_keys(self) -> Iterable[Hashable]:
        return (GroupSyncKey(self.timer.group.group_id),)


class DelayedSession(DelayedOperation):
    """The delayed operation for the session of a member.

    It completes without effect if the member has left. When it expires, ``expired`` removes the
    member, or waits on if a heartbeat has moved its deadline: a heartbeat starts no timer.
    """

    __slots__ = ("_expired", "group", "member_id")

    def __init__(
        self, group: ModernGroup, member_id: str, delay_ms: int, expired: Callable[[], None]
    ) -> None:
        super().__init__(delay_ms)
        self.group = group
        self.member_id = member_id
        self._expired = expired

    def try_complete(self) -> bool:
        gone = self.group.is_dead or self.member_id not in self.group.members
        return gone and self.force_complete()

    def on_complete(self) -> None:
        """Nothing to do: only the expiry has an effect."""

    def on_expiration(self) -> None:
        self._expired()

    def watched_keys(self) -> Iterable[Hashable]:
        return (MemberKey(self.group.group_id, self.member_id),)


class DelayedMemberStep(DelayedOperation):
    """The delayed operation for what a member must do in its rebalance time-out:
    revoke partitions, or in the classic protocol send a request.

    It completes without effect if the member has done that, or has left.
    """

    __slots__ = ("_expired", "timer")

    def __init__(
        self,
        timer: RevocationTimer | RequestTimer,
        expired: Callable[[RevocationTimer | RequestTimer], None],
    ) -> None:
        super().__init__(timer.delay_ms)
        self.timer = timer
        self._expired = expired

    def try_complete(self) -> bool:
        return member_timer_is_over(self.timer) and self.force_complete()

    def on_complete(self) -> None:
        """Nothing to do: only the expiry has an effect."""

    def on_expiration(self) -> None:
        self._expired(self.timer)

    def watched_keys(self) -> Iterable[Hashable]:
        return (MemberStepKey(self.timer.group.group_id, self.timer.member_id),)


class DelayedAssignment(DelayedOperation):
    """The delayed operation for the first assignment of a streams group: when it expires,
    ``expired`` assigns the tasks to the members that have come. Only the end of the group ends it
    earlier."""

    __slots__ = ("_expired", "timer")

    def __init__(self, timer: AssignmentTimer, expired: Callable[[AssignmentTimer], None]) -> None:
        super().__init__(timer.delay_ms)
        self.timer = timer
        self._expired = expired

    def try_complete(self) -> bool:
        return self.timer.group.is_dead and self.force_complete()

    def on_complete(self) -> None:
        """Nothing to do: only the expiry has an effect."""

    def on_expiration(self) -> None:
        self._expired(self.timer)

    def watched_keys(self) -> Iterable[Hashable]:
        return (GroupJoinKey(self.timer.group.group_id),)


# ---- carrying out


class GroupTimers:
    """The timers of groups: starts and checks the delayed operations that a GroupResult
    requires."""

    def __init__(
        self,
        clock: Clock,
        rebalances: DelayedOperationPurgatory,
        heartbeats: DelayedOperationPurgatory,
        image: Callable[[], MetadataImage],
        resolve: Callable[[GroupContext, ResolveRegexes], None],
        initialize: Callable[[GroupContext, InitializeStates], None],
    ) -> None:
        self._clock = clock
        self._rebalances = rebalances
        self._heartbeats = heartbeats
        self._image = image
        self._resolve = resolve
        self._initialize = initialize

    def perform(self, context: GroupContext, timer: GroupTimer) -> None:
        if isinstance(timer, MemberHeard):
            self._heard(context, timer)
        elif isinstance(timer, ResolveRegexes):
            self._resolve(context, timer)
        elif isinstance(timer, InitializeStates):
            self._initialize(context, timer)
        elif isinstance(timer, AssignmentTimer):
            operation = DelayedAssignment(timer, partial(_delay_over, context))
            self._rebalances.try_complete_else_watch(
                operation, [GroupJoinKey(timer.group.group_id)]
            )
        elif isinstance(timer, MemberTimer):
            self._perform_for_member(context, timer)
        else:
            self._perform_for_group(context, timer)

    def _heard(self, context: GroupContext, timer: MemberHeard) -> None:
        """Move the end of a member's session, which begins with its first heartbeat."""
        group, member_id, delay_ms = timer
        is_watched = member_id in group.deadlines
        group.deadlines[member_id] = self._clock.monotonic_ms() + delay_ms
        if not is_watched:
            self._watch_session(context, group, member_id, delay_ms)

    def _perform_for_member(self, context: GroupContext, timer: MemberTimer) -> None:
        """Start or check a timer of a member."""
        group, member_id = timer.group, timer.member_id
        if isinstance(timer, RevocationTimer | RequestTimer):
            operation = DelayedMemberStep(timer, partial(self._step_expired, context))
            key = MemberStepKey(group.group_id, member_id)
            self._rebalances.try_complete_else_watch(operation, [key])
        else:
            is_gone = group.is_dead or member_id not in group.members
            if is_gone:
                group.forget_timers(member_id)
            self._rebalances.check_and_complete(MemberStepKey(group.group_id, member_id))
            if is_gone:
                self._heartbeats.check_and_complete(MemberKey(group.group_id, member_id))

    def _watch_session(
        self, context: GroupContext, group: ModernGroup, member_id: str, delay_ms: int
    ) -> None:
        expired = partial(self._session_expired, context, group, member_id)
        operation = DelayedSession(group, member_id, delay_ms, expired)
        key = MemberKey(group.group_id, member_id)
        self._heartbeats.try_complete_else_watch(operation, [key])

    def _session_expired(self, context: GroupContext, group: ModernGroup, member_id: str) -> None:
        left_ms = group.deadlines.get(member_id, 0) - self._clock.monotonic_ms()
        if left_ms > 0 and member_id in group.members:
            self._watch_session(context, group, member_id, left_ms)
        else:
            group.deadlines.pop(member_id, None)
            self._remove_member(context, group, member_id, "its session has ended")

    def _step_expired(self, context: GroupContext, timer: RevocationTimer | RequestTimer) -> None:
        if not member_timer_is_over(timer):
            what = "revoked its partitions"
            if isinstance(timer, RequestTimer):
                what = f"sent {timer.request.value}"
            reason = f"it has not {what} within {timer.delay_ms} ms"
            self._remove_member(context, timer.group, timer.member_id, reason)

    def _remove_member(
        self, context: GroupContext, group: ModernGroup, member_id: str, reason: str
    ) -> None:
        if context.is_active:
            expired = context.shard.of_kind(group).expired
            context.run(expired(group, member_id, reason, self._image(), context.now_ms()))

    def _perform_for_group(self, context: GroupContext, timer: ClassicTimer) -> None:
        heartbeats, rebalances = self._heartbeats, self._rebalances
        group_id = timer.group.group_id
        operation: DelayedOperation
        if isinstance(timer, JoinTimer | InitialJoinTimer | SyncTimer):
            timer.group.phase_deadline_ms = self._clock.wall_ms() + timer.delay_ms
        if isinstance(timer, HeartbeatTimer):
            key = MemberKey(group_id, timer.member_id)
            if not timer.is_pending:
                heartbeats.check_and_complete(key)
            deadline_ms = self._clock.monotonic_ms() + timer.delay_ms
            member = timer.group.members.get(timer.member_id)
            if member is not None:
                member.heartbeat_deadline_ms = self._clock.wall_ms() + timer.delay_ms
            operation = DelayedHeartbeat(timer, deadline_ms, partial(_heartbeat_expired, context))
            heartbeats.try_complete_else_watch(operation, [key])
        elif isinstance(timer, JoinTimer):
            operation = DelayedJoin(timer, partial(_joined, context))
            rebalances.try_complete_else_watch(operation, [GroupJoinKey(group_id)])
        elif isinstance(timer, InitialJoinTimer):
            operation = InitialDelayedJoin(timer, partial(_joined, context))
            rebalances.try_complete_else_watch(operation, [GroupJoinKey(group_id)])
        elif isinstance(timer, SyncTimer):
            operation = DelayedSync(timer, partial(_sync_expired, context))
            rebalances.try_complete_else_watch(operation, [GroupSyncKey(group_id)])
        elif isinstance(timer, CheckHeartbeat):
            heartbeats.check_and_complete(MemberKey(group_id, timer.member_id))
        elif isinstance(timer, CheckJoin):
            rebalances.check_and_complete(GroupJoinKey(group_id))
        elif isinstance(timer, CheckSync):
            rebalances.check_and_complete(GroupSyncKey(group_id))
        else:
            assert_never(timer)


def _heartbeat_expired(context: GroupContext, timer: HeartbeatTimer) -> None:
    context.run(context.shard.heartbeat_expired(timer, context.now_ms()))


def _joined(context: GroupContext, timer: JoinTimer | InitialJoinTimer) -> None:
    context.run(context.shard.join_over(timer, context.now_ms()))


def _sync_expired(context: GroupContext, timer: SyncTimer) -> None:
    context.run(context.shard.sync_expired(timer, context.now_ms()))


def _delay_over(context: GroupContext, timer: AssignmentTimer) -> None:
    if context.is_active:
        context.run(context.shard.streams.delay_over(timer))
