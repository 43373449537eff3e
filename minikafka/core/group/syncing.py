"""SyncGroup: the leader's assignments go to the log first, then to the members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from minikafka.core.group.answers import (
    current_member_error,
    group_write_error,
    sync_answer,
    sync_error,
)
from minikafka.core.group.config import GroupConfig
from minikafka.core.group.group import Group
from minikafka.core.group.member import Ticket
from minikafka.core.group.rebalance import (
    maybe_prepare_rebalance,
    reset_assignments,
    schedule_heartbeat,
    stored,
)
from minikafka.core.group.result import CheckSync, CoordinatorResult, Write
from minikafka.core.group.states import GroupState
from minikafka.kernel.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class SyncFacts:
    """A SyncGroup request. ``assignments`` by member id, from the leader. The protocol is named
    from version 5 on (KIP-559)."""

    member_id: str
    group_instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    """After the write: the assignments of that generation are in the log."""

    generation_id: int


def sync(group: Group, facts: SyncFacts, ticket: Ticket, result: CoordinatorResult) -> None:
    error = _refusal(group, facts)
    if error is not None:
        result.reply(ticket, sync_error(error))
        return
    member = group.members[facts.member_id]
    group.pending_sync.pop(member.member_id, None)
    result.timers.append(CheckSync(group))
    if group.state is GroupState.STABLE:
        result.reply(ticket, sync_answer(group, member))
        schedule_heartbeat(group, member, result)
        return
    if member.awaiting_sync is not None:  # it asked again: nobody reads the first answer
        result.reply(member.awaiting_sync, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    member.awaiting_sync = ticket
    if group.leader_id == member.member_id:
        _store(group, facts.assignments, result)


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


def _store(group: Group, given: Mapping[str, bytes], result: CoordinatorResult) -> None:
    """Who has not been given anything has an empty assignment; who is no member gets none."""
    missing = [member_id for member_id in group.members if member_id not in given]
    if missing:
        result.note(
            "members_without_assignment",
            group,
            level="warning",
            members=missing,
            generation=group.generation_id,
        )
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
    result.note(
        "assignment_received",
        group,
        leader=group.leader_id,
        generation=group.generation_id,
        members=len(group.members),
        static=len(group.static_members),
    )
    record = stored(group, assignments)
    result.writes.append(Write(group, (record,), AssignmentStored(group.generation_id)))


def assignment_failed(
    group: Group,
    then: AssignmentStored,
    error: ErrorCode,
    config: GroupConfig,
    now_ms: int,
    result: CoordinatorResult,
) -> None:
    """The members are told, and have to start over; unless they have meanwhile."""
    if _is_waited_for(group, then.generation_id):
        told = group_write_error(error)
        reset_assignments(group, told, result)
        reason = f"{told.name} when storing the assignment"
        maybe_prepare_rebalance(group, reason, config, now_ms, result)


def _is_waited_for(group: Group, generation_id: int) -> bool:
    return group.state is GroupState.COMPLETING_REBALANCE and group.generation_id == generation_id
