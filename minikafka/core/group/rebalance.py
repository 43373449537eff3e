"""How a group gets from one generation to the next: the phases, and who is put out in them."""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.core.group.answers import join_answer, join_error, sync_answer, sync_error
from minikafka.core.group.config import GroupConfig
from minikafka.core.group.group import Eviction, Group
from minikafka.core.group.member import Member
from minikafka.core.group.records import GroupStored
from minikafka.core.group.result import (
    CheckHeartbeat,
    CheckJoin,
    CheckSync,
    CoordinatorResult,
    HeartbeatTimer,
    JoinTimer,
    SyncTimer,
    Write,
)
from minikafka.core.group.states import GroupState
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.offsets_log import GroupMetadataValue, MemberMetadata


@dataclass(frozen=True, slots=True)
class EmptyStored:
    """After the write: a generation without members is in the log."""


def schedule_heartbeat(
    group: Group, member: Member, result: CoordinatorResult, delay_ms: int | None = None
) -> None:
    """A sign of life: whatever timer ran is over, the next one starts."""
    member.beats += 1
    result.timers.append(
        HeartbeatTimer(
            group,
            member.member_id,
            member.beats,
            member.session_timeout_ms if delay_ms is None else delay_ms,
        )
    )


def maybe_prepare_rebalance(
    group: Group, reason: str, config: GroupConfig, now_ms: int, result: CoordinatorResult
) -> None:
    if group.can_rebalance:
        prepare_rebalance(group, reason, config, now_ms, result)


