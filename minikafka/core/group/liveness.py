"""Heartbeats, session time-outs, and members that leave."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.core.group.eviction import Eviction
from minikafka.core.group.group import Group, GroupConfig, GroupState
from minikafka.core.group.rebalance import (
    remove_and_rebalance,
    remove_pending,
    session_timer,
)
from minikafka.core.group.result import (
    UNKNOWN_MEMBER,
    GroupResult,
    HeartbeatTimer,
    current_member_error,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.leave_group import MemberIdentity, MemberResponse


def heartbeat(
    group: Group,
    member_id: str,
    group_instance_id: str | None,
    generation_id: int,
    result: GroupResult[None],
) -> ErrorCode:
    """Process a heartbeat and return the error code of the response.

    REBALANCE_IN_PROGRESS, on which the member joins again, also restarts the session timer.
    """
    error = current_member_error(group, member_id, group_instance_id)
    if error is not None:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    result.effects.append(session_timer(group, group.members[member_id]))
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def heartbeat_is_over(timer: HeartbeatTimer) -> bool:
    """Whether a session timer no longer has an effect.

    A. The group is dead.
    B. The pending member has joined or left.
    C. The member has left.
    D. The member is alive.
    """
    group = timer.group
    if group.is_dead:
        return True  # A
    if timer.is_pending:
        return timer.member_id not in group.pending_members  # B
    member = group.members.get(timer.member_id)
    return member is None or member.keeps_alive(timer.beat)  # C, D


def heartbeat_expired(
    timer: HeartbeatTimer, config: GroupConfig, now_ms: int, result: GroupResult[None]
) -> None:
    """Remove a member whose session timer has expired, and rebalance. No effect if the timer is
    over."""
    if heartbeat_is_over(timer):
        return
    group, member_id = timer.group, timer.member_id
    if timer.is_pending:
        result.event("pending_member_expired", group=group.group_id, member=member_id)
        remove_pending(group, member_id, result)
        return
    member = group.members[member_id]
    result.event(
        "member_failed",
        # Kafka's text, which operators search for.
        message=f"Member {member_id} in group {group.group_id} has failed, removing it from the "
        "group",
        group=group.group_id,
        member=member_id,
        session_timeout_ms=member.session_timeout_ms,
    )
    group.last_eviction = Eviction(member_id, "session timed out", now_ms)
    reason = f"removing member {member_id} on heartbeat expiration"
    remove_and_rebalance(group, member, reason, config, now_ms, result)


def leave(
    group: Group,
    identities: Sequence[MemberIdentity],
    config: GroupConfig,
    now_ms: int,
    result: GroupResult[None],
) -> list[MemberResponse]:
    """Remove the members named in a LeaveGroup request; return the response row of each.

    An administrator may name a static member by its instance id alone.
    """
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
    result: GroupResult[None],
) -> ErrorCode:
    member_id: str | None = identity.member_id
    instance = identity.group_instance_id
    if member_id == UNKNOWN_MEMBER:
        member_id = None if instance is None else group.static_members.get(instance)
        if member_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id in group.pending_members:
        remove_pending(group, identity.member_id, result)
        result.event("pending_member_left", group=group.group_id, member=member_id)
        return ErrorCode.NONE
    else:
        error = current_member_error(group, identity.member_id, instance)
        if error is not None:
            return error
    assert member_id is not None
    reason = f"member {member_id} left (client reason: {identity.reason or 'not provided'})"
    remove_and_rebalance(group, group.members[member_id], reason, config, now_ms, result)
    result.event(
        "member_left",
        group=group.group_id,
        member=member_id,
        reason=identity.reason or "not provided",
    )
    return ErrorCode.NONE
