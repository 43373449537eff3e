"""``ModernGroups``: what consumer, share and streams groups of a shard have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, ClassVar, Final, Generic

from minikafka.core.coordinator_shard import CoordinatorAppend, CoordinatorResult
from minikafka.core.group.eviction import Eviction
from minikafka.core.group.group import Group
from minikafka.core.group.modern.changes import GroupChanges
from minikafka.core.group.modern.group import ModernGroup
from minikafka.core.group.records import ModernGroupKey, ModernGroupRecord
from minikafka.core.group.result import (
    AnyGroup,
    CheckMember,
    G,
    GroupResult,
    MemberHeard,
    ModernGroupUpdate,
    OffsetDeletion,
    RevocationTimer,
    update_write_error,
)
from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.consumer_group_heartbeat import JOINS

# Errors after which the records are in the log of the leader nevertheless.
_IN_THE_LOG: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


class ModernGroups(ABC, Generic[G]):
    """The groups of one ``kind`` among ``groups``, which are all groups of the shard by id.

    A decision is applied at once, so that the next request builds on it, and its response waits
    until its records are replicated. It is undone if the append fails. As in Kafka.
    """

    KEYS: ClassVar[Collection[type[ModernGroupKey]]]
    """The keys of the records of such groups."""

    def __init__(self, kind: type[G], groups: dict[str, AnyGroup]) -> None:
        self.kind = kind
        self._groups = groups
        # The last update of each group with an append in flight.
        self._updates: dict[str, ModernGroupUpdate[G]] = {}

    # -- loading and unloading

    def load(self, record: ModernGroupRecord) -> None:
        """Apply a record of a group of this kind. Remove a group without records, unless it has
        offsets: a classic group keeps those."""
        group_id = record.group_id
        known = self._groups.get(group_id)
        group = known
        if not isinstance(group, self.kind):
            if record.value is None:
                return
            group = self._groups[group_id] = self.kind(group_id)
            group.offsets = group.offsets if known is None else known.offsets
        group.replay(record.key, record.value)
        if not group.has_records:
            offsets = group.offsets
            del self._groups[group_id]
            if not offsets.is_empty:
                self._groups[group_id] = Group(group_id, None)
                self._groups[group_id].offsets = offsets

    def unload(self, group: G, result: GroupResult[None]) -> None:
        """Mark a group as dead, which another broker coordinates from now on, and end its
        timers."""
        group.is_dead = True
        self._updates.pop(group.group_id, None)
        result.effects += (CheckMember(group, member_id) for member_id in group.members)

    # -- groups of requests

    def require(self, group_id: str) -> G:
        """Return a group. Raises KafkaError: GROUP_ID_NOT_FOUND."""
        group = self._groups.get(group_id)
        if not isinstance(group, self.kind):
            what = "not found." if group is None else f"is not a {self.kind.TYPE} group."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}")
        return group

    def of_heartbeat(self, group_id: str, member_epoch: int) -> tuple[G, Group | None]:
        """Return the group of a heartbeat, as ``require_or_create`` does: a new one if the member
        joins. A member that leaves is in a group. Raises KafkaError."""
        if member_epoch < JOINS:
            return self.require(group_id), None
        return self.require_or_create(group_id, creates=member_epoch == JOINS)

    def require_or_create(self, group_id: str, *, creates: bool) -> tuple[G, Group | None]:
        """Return a group, and the classic group whose id it takes. With ``creates`` an unknown id
        gets a new group, and so does that of a classic group which ``check_takeover`` accepts.

        Raises KafkaError: GROUP_ID_NOT_FOUND, and the errors of ``check_takeover``."""
        known = self._groups.get(group_id)
        if known is None and not creates:
            problem = f"{self.kind.TYPE.capitalize()} group {group_id} not found."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, problem)
        if isinstance(known, ModernGroup) or not creates:
            return self.require(group_id), None
        if known is not None:
            self.check_takeover(known)
        group = self._groups[group_id] = self.kind(group_id)
        if known is not None:
            group.offsets = known.offsets
        return group, known

    def check_takeover(self, classic: Group) -> None:
        """Raise KafkaError unless a new group may take the id of a classic one."""
        self.require(classic.group_id)

    # -- timers of members

    @abstractmethod
    def session_timeout_ms(self, group: G, member_id: str) -> int:
        """Return the time within which a member must send its next heartbeat."""

    def start_timers(self, group: G, result: GroupResult[None]) -> None:
        """Start the timers of all members: after loading, or when a change was taken back."""
        for member_id in group.members:
            if member_id not in group.deadlines:
                self.heard(group, member_id, result)
            self._await_revocation(group, member_id, result)

    def heard(self, group: G, member_id: str, result: GroupResult[None]) -> None:
        """Begin the session of a member again."""
        timeout_ms = self.session_timeout_ms(group, member_id)
        result.effects.append(MemberHeard(group, member_id, timeout_ms))

    def heard_in_epoch(
        self, group: G, member_id: str, epoch: int, before: object, result: GroupResult[None]
    ) -> None:
        """Start and check the timers of a member, if it is one, after a heartbeat with ``epoch``.
        Its assignment was ``before``."""
        if member_id not in group.members:
            return
        if epoch >= JOINS:
            self.heard(group, member_id, result)
        if group.current.get(member_id) is not before:
            result.effects.append(CheckMember(group, member_id))
            self._await_revocation(group, member_id, result)

    def _await_revocation(self, group: G, member_id: str, result: GroupResult[None]) -> None:
        if group.must_revoke(member_id):
            delay_ms = group.members[member_id].rebalance_timeout_ms
            current = group.current[member_id]
            result.effects.append(RevocationTimer(group, member_id, current, delay_ms))

    # -- updates

    def append(self, update: ModernGroupUpdate[G], result: GroupResult[None]) -> None:
        """Append the changes of a group. Responses without changes wait for an append in flight."""
        records, group_id = update.changes.records, update.group.group_id
        if records:
            self._updates[group_id] = update
            result.appends.append(CoordinatorAppend(tuple(records), update))
            return
        assert not update.then, "nothing begins without a change"
        before = self._updates.get(group_id)
        if before is not None:
            before.replies.extend(update.replies)
            return
        for reply in update.replies:
            result.reply(reply.respond, reply.response)

    def settled(
        self, update: ModernGroupUpdate[G], error: ErrorCode, now_ms: int, result: GroupResult[None]
    ) -> None:
        """Send the responses that depend on an update. Undo it if its append has failed."""
        group_id = update.group.group_id
        if self._updates.get(group_id) is update:
            del self._updates[group_id]
        if error is ErrorCode.NONE:
            for reply in update.replies:
                result.reply(reply.respond, reply.response)
            if not update.group.is_dead:
                result.effects += update.then
            return
        if error not in _IN_THE_LOG:
            self.take_back(update, now_ms, result)
        code = update_write_error(error)
        for reply in update.replies:
            result.reply(reply.respond, reply.refused(code))

    def take_back(
        self, update: ModernGroupUpdate[G], now_ms: int, result: GroupResult[None]
    ) -> None:
        """Undo an update that is not in the log, unless the shard was unloaded meanwhile."""
        group = update.group
        if self._groups.get(group.group_id) is group:
            update.changes.undo()
            self.restore(group, update.replaced)
            self.start_timers(group, result)

    def restore(self, group: G, replaced: Group | None) -> None:
        """Remove a group that a refused request or a failed append has created, and restore the
        classic group ``replaced``, whose id it had taken."""
        if self._groups.get(group.group_id) is group and not group.has_records:
            if replaced is not None:
                self._groups[group.group_id] = replaced
            elif group.is_forgettable:
                del self._groups[group.group_id]

    # -- members and groups that go

    def expired(
        self, group: G, member_id: str, reason: str, image: MetadataImage, now_ms: int
    ) -> GroupResult[None]:
        """Remove a member whose time-out has passed, for the ``reason`` in the event log."""
        result: GroupResult[None] = CoordinatorResult(None)
        if group.is_dead or member_id not in group.members:
            return result
        result.event("member_removed", group=group.group_id, member=member_id, reason=reason)
        group.last_eviction = Eviction(member_id, reason, now_ms)
        changes = GroupChanges(group)
        successor = self.remove(changes, [member_id], image, now_ms, result)
        self.append(ModernGroupUpdate(group, changes, [], successor=successor), result)
        return result

    @abstractmethod
    def remove(
        self,
        changes: GroupChanges[G],
        member_ids: Collection[str],
        image: MetadataImage,
        now_ms: int,
        result: GroupResult[None],
    ) -> Group | None:
        """Remove members. Return the classic group that takes the place of the group, if one does:
        it has the other members."""

    def make_classic(self, group: G, now_ms: int, result: GroupResult[None]) -> Group:
        """Replace a group without members by a classic one, which keeps its offsets."""
        new = self._groups[group.group_id] = Group(group.group_id, now_ms)
        new.offsets = group.offsets
        purpose = OffsetDeletion(group, None)
        append: CoordinatorAppend[Any, Any] = CoordinatorAppend(
            tuple(group.tombstones()), purpose, replicated=False
        )
        result.appends.append(append)
        return new
