"""Signs of life: heartbeats, sessions that expire, members that leave."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.core.group.answers import UNKNOWN_MEMBER, current_member_error
from minikafka.core.group.config import GroupConfig
from minikafka.core.group.group import Group
from minikafka.core.group.rebalance import (
    remember_eviction,
    remove_and_rebalance,
    remove_pending,
    schedule_heartbeat,
)
from minikafka.core.group.result import CoordinatorResult
from minikafka.core.group.states import GroupState
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.leave_group import MemberIdentity, MemberResponse


def heartbeat(
    group: Group,
    member_id: str,
    group_instance_id: str | None,
    generation_id: int,
    result: CoordinatorResult,
) -> ErrorCode:
    """REBALANCE_IN_PROGRESS is a sign of life, too: the member is to join again."""
    error = current_member_error(group, member_id, group_instance_id)
    if error is not None:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    schedule_heartbeat(group, group.members[member_id], result)
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def heartbeat_is_over(group: Group, member_id: str, beat: int, pending: bool) -> bool:
    """Whether a heartbeat timer has nothing to wait for any more: A. the group is dead. B. it was
    for a member to come, and that has come or gone. C. the member is gone. D. it keeps alive."""
    if group.is_dead:
        return True  # A
    if pending:
        return member_id not in group.pending_members  # B
    member = group.members.get(member_id)
    return member is None or member.keeps_alive(beat)  # C, D


def heartbeat_expired(
    group: Group,
    member_id: str,
    beat: int,
    pending: bool,
    config: GroupConfig,
    now_ms: int,
    result: CoordinatorResult,
) -> None:
    """The session time-out has passed without a sign of life."""
    if heartbeat_is_over(group, member_id, beat, pending):
        return
    if pending:
        result.note("pending_member_expired", group, member=member_id)
        remove_pending(group, member_id, result)
        return
    member = group.members[member_id]
    # Kafka's sentence: people search logs for it.
    result.note(
        f"Member {member_id} in group {group.group_id} has failed, removing it from the group",
        group,
        member=member_id,
        session_timeout_ms=member.session_timeout_ms,
    )
    remember_eviction(group, member_id, "session timed out", now_ms)
    reason = f"removing member {member_id} on heartbeat expiration"
    remove_and_rebalance(group, member, reason, config, now_ms, result)


def leave(
    group: Group,
    identities: Sequence[MemberIdentity],
    config: GroupConfig,
    now_ms: int,
    result: CoordinatorResult,
) -> list[MemberResponse]:
    """An answer for each. A static member may be named by its instance alone: so an administrator
    removes it."""
    return [
        MemberResponse(
            identity.member_id,
            identity.group_instance_id,
            _leave_one(group, identity, config, now_ms, result),
        )
        for identity in identities
    ]


def _leave_one(
    group: Group,
    identity: MemberIdentity,
    config: GroupConfig,
    now_ms: int,
    result: CoordinatorResult,
) -> ErrorCode:
    member_id: str | None = identity.member_id
    instance = identity.group_instance_id
    if member_id == UNKNOWN_MEMBER:
        member_id = None if instance is None else group.static_members.get(instance)
        if member_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id in group.pending_members:
        remove_pending(group, identity.member_id, result)
        result.note("pending_member_left", group, member=member_id)
        return ErrorCode.NONE
    else:
        error = current_member_error(group, identity.member_id, instance)
        if error is not None:
            return error
    assert member_id is not None
    reason = f"member {member_id} left (client reason: {identity.reason or 'not provided'})"
    remove_and_rebalance(group, group.members[member_id], reason, config, now_ms, result)
    result.note("member_left", group, member=member_id, reason=identity.reason or "not provided")
    return ErrorCode.NONE
