"""SyncGroup requests: the leader's assignments are stored in the log, then sent to the members."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.core.coordinator_shard import CoordinatorAppend
from minikafka.core.group.config import GroupConfig
from minikafka.core.group.group import Group, GroupState
from minikafka.core.group.member import RespondSync
from minikafka.core.group.rebalance import (
    group_record,
    maybe_prepare_rebalance,
    propagate_assignments,
    reset_assignments,
    session_timer,
)
from minikafka.core.group.responses import (
    current_member_error,
    group_write_error,
    sync_error,
    sync_response,
)
from minikafka.core.group.result import AssignmentUpdate, CheckSync, GroupResult
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass


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
