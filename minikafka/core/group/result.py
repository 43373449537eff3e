"""The results of decisions about groups: responses with the error codes that clients receive,
timers to start or check, and purposes of appends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from minikafka.core.coordinator_shard import CoordinatorAppend, CoordinatorResult, RespondError
from minikafka.core.group.consumer.group import ClassicRequest, ConsumerGroup, TopicFilter
from minikafka.core.group.group import ClassicGroupMember, Group, Protocols
from minikafka.core.group.modern.changes import GroupChanges
from minikafka.core.group.modern.group import ModernGroup
from minikafka.core.group.modern.partitions import Partitions
from minikafka.core.group.records import GroupRecord
from minikafka.core.group.share.group import ShareGroup
from minikafka.core.group.streams.group import StreamsGroup
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from minikafka.protocol.messages.join_group import JoinGroupResponse
from minikafka.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from minikafka.protocol.messages.sync_group import SyncGroupResponse

AnyGroup: TypeAlias = Group | ModernGroup

RespondHeartbeat: TypeAlias = Callable[[ConsumerGroupHeartbeatResponse], None]
RespondShareHeartbeat: TypeAlias = Callable[[ShareGroupHeartbeatResponse], None]
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


class MemberHeard(NamedTuple):
    """A member has sent a heartbeat: its session ends ``session_timeout_ms`` from now, unless it
    sends another one."""

    group: ModernGroup
    member_id: str
    session_timeout_ms: int


@dataclass(frozen=True, slots=True)
class RevocationTimer:
    """Start the time-out within which a member must revoke partitions. It has no effect once the
    member's assignment is not ``current`` any more."""

    group: ModernGroup
    member_id: str
    current: object
    delay_ms: int


@dataclass(frozen=True, slots=True)
class RequestTimer:
    """Start the time within which a member of the classic protocol in a consumer group must send a
    request. It ends without effect when the group awaits it no more, or by another timer."""

    group: ConsumerGroup
    member_id: str
    request: ClassicRequest
    delay_ms: int


@dataclass(frozen=True, slots=True)
class CheckMember:
    """A member may have left or reconciled: check its timers."""

    group: ModernGroup
    member_id: str


@dataclass(frozen=True, slots=True)
class AssignmentTimer:
    """Start the delay of the first assignment of a streams group, which waits for more members. It
    has no effect once it is not the ``delay`` of the group any more."""

    group: StreamsGroup
    delay_ms: int


ClassicTimer: TypeAlias = (
    HeartbeatTimer
    | JoinTimer
    | InitialJoinTimer
    | SyncTimer
    | CheckHeartbeat
    | CheckJoin
    | CheckSync
)


@dataclass(frozen=True, slots=True)
class ResolveRegexes:
    """Look up the topics of the regular expressions to which a group's members subscribe, among
    those that the requesting member may describe."""

    group: ConsumerGroup
    describable: TopicFilter


@dataclass(frozen=True, slots=True)
class InitializeStates:
    """Initialize states of share-partitions at the share coordinators, with ``state_epoch``."""

    group: ShareGroup
    partitions: Partitions
    state_epoch: int


MemberTimer: TypeAlias = RevocationTimer | RequestTimer | CheckMember
GroupTimer: TypeAlias = (
    ClassicTimer | MemberHeard | MemberTimer | AssignmentTimer | ResolveRegexes | InitializeStates
)

# ---- purposes of appends


@dataclass(frozen=True, slots=True)
class _GroupAppendPurpose:
    """The base class of purposes: the group to which the records belong."""

    group: AnyGroup

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

    @property
    def may_delete_group(self) -> bool:
        """Whether an empty group that is left without offsets is deleted as well. In Kafka 4 a
        request never does so; here it keeps groups of its types, which the next look for expired
        offsets deletes."""
        return self.respond is None or not isinstance(self.group, ModernGroup)


@dataclass(frozen=True, slots=True)
class GroupDeletion(_GroupAppendPurpose):
    """Delete the group with all its offsets."""

    respond: RespondError


