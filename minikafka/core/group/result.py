"""The effects of decisions about groups: timers to start or check, and purposes of appends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from minikafka.core.coordinator_shard import (
    CoordinatorAppend,
    CoordinatorResult,
    RespondError,
)
from minikafka.core.group.group import Group
from minikafka.core.group.member import ClassicGroupMember, Protocols
from minikafka.core.group.records import GroupRecord
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass

RespondOffsets: TypeAlias = Callable[[Mapping[TopicPartition, ErrorCode]], None]

# ---- timers


@dataclass(frozen=True, slots=True)
class HeartbeatTimer:
    """Start the session timer of a member, in place of its running one.

    ``beat`` is the member's count of heartbeats so far. ``is_pending``: the member has received
    an id and has not yet joined with it; it has no heartbeats.
    """

    group: Group
    member_id: str
    beat: int
    delay_ms: int
    is_pending: bool = False


@dataclass(frozen=True, slots=True)
class JoinTimer:
    """Start the joining phase of a rebalance, which ends after ``delay_ms`` at the latest."""

    group: Group
    delay_ms: int


@dataclass(frozen=True, slots=True)
class InitialJoinTimer:
    """Start the joining phase of an empty group, which lasts ``delay_ms``.

    If members join during the delay, it is extended by up to ``remaining_ms`` in total.
    """

    group: Group
    delay_ms: int
    remaining_ms: int


@dataclass(frozen=True, slots=True)
class SyncTimer:
    """Start the time-out for the SyncGroup requests of a generation."""

    group: Group
    generation_id: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class CheckHeartbeat:
    """A member may have left: check its session timer."""

    group: Group
    member_id: str


@dataclass(frozen=True, slots=True)
class CheckJoin:
    """A member has joined or left: check whether the joining phase is complete."""

    group: Group


@dataclass(frozen=True, slots=True)
class CheckSync:
    """A member has synced, or the generation has ended: check the SyncGroup time-out."""

    group: Group


GroupTimer: TypeAlias = (
    HeartbeatTimer
    | JoinTimer
    | InitialJoinTimer
    | SyncTimer
    | CheckHeartbeat
    | CheckJoin
    | CheckSync
)

# ---- purposes of appends


@dataclass(frozen=True, slots=True)
class _GroupAppendPurpose:
    """The base class of purposes: the group to which the records belong."""

    group: Group

    def event_facts(self) -> dict[str, Any]:
        return {"group": self.group.group_id}


@dataclass(frozen=True, slots=True)
class OffsetCommit(_GroupAppendPurpose):
    """Commit offsets.

    ``errors`` has the error or NONE of every partition in the request; the append contains those
    with NONE.
    """

    respond: RespondOffsets
    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class OffsetDeletion(_GroupAppendPurpose):
    """Delete offsets. ``respond`` is None if they have expired or their topics were deleted."""

    respond: RespondError | None


@dataclass(frozen=True, slots=True)
class GroupDeletion(_GroupAppendPurpose):
    """Delete the group with all its offsets."""

    respond: RespondError


@dataclass(frozen=True, slots=True)
class EmptyGeneration(_GroupAppendPurpose):
    """Store a generation without members."""


@dataclass(frozen=True, slots=True)
class AssignmentUpdate(_GroupAppendPurpose):
    """Store the assignments of a generation."""

    generation_id: int


@dataclass(frozen=True, slots=True)
class StaticMemberReplacement(_GroupAppendPurpose):
    """Store the new member id of a static member, without a rebalance.

    The ``old_`` fields restore the member if the append fails.
    """

    member: ClassicGroupMember
    member_id: str
    old_member_id: str
    old_protocols: Protocols
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    old_leader_id: str | None
    can_skip_assignment: bool


GroupAppendPurpose: TypeAlias = (
    OffsetCommit
    | OffsetDeletion
    | GroupDeletion
    | EmptyGeneration
    | AssignmentUpdate
    | StaticMemberReplacement
)

# ---- results

T = TypeVar("T")
GroupAppend: TypeAlias = CoordinatorAppend[GroupRecord, GroupAppendPurpose]
GroupResult: TypeAlias = CoordinatorResult[T, GroupRecord, GroupAppendPurpose, GroupTimer]
