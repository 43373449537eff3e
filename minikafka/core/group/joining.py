"""JoinGroup: who may be a member, under which id, and whether that starts a rebalance."""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.core.group.answers import (
    UNKNOWN_MEMBER,
    current_member_error,
    join_answer,
    join_error,
    sync_error,
)
from minikafka.core.group.config import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupConfig
from minikafka.core.group.group import Group
from minikafka.core.group.member import Member, Protocols, Ticket
from minikafka.core.group.rebalance import (
    maybe_prepare_rebalance,
    prepare_rebalance,
    schedule_heartbeat,
    stored,
)
from minikafka.core.group.result import (
    CheckHeartbeat,
    CheckJoin,
    CoordinatorResult,
    HeartbeatTimer,
    Write,
)
from minikafka.core.group.states import GroupState
from minikafka.kernel.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class JoinFacts:
    """A JoinGroup request. ``new_member_id``: its id if it gets one. ``must_know_id``: a dynamic
    member has to come again with its id (v4+, KIP-394). ``can_skip_assignment``: v9+ (KIP-814)."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    new_member_id: str
    must_know_id: bool = False
    can_skip_assignment: bool = False
    reason: str = "not provided"


@dataclass(frozen=True, slots=True)
class Replacement:
    """A static member under a new id, stored without a rebalance; and how it was before."""

    member: Member
    member_id: str
    old_member_id: str
    old_protocols: Protocols
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    old_leader_id: str | None
    can_skip_assignment: bool


class Joining:
    """One JoinGroup request being handled."""

    def __init__(
        self,
        group: Group,
        facts: JoinFacts,
        ticket: Ticket,
        config: GroupConfig,
        now_ms: int,
        result: CoordinatorResult,
    ) -> None:
        self._group = group
        self._facts = facts
        self._ticket = ticket
        self._config = config
        self._now_ms = now_ms
        self._result = result

    def handle(self) -> None:
        group, facts = self._group, self._facts
        if not self._has_room():
            group.remove(facts.member_id)
            self._result.timers.append(CheckHeartbeat(group, facts.member_id))
            self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER)
        elif not group.supports(facts.protocol_type, facts.protocols):
            self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, facts.member_id)
        elif facts.member_id == UNKNOWN_MEMBER:
            self._new_member()
        else:
            self._known_member()
        if group.state is GroupState.PREPARING_REBALANCE:
            self._result.timers.append(CheckJoin(group))

    def _refuse(self, error: ErrorCode, member_id: str) -> None:
        self._result.reply(self._ticket, join_error(error, member_id))

    def _has_room(self) -> bool:
        """Always in a group without members. While members join, those count that have, so that a
        group which has become too large loses those who come last. Later, all members count."""
        group, limit = self._group, self._config.group_max_size
        known = group.members.get(self._facts.member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            joined = known is not None and known.awaiting_join is not None
            return joined or group.awaiting_join < limit
        return known is not None or len(group.members) < limit

    # -- who has no id

    def _new_member(self) -> None:
        group, facts = self._group, self._facts
        instance = facts.group_instance_id
        if instance is not None:
            old_member_id = group.static_members.get(instance)
            if old_member_id is None:
                self._add(facts.new_member_id)
            else:
                self._replace(group.members[old_member_id])
        elif facts.must_know_id:
            group.pending_members[facts.new_member_id] = None
            self._result.timers.append(
                HeartbeatTimer(
                    group, facts.new_member_id, 0, facts.session_timeout_ms, pending=True
                )
            )
            self._refuse(ErrorCode.MEMBER_ID_REQUIRED, facts.new_member_id)
        else:
            self._add(facts.new_member_id)

    def _add(self, member_id: str) -> None:
        group, facts = self._group, self._facts
        member = Member(
            member_id,
            facts.group_instance_id,
            facts.client_id,
            facts.client_host,
            facts.rebalance_timeout_ms,
            facts.session_timeout_ms,
            facts.protocol_type,
            facts.protocols,
        )
        member.is_new = True
        if group.state is GroupState.PREPARING_REBALANCE and group.generation_id == 0:
            group.new_member_added = True
        group.add(member, self._ticket)
        # It does not know its id yet, so it cannot send heartbeats; and while its JoinGroup waits
        # nobody sees it disconnect. After a while it has to come again.
        schedule_heartbeat(group, member, self._result, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance(f"adding new member {member_id} (client reason: {facts.reason})")

    def _replace(self, member: Member) -> None:
        """A static member came back without its id: it takes the place it had. A. Stable, and the
        protocol stays: no rebalance, the new id is stored. B. Stable, another protocol would win:
        rebalance. C. The leader assigns to the old id right now: rebalance. D. Members join: it is
        one of them."""
        group, facts, result = self._group, self._facts, self._result
        before = Replacement(
            member,
            facts.new_member_id,
            member.member_id,
            member.protocols,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            group.leader_id,
            facts.can_skip_assignment,
        )
        self._fence(member)
        group.rename(member, facts.new_member_id)
        result.timers.append(CheckHeartbeat(group, before.old_member_id))
        result.note(
            "static_member_replaced",
            group,
            instance=facts.group_instance_id,
            old_member=before.old_member_id,
            member=facts.new_member_id,
            state=group.state.value,
        )
        group.update(member, facts.protocols, facts.rebalance_timeout_ms, facts.session_timeout_ms)
        group.await_join(member, self._ticket)
        schedule_heartbeat(group, member, result)
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
            result.writes.append(Write(group, (stored(group),), before))  # A
        elif group.state is not GroupState.PREPARING_REBALANCE:
            reason = f"static member {facts.group_instance_id} came back"
            prepare_rebalance(group, reason, self._config, self._now_ms, result)  # B, C

    def _fence(self, member: Member) -> None:
        """Who still waits under the old id is another by now."""
        ticket = self._group.take_join(member)
        if ticket is not None:
            self._result.reply(ticket, join_error(ErrorCode.FENCED_INSTANCE_ID, member.member_id))
        if member.awaiting_sync is not None:
            self._result.reply(member.awaiting_sync, sync_error(ErrorCode.FENCED_INSTANCE_ID))
            member.awaiting_sync = None

    # -- who has an id

    def _known_member(self) -> None:
        group, facts = self._group, self._facts
        if facts.member_id in group.pending_members:
            if facts.group_instance_id is None:
                self._add(facts.member_id)
            else:  # ids that wait are of dynamic members
                self._refuse(ErrorCode.UNKNOWN_MEMBER_ID, facts.member_id)
            return
        error = current_member_error(group, facts.member_id, facts.group_instance_id)
        if error is not None:
            self._refuse(error, facts.member_id)
            return
        member = group.members[facts.member_id]
        if self._has_to_rebalance(member):
            self._update(member)
        else:
            leads = group.leader_id == member.member_id
            self._result.reply(self._ticket, join_answer(group, member.member_id, leads))

    def _has_to_rebalance(self, member: Member) -> bool:
        """Not for who repeats a request whose answer got lost. A leader may ask for it: topics may
        have changed that its metadata does not show."""
        group = self._group
        if group.state is GroupState.PREPARING_REBALANCE:
            return True
        if group.state is GroupState.STABLE and group.leader_id == member.member_id:
            return True
        return member.protocols != self._facts.protocols

    def _update(self, member: Member) -> None:
        group, facts = self._group, self._facts
        group.update(member, facts.protocols, facts.rebalance_timeout_ms, facts.session_timeout_ms)
        before = group.await_join(member, self._ticket)
        if before is not None:
            self._result.reply(
                before, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            )
        self._rebalance(f"member {member.member_id} joins again (client reason: {facts.reason})")

    def _rebalance(self, reason: str) -> None:
        maybe_prepare_rebalance(self._group, reason, self._config, self._now_ms, self._result)


def replacement_stored(
    group: Group, before: Replacement, error: ErrorCode, result: CoordinatorResult
) -> None:
    """The write of a static member under its new id has ended."""
    member = before.member
    if group.members.get(before.member_id) is not member:
        return  # removed or replaced again meanwhile, which has answered its JoinGroup
    if error is not ErrorCode.NONE:
        _take_back(group, before, error, result)
    elif group.state is GroupState.STABLE:
        _answer_replacement(group, before, result)
    # Else a rebalance has begun, and it takes part in it.


def _answer_replacement(group: Group, before: Replacement, result: CoordinatorResult) -> None:
    """A leader is told to lead without assigning, where it can be told that. Otherwise that the old
    one leads: what it would assign nobody would take over now."""
    member = before.member
    ticket = group.take_join(member)
    if ticket is None:
        return
    leads = group.leader_id == member.member_id and before.can_skip_assignment
    leader_id = None if before.can_skip_assignment else before.old_leader_id
    answer = join_answer(group, member.member_id, leads, leads, leader_id)
    result.reply(ticket, answer)
    schedule_heartbeat(group, member, result)


def _take_back(
    group: Group, before: Replacement, error: ErrorCode, result: CoordinatorResult
) -> None:
    member = before.member
    new_member_id = member.member_id
    ticket = group.take_join(member)
    group.update(
        member,
        before.old_protocols,
        before.old_rebalance_timeout_ms,
        before.old_session_timeout_ms,
    )
    group.rename(member, before.old_member_id)
    result.timers.append(CheckHeartbeat(group, new_member_id))
    schedule_heartbeat(group, member, result)
    if ticket is not None:
        result.reply(ticket, join_error(error))