@dataclass(frozen=True, slots=True)
class EmptyGeneration(_GroupAppendPurpose):
    """Store a generation without members."""

    group: Group


@dataclass(frozen=True, slots=True)
class AssignmentUpdate(_GroupAppendPurpose):
    """Store the assignments of a generation."""

    group: Group
    generation_id: int


@dataclass(frozen=True, slots=True)
class StaticMemberReplacement(_GroupAppendPurpose):
    """Store the new member id of a static member, without a rebalance.

    The ``old_`` fields restore the member if the append fails.
    """

    group: Group
    member: ClassicGroupMember
    member_id: str
    old_member_id: str
    old_protocols: Protocols
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    old_leader_id: str | None
    can_skip_assignment: bool


class AwaitedReply(NamedTuple):
    """A response that is sent when records are stored; ``refused`` returns the one that is sent if
    they are not."""

    respond: Callable[[Any], None]
    response: Any
    refused: Callable[[ErrorCode], Any]


G = TypeVar("G", bound=ModernGroup)


@dataclass(frozen=True, slots=True)
class ModernGroupUpdate(_GroupAppendPurpose, Generic[G]):
    """Store the changes of a ``ModernGroup``, which are applied already.

    ``replies`` are sent when the changes are replicated, and ``then`` is performed. ``replaced`` is
    the classic group whose id the group has taken, ``successor`` the classic group that has taken
    the id of this one.
    """

    group: G
    changes: GroupChanges[G]
    replies: list[AwaitedReply]
    replaced: Group | None = None
    successor: Group | None = None
    then: tuple[GroupTimer, ...] = ()


GroupAppendPurpose: TypeAlias = (
    OffsetCommit
    | OffsetDeletion
    | GroupDeletion
    | EmptyGeneration
    | AssignmentUpdate
    | StaticMemberReplacement
    | ModernGroupUpdate[Any]
)

# ---- results

T = TypeVar("T")
GroupAppend: TypeAlias = CoordinatorAppend[GroupRecord, GroupAppendPurpose]
GroupResult: TypeAlias = CoordinatorResult[T, GroupRecord, GroupAppendPurpose, GroupTimer]


UNKNOWN_MEMBER = ""  # the member id of a client that has none yet

_NOT_AVAILABLE = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
_NOT_COORDINATOR = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
_TOO_LARGE = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_FETCH_SIZE,
)


def join_error(error: ErrorCode, member_id: str = UNKNOWN_MEMBER) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id)


def join_response(
    group: Group,
    member_id: str,
    for_leader: bool,
    skip_assignment: bool = False,
    leader_id: str | None = None,
) -> JoinGroupResponse:
    """Build the JoinGroup response for the current generation.

    With ``for_leader`` it lists the members. ``leader_id`` replaces the group's leader in the
    response.
    """
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader_id or group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=group.members_for_leader() if for_leader else [],
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)


def sync_response(group: Group, member: ClassicGroupMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def group_write_error(error: ErrorCode) -> ErrorCode:
    """Map the error of a failed append of group records to the error code that members receive."""
    if error in _NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _NOT_COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    if error is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.UNKNOWN_SERVER_ERROR if error in _TOO_LARGE else error


def offset_write_error(error: ErrorCode) -> ErrorCode:
    """Map the error of a failed append of offsets to the error code that the client receives."""
    if error in _NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _NOT_COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if error in _TOO_LARGE else error


def heartbeat_error(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def share_heartbeat_error(error: KafkaError) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def update_write_error(error: ErrorCode) -> ErrorCode:
    """Map the error of a failed ``ModernGroupUpdate`` to the error code that members receive (
    Kafka's ``CoordinatorOperationExceptionHelper``)."""
    if error is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return group_write_error(error)


def current_member_error(
    group: Group, member_id: str, group_instance_id: str | None
) -> ErrorCode | None:
    """Return None for a current member, else the error code of the response.

    FENCED_INSTANCE_ID if another member has the instance id, otherwise UNKNOWN_MEMBER_ID.
    """
    if group_instance_id is not None:
        current = group.static_members.get(group_instance_id)
        if current is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if current != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return None if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
