"""The groups of one partition of ``__consumer_offsets``: requests in, records out, records in."""

from __future__ import annotations

from typing import Any

from minikafka.core.group.answers import UNKNOWN_MEMBER, join_error, offset_write_error, sync_error
from minikafka.core.group.committing import (
    CommitFacts,
    Deleted,
    OffsetsStored,
    Tombstoned,
    commit,
    expire,
)
from minikafka.core.group.config import GroupConfig
from minikafka.core.group.group import Group
from minikafka.core.group.joining import JoinFacts, Joining, Replacement, replacement_stored
from minikafka.core.group.member import Member, Ticket
from minikafka.core.group.rebalance import (
    EmptyStored,
    prepare_rebalance,
    propagate_assignments,
    schedule_heartbeat,
)
from minikafka.core.group.records import GroupRecord, GroupStored, OffsetCommitted
from minikafka.core.group.result import (
    CheckHeartbeat,
    CheckJoin,
    CheckSync,
    CoordinatorResult,
    Write,
)
from minikafka.core.group.states import GroupState
from minikafka.core.group.syncing import AssignmentStored, SyncFacts, assignment_failed, sync
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.offsets_log import GroupMetadataValue


class GroupShard:
    """``replay`` is the only way in which what the log says gets in here: record by record while
    loading, and again, once it is replicated, for each record that a request led to.

    Between that live the members' waiting requests and their phase: those are not in any record,
    and a new coordinator starts without them.
    """

    def __init__(self, config: GroupConfig) -> None:
        self.groups: dict[str, Group] = {}
        self._config = config
        self._live = False
        self._in_transactions: dict[int, dict[str, None]] = {}  # of producers: groups, in order

    # -- loading and unloading

    def replay(self, record: GroupRecord, offset: int, producer_id: int | None = None) -> None:
        """A record of the log, at ``offset``; ``producer_id`` of a transaction, if it is in one."""
        if isinstance(record, GroupStored):
            if record.value is None:
                self._forget(record.group_id)
            elif self._live:
                self._adopt(record.group_id, record.value)
            else:
                self._load(record.group_id, record.value)
            return
        group = self._group_of_offset(record)
        if group is None:
            return
        if producer_id is not None:
            group.offsets.replay_in_transaction(
                producer_id, record.topic_partition, offset, record.committed
            )
            self._follow(group, producer_id)
        elif record.committed is None:
            group.offsets.remove(record.topic_partition)
        elif self._live:
            group.offsets.complete(record.topic_partition, offset, record.committed)
        else:
            group.offsets.replay(record.topic_partition, offset, record.committed)

    def replay_end_of_transaction(self, producer_id: int, offset: int, committed: bool) -> None:
        """The marker of the log at ``offset``. A partition has as many groups as you like: those
        are looked at that the producer commits for."""
        for group_id in self._in_transactions.pop(producer_id, ()):
            group = self.groups.get(group_id)
            if group is not None:  # else all that it awaited was deleted
                group.offsets.end_transaction(producer_id, offset, committed)
                self._follow(group, producer_id)

    def _follow(self, group: Group, producer_id: int) -> None:
        """Know whether the group awaits the end of a transaction of the producer. Kafka:
        ``openGroupsForProducer``."""
        groups = self._in_transactions.setdefault(producer_id, {})
        if group.offsets.awaits(producer_id):
            groups[group.group_id] = None
        else:
            groups.pop(group.group_id, None)
        if not groups:
            del self._in_transactions[producer_id]

    def loaded(self, now_ms: int) -> CoordinatorResult:
        """The log is read: sessions start; groups that may not be so large have to rebalance."""
        result = CoordinatorResult()
        self._live = True
        for group_id, group in list(self.groups.items()):
            if group.is_forgettable and group.protocol_type is None:
                del self.groups[group_id]  # all its offsets have been deleted
                continue
            if group.state_since_ms is None and group.protocol_type is None:
                group.state_since_ms = now_ms
            if len(group.members) > self._config.group_max_size:
                reason = "the group is larger than group.max.size"
                prepare_rebalance(group, reason, self._config, now_ms, result)
            for member in group.members.values():
                schedule_heartbeat(group, member, result)
        return result

    def unloaded(self, now_ms: int) -> CoordinatorResult:
        """Another broker coordinates these now: who waits is told so."""
        result = CoordinatorResult()
        for group in self.groups.values():
            group.transition_to(GroupState.DEAD, now_ms)
            for member in group.members.values():
                ticket = group.take_join(member)
                if ticket is not None:
                    answer = join_error(ErrorCode.NOT_COORDINATOR, member.member_id)
                    result.reply(ticket, answer)
                if member.awaiting_sync is not None:
                    result.reply(member.awaiting_sync, sync_error(ErrorCode.NOT_COORDINATOR))
                    member.awaiting_sync = None
            for member_id in (*group.members, *group.pending_members):
                result.timers.append(CheckHeartbeat(group, member_id))
            result.timers += (CheckJoin(group), CheckSync(group))
        self.groups.clear()
        self._in_transactions.clear()
        return result

    def _group_of_offset(self, record: OffsetCommitted) -> Group | None:
        group = self.groups.get(record.group_id)
        if group is None and not self._live and record.committed is not None:
            group = self.groups[record.group_id] = Group(record.group_id, None)
        return group

    def _load(self, group_id: str, value: GroupMetadataValue) -> None:
        since_ms = value.current_state_timestamp
        group = Group(group_id, None if since_ms == -1 else since_ms)
        group.generation_id = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        for stored in value.members:
            group.add(
                Member(
                    stored.member_id,
                    stored.group_instance_id,
                    stored.client_id,
                    stored.client_host,
                    stored.rebalance_timeout,
                    stored.session_timeout,
                    value.protocol_type,
                    ((value.protocol or "", stored.subscription),),
                    stored.assignment,
                )
            )
        group.leader_id = value.leader or group.leader_id
        group.state = GroupState.STABLE if group.members else GroupState.EMPTY
        group.learn_subscriptions()
        known = self.groups.get(group_id)
        if known is not None:
            group.offsets = known.offsets
        self.groups[group_id] = group

    def _adopt(self, group_id: str, value: GroupMetadataValue) -> None:
        """A generation that was written here is replicated. Without effect where the group has
        gone on meanwhile."""
        group = self.groups.get(group_id)
        if group is None or group.generation_id != value.generation:
            return
        if group.state is GroupState.COMPLETING_REBALANCE:
            for stored in value.members:
                member = group.members.get(stored.member_id)
                if member is not None:
                    member.assignment = stored.assignment

    def _forget(self, group_id: str) -> None:
        """The group's own record is deleted; its offsets have records of their own."""
        if not self._live:
            known = self.groups.pop(group_id, None)
            if known is not None and not known.offsets.is_empty:
                group = self.groups[group_id] = Group(group_id, None)
                group.offsets = known.offsets

    # -- requests

    def join(
        self, group_id: str, facts: JoinFacts, ticket: Ticket, now_ms: int
    ) -> CoordinatorResult:
        """A group begins with the first who asks to join it."""
        result = CoordinatorResult()
        group = self.groups.get(group_id)
        if group is None:
            if facts.member_id != UNKNOWN_MEMBER:
                unknown = join_error(ErrorCode.UNKNOWN_MEMBER_ID, facts.member_id)
                result.reply(ticket, unknown)
                return result
            group = self.groups[group_id] = Group(group_id, now_ms)
        Joining(group, facts, ticket, self._config, now_ms, result).handle()
        if group.is_forgettable and group.generation_id == 0:
            del self.groups[group_id]  # it began with a request that was refused
        return result

    def sync(self, group_id: str, facts: SyncFacts, ticket: Ticket) -> CoordinatorResult:
        result = CoordinatorResult()
        group = self.groups.get(group_id)
        if group is None:
            result.reply(ticket, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            sync(group, facts, ticket, result)
        return result

    def commit(
        self, group_id: str, facts: CommitFacts, ticket: Ticket, now_ms: int
    ) -> CoordinatorResult:
        """A group may begin with the first commit of somebody who assigns partitions himself."""
        result = CoordinatorResult()
        group = self.groups.get(group_id)
        if group is None:
            if facts.generation_id >= 0:
                error = ErrorCode.ILLEGAL_GENERATION
                if facts.transaction is not None:
                    error = ErrorCode.UNKNOWN_MEMBER_ID
                result.reply(ticket, dict.fromkeys(facts.offsets, error))
                return result
            group = self.groups[group_id] = Group(group_id, now_ms)
        commit(group, facts, ticket, self._config, result)
        if facts.transaction is not None:
            self._follow(group, facts.transaction.producer_id)
        return result

    def expire(self, group: Group, now_ms: int) -> tuple[CoordinatorResult, int]:
        """As ``committing.expire``."""
        result = CoordinatorResult()
        return result, expire(group, self._config, now_ms, result)

    # -- after the write

    def settle(
        self, write: Write, error: ErrorCode, base_offset: int, now_ms: int
    ) -> CoordinatorResult:
        """The records of ``write`` are in the log from ``base_offset`` on, or ``error`` says why
        not; after REQUEST_TIMED_OUT nobody knows."""
        result = CoordinatorResult()
        group, then = write.group, write.then
        if error is ErrorCode.NONE and not group.is_dead:
            producer_id = None if write.transaction is None else write.transaction.producer_id
            for record in write.records:
                self.replay(record, base_offset, producer_id)
        self._settled(group, then, write, error, now_ms, result)
        return result

    def _settled(
        self,
        group: Group,
        then: Any,
        write: Write,
        error: ErrorCode,
        now_ms: int,
        result: CoordinatorResult,
    ) -> None:
        failed = error is not ErrorCode.NONE
        if isinstance(then, OffsetsStored):
            self._take_back_offsets(group, write, failed)
            told = offset_write_error(error)
            result.reply(then.ticket, {tp: code or told for tp, code in then.errors.items()})
        elif isinstance(then, AssignmentStored):
            if failed:
                assignment_failed(group, then, error, self._config, now_ms, result)
            elif (
                group.state is GroupState.COMPLETING_REBALANCE
                and group.generation_id == then.generation_id
            ):
                propagate_assignments(group, result)
                group.transition_to(GroupState.STABLE, now_ms)
        elif isinstance(then, Replacement):
            replacement_stored(group, then, error, result)
        elif isinstance(then, Tombstoned):
            if not failed and group.is_forgettable:
                self._delete(group, now_ms, result)
            if then.ticket is not None:
                result.reply(then.ticket, offset_write_error(error))
        elif isinstance(then, Deleted):
            told = offset_write_error(error)
            if not failed and group.state is GroupState.EMPTY:
                self._delete(group, now_ms, result)
            elif not failed and not group.is_dead:
                told = ErrorCode.NON_EMPTY_GROUP  # somebody came while it was written
            result.reply(then.ticket, told)
        else:
            assert isinstance(then, EmptyStored)
            if failed:  # the generation before would come back, and its members time out
                result.note("empty_group_not_stored", group, level="warning", error=error.name)

    def _delete(self, group: Group, now_ms: int, result: CoordinatorResult) -> None:
        group.transition_to(GroupState.DEAD, now_ms)
        self.groups.pop(group.group_id, None)
        result.timers += (CheckHeartbeat(group, member_id) for member_id in group.pending_members)

    def _take_back_offsets(self, group: Group, write: Write, failed: bool) -> None:
        """They are not on their way any more."""
        transaction = write.transaction
        for record in write.records:
            if not isinstance(record, OffsetCommitted) or record.committed is None:
                continue
            if transaction is not None:
                group.offsets.leave_way(transaction.producer_id, record.topic_partition)
            elif failed:
                group.offsets.fail(record.topic_partition, record.committed)
        if transaction is not None and not group.is_dead:
            self._follow(group, transaction.producer_id)
