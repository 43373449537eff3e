"""JoinGroup requests: admission of members, their member ids, and the rebalances they cause."""

from __future__ import annotations

from minikafka.core.coordinator_shard import CoordinatorAppend
from minikafka.core.group.group import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    ClassicGroupMember,
    Group,
    GroupConfig,
    GroupState,
    Protocols,
    RespondJoin,
)
from minikafka.core.group.rebalance import (
    current_assignments,
    fail_parked_requests,
    group_record,
    heartbeat_timer,
    maybe_prepare_rebalance,
    prepare_rebalance,
    session_timer,
)
from minikafka.core.group.result import (
    UNKNOWN_MEMBER,
    CheckHeartbeat,
    CheckJoin,
    GroupResult,
    HeartbeatTimer,
    StaticMemberReplacement,
    current_member_error,
    join_error,
    join_response,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class JoinFacts:
    """A JoinGroup request.

    ``new_member_id`` is the id to give to a new member. With ``must_know_id`` a new dynamic
    member has to join again with its id (version 4, KIP-394). With ``can_skip_assignment`` the
    response may exempt the leader from assigning (version 9, KIP-814).
    """

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


class Joining:
    """The handling of one JoinGroup request; ``handle`` adds replies, timers and appends to
    ``result``."""

    def __init__(
        self,
        group: Group,
        facts: JoinFacts,
        respond: RespondJoin,
        config: GroupConfig,
        now_ms: int,
        result: GroupResult[None],
    ) -> None:
        self._group = group
        self._facts = facts
        self._respond = respond
        self._config = config
        self._now_ms = now_ms
        self._result = result

    def handle(self) -> None:
        group, facts = self._group, self._facts
        if (
            facts.group_instance_id is not None
            and not self._config.inter_broker_protocol.has_static_members
        ):
            # The records of such a protocol have no instance ids: another coordinator would not
            # know the member.
            self._refuse(ErrorCode.UNSUPPORTED_VERSION, facts.member_id)
        elif not self._has_room():
            group.remove(facts.member_id)
            self._result.effects.append(CheckHeartbeat(group, facts.member_id))
            self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER)
        elif not group.supports(facts.protocol_type, facts.protocols):
            self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, facts.member_id)
        elif facts.member_id == UNKNOWN_MEMBER:
            self._new_member()
        else:
            self._known_member()
        if group.state is GroupState.PREPARING_REBALANCE:
            self._result.effects.append(CheckJoin(group))

    def _refuse(self, error: ErrorCode, member_id: str) -> None:
        self._result.reply(self._respond, join_error(error, member_id))

    def _has_room(self) -> bool:
        """Whether ``group.max.size`` admits the request.

        In the joining phase only members that have joined count, so that a group which is too
        large loses the members that join last. Otherwise all members count.
        """
        group, limit = self._group, self._config.group_max_size
        known = group.members.get(self._facts.member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            joined = known is not None and known.awaiting_join is not None
            return joined or group.awaiting_join < limit
        return known is not None or len(group.members) < limit

    # -- clients without a member id

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
            self._result.effects.append(
                HeartbeatTimer(
                    group, facts.new_member_id, 0, facts.session_timeout_ms, is_pending=True
                )
            )
            self._refuse(ErrorCode.MEMBER_ID_REQUIRED, facts.new_member_id)
        else:
            self._add(facts.new_member_id)

    def _add(self, member_id: str) -> None:
        group, facts = self._group, self._facts
        member = ClassicGroupMember(
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
        group.add(member)
        group.await_join(member, self._respond)
        # The client does not know its id yet and cannot send heartbeats, and a disconnect would not
        # be noticed while its JoinGroup is parked. So the wait for the response is bounded.
        self._result.effects.append(heartbeat_timer(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS))
        self._rebalance(f"adding new member {member_id} (client reason: {facts.reason})")

    def _replace(self, member: ClassicGroupMember) -> None:
        """Replace a static member that has restarted and joins without a member id.

        It gets a new member id and keeps its place; requests under the old id are fenced.

        A. The group is stable and the protocol stays the same: the new id is stored, no rebalance.
        B. The group is stable and another protocol wins: rebalance.
        C. The leader is assigning to the old id: rebalance.
        D. In the joining phase the member joins like any other one.
        """
        group, facts, result = self._group, self._facts, self._result
        replacement = StaticMemberReplacement(
            group,
            member,
            facts.new_member_id,
            member.member_id,
            member.protocols,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            group.leader_id,
            facts.can_skip_assignment,
        )
        fail_parked_requests(group, member, ErrorCode.FENCED_INSTANCE_ID, result)
        group.rename(member, facts.new_member_id)
        result.effects.append(CheckHeartbeat(group, replacement.old_member_id))
        result.event(
            "static_member_replaced",
            group=group.group_id,
            instance=facts.group_instance_id,
            old_member=replacement.old_member_id,
            member=facts.new_member_id,
            state=group.state.value,
        )
        group.update(member, facts.protocols, facts.rebalance_timeout_ms, facts.session_timeout_ms)
        group.await_join(member, self._respond)
        result.effects.append(session_timer(group, member))
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
            record = group_record(group, current_assignments(group))
            result.appends.append(CoordinatorAppend((record,), replacement))  # A
        elif group.state is not GroupState.PREPARING_REBALANCE:
            reason = f"static member {facts.group_instance_id} came back"
            prepare_rebalance(group, reason, self._config, self._now_ms, result)  # B, C

    # -- clients with a member id

    def _known_member(self) -> None:
        group, facts = self._group, self._facts
        if facts.member_id in group.pending_members:
            if facts.group_instance_id is None:
                self._add(facts.member_id)
            else:  # pending ids belong to dynamic members
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
            self._result.reply(self._respond, join_response(group, member.member_id, leads))

    def _has_to_rebalance(self, member: ClassicGroupMember) -> bool:
        """Whether the JoinGroup of a current member causes or joins a rebalance.

        False for a repeated request whose response was lost. The leader of a stable group may
        cause a rebalance by joining again, for example after it has seen new partitions.
        """
        group = self._group
        if group.state is GroupState.PREPARING_REBALANCE:
            return True
        if group.state is GroupState.STABLE and group.leader_id == member.member_id:
            return True
        return member.protocols != self._facts.protocols

    def _update(self, member: ClassicGroupMember) -> None:
        group, facts = self._group, self._facts
        group.update(member, facts.protocols, facts.rebalance_timeout_ms, facts.session_timeout_ms)
        before = group.await_join(member, self._respond)
        if before is not None:
            self._result.reply(
                before, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            )
        self._rebalance(f"member {member.member_id} joins again (client reason: {facts.reason})")

    def _rebalance(self, reason: str) -> None:
        maybe_prepare_rebalance(self._group, reason, self._config, self._now_ms, self._result)


def replacement_stored(
    replacement: StaticMemberReplacement, error: ErrorCode, result: GroupResult[None]
) -> None:
    """Continue after the append of a static member's new id, which has failed unless ``error``
    is NONE."""
    group, member = replacement.group, replacement.member
    if group.members.get(replacement.member_id) is not member:
        return  # it was removed or replaced meanwhile, and its JoinGroup has its response
    if error is not ErrorCode.NONE:
        _undo_replacement(replacement, error, result)
    elif group.state is GroupState.STABLE:
        _respond_to_replacement(replacement, result)
    # Otherwise a rebalance has begun, and the member takes part in it.


def _respond_to_replacement(
    replacement: StaticMemberReplacement, result: GroupResult[None]
) -> None:
    """Respond to the JoinGroup of a replaced static member. The leader must not assign again.

    The response says so from version 9 on (KIP-814). To older clients it names the old member id
    as leader, so that the client does not take itself for the leader.
    """
    group, member = replacement.group, replacement.member
    respond = group.take_join(member)
    if respond is None:
        return
    can_skip = replacement.can_skip_assignment
    leads = group.leader_id == member.member_id and can_skip
    leader_id = None if can_skip else replacement.old_leader_id
    result.reply(respond, join_response(group, member.member_id, leads, leads, leader_id))
    result.effects.append(session_timer(group, member))


def _undo_replacement(
    replacement: StaticMemberReplacement, error: ErrorCode, result: GroupResult[None]
) -> None:
    group, member = replacement.group, replacement.member
    new_member_id = member.member_id
    respond = group.take_join(member)
    group.update(
        member,
        replacement.old_protocols,
        replacement.old_rebalance_timeout_ms,
        replacement.old_session_timeout_ms,
    )
    group.rename(member, replacement.old_member_id)
    result.effects.append(CheckHeartbeat(group, new_member_id))
    result.effects.append(session_timer(group, member))
    if respond is not None:
        result.reply(respond, join_error(error))
