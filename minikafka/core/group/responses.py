"""JoinGroup and SyncGroup responses, and the error codes that clients receive."""

from __future__ import annotations

from minikafka.core.group.group import Group
from minikafka.core.group.member import ClassicGroupMember
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.join_group import JoinGroupResponse
from minikafka.protocol.messages.sync_group import SyncGroupResponse

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
