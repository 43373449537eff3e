"""Rebalances: the joining phase, the SyncGroup phase, in which the leader's assignments are stored
in the log, and the removal of members.
"""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.core.coordinator_shard import CoordinatorAppend
from minikafka.core.group.eviction import Eviction
from minikafka.core.group.group import (
    ClassicGroupMember,
    Group,
    GroupConfig,
    GroupState,
    RespondSync,
)
from minikafka.core.group.records import GroupStored
from minikafka.core.group.result import (
    AssignmentUpdate,
    CheckHeartbeat,
    CheckJoin,
    CheckSync,
    EmptyGeneration,
    GroupResult,
    HeartbeatTimer,
    InitialJoinTimer,
    JoinTimer,
    SyncTimer,
    current_member_error,
    group_write_error,
    join_error,
    join_response,
    sync_error,
    sync_response,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.offsets_log import GroupMetadataValue, MemberMetadata


def session_timer(group: Group, member: ClassicGroupMember) -> HeartbeatTimer:
    """Count a heartbeat of the member, and return the timer of its next session time-out."""
    return heartbeat_timer(group, member, member.session_timeout_ms)


def heartbeat_timer(group: Group, member: ClassicGroupMember, delay_ms: int) -> HeartbeatTimer:
    """Count a heartbeat of the member, and return a timer that expires unless another heartbeat
    comes within ``delay_ms``."""
    member.beats += 1
    return HeartbeatTimer(group, member.member_id, member.beats, delay_ms)


# -- the joining phase


def maybe_prepare_rebalance(
    group: Group, reason: str, config: GroupConfig, now_ms: int, result: GroupResult[None]
) -> None:
    """Begin a rebalance unless one has begun already or the group is dead."""
    if group.can_rebalance:
        prepare_rebalance(group, reason, config, now_ms, result)


def prepare_rebalance(
    group: Group, reason: str, config: GroupConfig, now_ms: int, result: GroupResult[None]
) -> None:
    """Enter the joining phase. For an empty group it lasts a fixed delay, so that others can
    join."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS, result)
    result.effects.append(CheckSync(group))
    timeout_ms = group.rebalance_timeout_ms
    timer: JoinTimer | InitialJoinTimer = JoinTimer(group, timeout_ms)
    if group.state is GroupState.EMPTY:
        delay_ms = config.group_initial_rebalance_delay_ms
        timer = InitialJoinTimer(group, delay_ms, max(timeout_ms - delay_ms, 0))
    group.transition_to(GroupState.PREPARING_REBALANCE, now_ms)
    result.event(
        "rebalance_prepared",
        group=group.group_id,
        reason=reason,
        old_generation=group.generation_id,
    )
    result.effects.append(timer)


def initial_join_over(
    group: Group,
    timer: InitialJoinTimer,
    config: GroupConfig,
    now_ms: int,
    result: GroupResult[None],
) -> None:
    """Process the end of an empty group's initial delay (``group.initial.rebalance.delay.ms``).

    If members have joined during the delay, wait for another one, up to the rebalance time-out
    in total. Otherwise complete the joining phase.
    """
    remaining_ms = timer.remaining_ms
    if group.new_member_added and remaining_ms and not group.is_dead:
        group.new_member_added = False
        delay_ms = min(config.group_initial_rebalance_delay_ms, remaining_ms)
        left_ms = max(remaining_ms - timer.delay_ms, 0)
        result.effects.append(InitialJoinTimer(group, delay_ms, left_ms))
        return
    complete_join(group, now_ms, result)


def complete_join(group: Group, now_ms: int, result: GroupResult[None]) -> None:
    """Complete the joining phase and begin the next generation.

    All members have joined, or the rebalance time-out has passed. Dynamic members that have not
    joined are removed. Static members stay until their session times out, since they may come
    back.
    """
    if group.is_dead:
        return
    for member in group.not_yet_rejoined():
        if not member.is_static:
            _evict(group, member, "did not rejoin within the rebalance timeout", now_ms, result)
    if not group.elect_joined_leader() and group.members:
        # All members are static and none has joined: wait until their sessions have timed out.
        result.event("rebalance_without_members_postponed", level="error", group=group.group_id)
        result.effects.append(JoinTimer(group, group.rebalance_timeout_ms))
        return
    group.begin_generation(now_ms)
    if group.state is GroupState.EMPTY:
        result.event("group_emptied", group=group.group_id, generation=group.generation_id)
        record = group_record(group, current_assignments(group))
        result.appends.append(CoordinatorAppend((record,), EmptyGeneration(group)))
        return
    result.event(
        "group_stabilized",
        group=group.group_id,
        generation=group.generation_id,
        members=len(group.members),
    )
    for member in group.members.values():
        respond = group.take_join(member)
        if respond is not None:
            leads = group.leader_id == member.member_id
            result.reply(respond, join_response(group, member.member_id, leads))
        result.effects.append(session_timer(group, member))
        member.is_new = False
    result.effects.append(SyncTimer(group, group.generation_id, group.rebalance_timeout_ms))


# -- the record of a generation


def current_assignments(group: Group) -> dict[str, bytes]:
    """Return the assignments by member id."""
    return {member.member_id: member.assignment for member in group.members.values()}


def group_record(group: Group, assignments: dict[str, bytes]) -> GroupStored:
    """Return the record of the current generation. ``assignments`` has every member."""
    protocol = group.protocol_name
    assert protocol is not None or not group.members, "members have a protocol"
    assert assignments.keys() == group.members.keys()
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
                    assignments[member.member_id],
                )
                for member in group.members.values()
            ],
        ),
    )


# -- assignments


def propagate_assignments(group: Group, result: GroupResult[None]) -> None:
    """Respond to every parked SyncGroup with the member's assignment.

    Each response restarts the member's session timer, which may have expired while the request
    was parked.
    """
    for member in group.members.values():
        if member.awaiting_sync is not None:
            result.reply(member.awaiting_sync, sync_response(group, member))
            member.awaiting_sync = None
            result.effects.append(session_timer(group, member))


def reset_assignments(group: Group, error: ErrorCode, result: GroupResult[None]) -> None:
    """Clear all assignments and fail every parked SyncGroup with ``error``."""
    for member in group.members.values():
        member.assignment = b""
        if member.awaiting_sync is not None:
            result.reply(member.awaiting_sync, sync_error(error))
            member.awaiting_sync = None
            result.effects.append(session_timer(group, member))


# -- removal of members


def remove_and_rebalance(
    group: Group,
    member: ClassicGroupMember,
    reason: str,
    config: GroupConfig,
    now_ms: int,
    result: GroupResult[None],
) -> None:
    """Remove a member, then continue depending on the state of the group.

    A. Dead or Empty: nothing.
    B. Stable or CompletingRebalance: rebalance.
    C. PreparingRebalance: check whether all remaining members have joined.
    """
    fail_and_remove(group, member, ErrorCode.UNKNOWN_MEMBER_ID, result)
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        maybe_prepare_rebalance(group, reason, config, now_ms, result)  # B
    elif group.state is GroupState.PREPARING_REBALANCE:
        result.effects.append(CheckJoin(group))  # C


def remove_pending(group: Group, member_id: str, result: GroupResult[None]) -> None:
    """Remove a pending member; in the joining phase check whether all members have joined."""
    group.remove(member_id)
    result.effects.append(CheckHeartbeat(group, member_id))
    if group.state is GroupState.PREPARING_REBALANCE:
        result.effects.append(CheckJoin(group))


def fail_parked_requests(
    group: Group, member: ClassicGroupMember, error: ErrorCode, result: GroupResult[None]
) -> None:
    """Respond to the member's parked JoinGroup and SyncGroup with ``error``."""
    respond_join = group.take_join(member)
    if respond_join is not None:
        result.reply(respond_join, join_error(error, member.member_id))
    if member.awaiting_sync is not None:
        result.reply(member.awaiting_sync, sync_error(error))
        member.awaiting_sync = None


def fail_and_remove(
    group: Group, member: ClassicGroupMember, error: ErrorCode, result: GroupResult[None]
) -> None:
    """Remove a member after failing its parked requests with ``error``.

    The JoinGroup response contains no member id, so that the client joins again as a new member.
    """
    assert group.members.get(member.member_id) is member, "a member is removed once"
    respond_join = group.take_join(member)
    if respond_join is not None:
        result.reply(respond_join, join_error(error))
    fail_parked_requests(group, member, error, result)
    group.remove(member.member_id)
    result.effects.append(CheckHeartbeat(group, member.member_id))


def _evict(
    group: Group, member: ClassicGroupMember, reason: str, now_ms: int, result: GroupResult[None]
) -> None:
    fail_and_remove(group, member, ErrorCode.UNKNOWN_MEMBER_ID, result)
    group.last_eviction = Eviction(member.member_id, reason, now_ms)
    result.event("member_removed", group=group.group_id, member=member.member_id, reason=reason)


# -- the SyncGroup time-out


def sync_expired(
    group: Group, generation_id: int, config: GroupConfig, now_ms: int, result: GroupResult[None]
) -> None:
    """Remove the members that have not sent SyncGroup within the rebalance time-out, and
    rebalance.

    No effect if the generation no longer waits for SyncGroup.
    """
    if sync_is_over(group, generation_id):
        return
    late = [group.members[member_id] for member_id in group.pending_sync]
    for member in late:
        _evict(group, member, "did not sync within the rebalance timeout", now_ms, result)
    reason = f"removing members that have not synced: {[m.member_id for m in late]}"
    prepare_rebalance(group, reason, config, now_ms, result)


def sync_is_over(group: Group, generation_id: int) -> bool:
    """Whether the coordinator no longer waits for SyncGroup requests of that generation."""
    return (
        group.generation_id != generation_id
        or group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        or not group.pending_sync
    )


@dataclass(frozen=True, slots=True)
class SyncFacts:
    """A SyncGroup request.

    Only the leader sends ``assignments``, by member id. The protocol fields are None before
    version 5 (KIP-559).
    """

    member_id: str
    group_instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


def sync(group: Group, facts: SyncFacts, respond: RespondSync, result: GroupResult[None]) -> None:
    """Handle a SyncGroup request. It is parked until the assignments are stored.

    In a stable group, which has stored them, the response is immediate.
    """
    error = _refusal(group, facts)
    if error is not None:
        result.reply(respond, sync_error(error))
        return
    member = group.members[facts.member_id]
    group.pending_sync.pop(member.member_id, None)
    result.effects.append(CheckSync(group))
    if group.state is GroupState.STABLE:
        result.reply(respond, sync_response(group, member))
        result.effects.append(session_timer(group, member))
        return
    if member.awaiting_sync is not None:  # a repeated request replaces the parked one
        result.reply(member.awaiting_sync, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    member.awaiting_sync = respond
    if group.leader_id == member.member_id:
        _store_assignments(group, facts.assignments, result)


def _refusal(group: Group, facts: SyncFacts) -> ErrorCode | None:
    error = current_member_error(group, facts.member_id, facts.group_instance_id)
    if error is not None:
        return error
    if facts.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    for named, chosen in (
        (facts.protocol_type, group.protocol_type),
        (facts.protocol_name, group.protocol_name),
    ):
        if named is not None and named != chosen:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return None


def _store_assignments(
    group: Group, assignments_by_leader: Mapping[str, bytes], result: GroupResult[None]
) -> None:
    """Append the leader's assignments.

    A member that the leader left out gets an empty assignment. Assignments for unknown member
    ids are dropped.
    """
    missing = [member_id for member_id in group.members if member_id not in assignments_by_leader]
    if missing:
        result.event(
            "assignments_left_empty",
            group=group.group_id,
            level="warning",
            members=missing,
            generation=group.generation_id,
        )
    assignments = {
        member_id: assignments_by_leader.get(member_id, b"") for member_id in group.members
    }
    result.event(
        "assignment_received",
        group=group.group_id,
        leader=group.leader_id,
        generation=group.generation_id,
        members=len(group.members),
        static=len(group.static_members),
    )
    record = group_record(group, assignments)
    purpose = AssignmentUpdate(group, group.generation_id)
    result.appends.append(CoordinatorAppend((record,), purpose))


def assignments_stored(
    update: AssignmentUpdate,
    error: ErrorCode,
    config: GroupConfig,
    now_ms: int,
    result: GroupResult[None],
) -> None:
    """Continue after the append of the assignments, which has failed unless ``error`` is NONE.

    After a success respond to the parked SyncGroup requests; after a failure fail them and
    rebalance. No effect if the group has begun another rebalance in the meantime.
    """
    group = update.group
    if (
        group.state is not GroupState.COMPLETING_REBALANCE
        or group.generation_id != update.generation_id
    ):
        return
    if error is ErrorCode.NONE:
        propagate_assignments(group, result)
        group.transition_to(GroupState.STABLE, now_ms)
        return
    code = group_write_error(error)
    reset_assignments(group, code, result)
    reason = f"{code.name} when storing the assignment"
    maybe_prepare_rebalance(group, reason, config, now_ms, result)