def prepare_rebalance(
    group: Group, reason: str, config: GroupConfig, now_ms: int, result: CoordinatorResult
) -> None:
    """Enter the joining phase. A group that was empty waits a while for more members to come."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS, result)
    result.timers.append(CheckSync(group))
    patience_ms = group.rebalance_timeout_ms
    timer = JoinTimer(group, patience_ms)
    if group.state is GroupState.EMPTY:
        delay_ms = config.group_initial_rebalance_delay_ms
        timer = JoinTimer(group, delay_ms, max(patience_ms - delay_ms, 0))
    group.transition_to(GroupState.PREPARING_REBALANCE, now_ms)
    result.note("rebalance_prepared", group, reason=reason, old_generation=group.generation_id)
    result.timers.append(timer)


def initial_join_over(
    group: Group, timer: JoinTimer, config: GroupConfig, now_ms: int, result: CoordinatorResult
) -> None:
    """A stretch of the initial joining phase has passed. While members keep coming there is
    another, until the rebalance time-out is used up."""
    remaining_ms = timer.remaining_ms or 0
    if group.new_member_added and remaining_ms and not group.is_dead:
        group.new_member_added = False
        delay_ms = min(config.group_initial_rebalance_delay_ms, remaining_ms)
        left_ms = max(remaining_ms - timer.delay_ms, 0)
        result.timers.append(JoinTimer(group, delay_ms, left_ms))
        return
    complete_join(group, now_ms, result)


def complete_join(group: Group, now_ms: int, result: CoordinatorResult) -> None:
    """The joining phase is over, since all have joined or time is up. Who has not joined is out,
    unless static: those may be about to come back, and are put out by their session only."""
    if group.is_dead:
        return
    for member in group.not_yet_rejoined():
        if not member.is_static:
            _evict(group, member, "did not rejoin within the rebalance timeout", now_ms, result)
    if not group.elect_joined_leader() and group.members:
        # Static members alone, and none of them there: wait until their sessions have expired.
        result.note("rebalance_without_members_postponed", group, level="error")
        result.timers.append(JoinTimer(group, group.rebalance_timeout_ms))
        return
    group.begin_generation(now_ms)
    if group.state is GroupState.EMPTY:
        result.note("group_empty", group, generation=group.generation_id)
        result.writes.append(Write(group, (stored(group),), EmptyStored()))
        return
    result.note(
        "group_stabilized", group, generation=group.generation_id, members=len(group.members)
    )
    for member in group.members.values():
        answer_join(group, member, result)
        schedule_heartbeat(group, member, result)
        member.is_new = False
    result.timers.append(SyncTimer(group, group.generation_id, group.rebalance_timeout_ms))


def answer_join(group: Group, member: Member, result: CoordinatorResult) -> None:
    """Its JoinGroup, if one waits, is answered with this generation."""
    ticket = group.take_join(member)
    if ticket is not None:
        leads = group.leader_id == member.member_id
        result.reply(ticket, join_answer(group, member.member_id, leads))


def stored(group: Group, assignments: dict[str, bytes] | None = None) -> GroupStored:
    """The record of this generation, with ``assignments`` or those that the members have."""
    protocol = group.protocol_name
    assert protocol is not None or not group.members, "members have a protocol"
    return GroupStored(
        group.group_id,
        GroupMetadataValue(
            group.protocol_type or "",
            group.generation_id,
            protocol,
            group.leader_id,
            -1 if group.state_since_ms is None else group.state_since_ms,
            [
                MemberMetadata(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    member.session_timeout_ms,
                    member.metadata(protocol or ""),
                    member.assignment if assignments is None else assignments[member.member_id],
                )
                for member in group.members.values()
            ],
        ),
    )


# -- assignments


def propagate_assignments(group: Group, result: CoordinatorResult) -> None:
    """Every SyncGroup that waits is answered. The session starts anew: a member whose session ran
    out meanwhile had its answer to wait for."""
    for member in group.members.values():
        if member.awaiting_sync is not None:
            result.reply(member.awaiting_sync, sync_answer(group, member))
            member.awaiting_sync = None
            schedule_heartbeat(group, member, result)


def reset_assignments(group: Group, error: ErrorCode, result: CoordinatorResult) -> None:
    """Nobody has anything, and every SyncGroup that waits is told why."""
    for member in group.members.values():
        member.assignment = b""
        if member.awaiting_sync is not None:
            result.reply(member.awaiting_sync, sync_error(error))
            member.awaiting_sync = None
            schedule_heartbeat(group, member, result)


# -- members that go


def remove_and_rebalance(
    group: Group,
    member: Member,
    reason: str,
    config: GroupConfig,
    now_ms: int,
    result: CoordinatorResult,
) -> None:
    """By the state that the group is in: A. Dead or Empty, nothing more. B. Stable or
    CompletingRebalance, it has to rebalance. C. PreparingRebalance, the others may be all now."""
    take_out(group, member, ErrorCode.UNKNOWN_MEMBER_ID, result)
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        maybe_prepare_rebalance(group, reason, config, now_ms, result)  # B
    elif group.state is GroupState.PREPARING_REBALANCE:
        result.timers.append(CheckJoin(group))  # C


def remove_pending(group: Group, member_id: str, result: CoordinatorResult) -> None:
    """One that was to join with the id it was given."""
    group.remove(member_id)
    result.timers.append(CheckHeartbeat(group, member_id))
    if group.state is GroupState.PREPARING_REBALANCE:
        result.timers.append(CheckJoin(group))


def take_out(group: Group, member: Member, error: ErrorCode, result: CoordinatorResult) -> None:
    """With what it waits for answered by ``error``, so that it may start over if it still lives."""
    ticket = group.take_join(member)
    if ticket is not None:
        result.reply(ticket, join_error(error))
    if member.awaiting_sync is not None:
        result.reply(member.awaiting_sync, sync_error(error))
    group.remove(member.member_id)
    result.timers.append(CheckHeartbeat(group, member.member_id))


def _evict(
    group: Group, member: Member, reason: str, now_ms: int, result: CoordinatorResult
) -> None:
    take_out(group, member, ErrorCode.UNKNOWN_MEMBER_ID, result)
    remember_eviction(group, member.member_id, reason, now_ms)
    result.note("member_removed", group, member=member.member_id, reason=reason)


def remember_eviction(group: Group, member_id: str, reason: str, now_ms: int) -> None:
    group.last_eviction = Eviction(member_id, reason, now_ms)


def sync_expired(
    group: Group, generation_id: int, config: GroupConfig, now_ms: int, result: CoordinatorResult
) -> None:
    """The rebalance time-out has passed since the members joined: who has not synced is out."""
    if sync_is_over(group, generation_id):
        return
    late = [group.members[member_id] for member_id in group.pending_sync]
    for member in late:
        _evict(group, member, "did not sync within the rebalance timeout", now_ms, result)
    reason = f"removing members that have not synced: {[m.member_id for m in late]}"
    prepare_rebalance(group, reason, config, now_ms, result)


def sync_is_over(group: Group, generation_id: int) -> bool:
    """Whether nobody's SyncGroup is waited for any more in that generation."""
    return (
        group.generation_id != generation_id
        or group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        or not group.pending_sync
    )
