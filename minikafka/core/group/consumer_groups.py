"""The consumer groups (KIP-848) of one partition of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from minikafka.core.coordinator_shard import CoordinatorAppend, CoordinatorResult
from minikafka.core.group.consumer.changes import Changes
from minikafka.core.group.consumer.config import ConsumerGroupConfig
from minikafka.core.group.consumer.group import ConsumerGroup, Resolution
from minikafka.core.group.consumer.heartbeat import (
    JOINS,
    HeartbeatFacts,
    check_request,
    fence_member,
    heartbeat,
    leave,
    update_epoch,
)
from minikafka.core.group.consumer.reconciliation import CurrentAssignment, MemberState
from minikafka.core.group.group import Group
from minikafka.core.group.records import ConsumerGroupRecord
from minikafka.core.group.result import (
    AnyGroup,
    CheckMember,
    ConsumerGroupUpdate,
    GroupResult,
    MemberHeard,
    OffsetDeletion,
    ResolveRegexes,
    RespondHeartbeat,
    RevocationTimer,
    heartbeat_error,
    update_write_error,
)
from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.consumer_group_log import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)

# Kafka's ``REGEX_BATCH_REFRESH_MIN_INTERVAL_MS``.
RESOLVE_AGAIN_MS: Final = 10_000
# Errors after which the records are in the log of the leader nevertheless.
_IN_THE_LOG: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


class ConsumerGroups:
    """The consumer groups among ``groups``, which are all groups of the shard by id.

    A decision is applied at once, and its response waits until its records are replicated: the
    next request builds on it, as in Kafka. If the log refuses the records, it is taken back.
    """

    def __init__(self, groups: dict[str, AnyGroup], config: ConsumerGroupConfig) -> None:
        self._groups = groups
        self._config = config
        # The last update of each group whose append is not settled yet.
        self._updates: dict[str, ConsumerGroupUpdate] = {}

    def clear(self) -> None:
        self._updates.clear()

    # -- the log

    def load(self, record: ConsumerGroupRecord) -> None:
        """Apply a record of a consumer group. With its last value the group goes, but for its
        offsets."""
        group_id = record.group_id
        known = self._groups.get(group_id)
        group = known
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return
            group = self._groups[group_id] = ConsumerGroup(group_id)
            group.offsets = group.offsets if known is None else known.offsets
        group.replay(record.key, record.value)
        if not group.has_records:
            offsets = group.offsets
            del self._groups[group_id]
            if not offsets.is_empty:
                self._groups[group_id] = Group(group_id, None)
                self._groups[group_id].offsets = offsets

    def settled(
        self, update: ConsumerGroupUpdate, error: ErrorCode, result: GroupResult[None]
    ) -> None:
        """Send the responses that depend on an update; if it is not in the log, take it back."""
        group = update.group
        if self._updates.get(group.group_id) is update:
            del self._updates[group.group_id]
        if error is ErrorCode.NONE:
            for respond, response in update.replies:
                result.reply(respond, response)
            return
        if error not in _IN_THE_LOG and not group.is_dead:
            update.changes.undo()
            self._restore(group, update.replaced)
            self.start_timers(group, result)
        refusal = heartbeat_error(KafkaError(update_write_error(error)))
        for respond, _ in update.replies:
            result.reply(respond, refusal)

    # -- requests

    def heartbeat(
        self,
        group_id: str,
        facts: HeartbeatFacts,
        respond: RespondHeartbeat,
        image: MetadataImage,
        now_ms: int,
    ) -> GroupResult[None]:
        """Handle a ConsumerGroupHeartbeat request. The first one of a member creates the group, in
        the place of a classic group without members."""
        result: GroupResult[None] = CoordinatorResult(None)
        try:
            check_request(facts, self._config.assignors)
            group, replaced = self._require_consumer_group(group_id, facts)
        except KafkaError as error:
            result.reply(respond, heartbeat_error(error))
            return result
        before = group.current.get(facts.member_id)
        changes = Changes(group)
        if replaced is not None:
            changes.records += replaced.tombstones()
        try:
            if facts.member_epoch < JOINS:
                response = leave(changes, facts, image)
            else:
                response = heartbeat(changes, facts, image, self._config)
        except KafkaError as error:
            changes.undo()
            self._restore(group, replaced)
            result.reply(respond, heartbeat_error(error))
            return result
        self._keep_time(group, facts, before, result)
        if _wants_resolution(group, image, now_ms):
            group.is_resolving = True
            result.effects.append(ResolveRegexes(group))
        update = ConsumerGroupUpdate(group, changes, [(respond, response)], replaced)
        self._append_update(update, result)
        return result

    def _require_consumer_group(
        self, group_id: str, facts: HeartbeatFacts
    ) -> tuple[ConsumerGroup, Group | None]:
        """Return the group, and the classic group that it replaces. Raises KafkaError:
        GROUP_ID_NOT_FOUND."""
        known = self._groups.get(group_id)
        if isinstance(known, ConsumerGroup):
            return known, None
        if facts.member_epoch != JOINS or not (known is None or known.is_vacant):
            if known is not None:
                problem = f"Group {group_id} is not a consumer group."
            elif facts.member_epoch < JOINS:
                problem = f"Group {group_id} not found."
            else:
                problem = f"Consumer group {group_id} not found."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, problem)
        group = self._groups[group_id] = ConsumerGroup(group_id)
        if known is not None:
            group.offsets = known.offsets
        return group, known

    def _restore(self, group: ConsumerGroup, replaced: Group | None) -> None:
        """Forget a group that a refused request, or a failed append, has created."""
        if self._groups.get(group.group_id) is group and not group.has_records:
            if replaced is not None:
                self._groups[group.group_id] = replaced
            elif group.is_forgettable:
                del self._groups[group.group_id]

    def _keep_time(
        self,
        group: ConsumerGroup,
        facts: HeartbeatFacts,
        before: CurrentAssignment | None,
        result: GroupResult[None],
    ) -> None:
        """Start or check the timers of a member, whose assignment was ``before``."""
        member_id = facts.member_id
        if member_id not in group.members:
            result.effects.append(CheckMember(group, member_id))
            return
        if facts.member_epoch >= JOINS:
            timeout_ms = self._config.session_timeout_ms
            result.effects.append(MemberHeard(group, member_id, timeout_ms))
        if group.current.get(member_id) is not before:
            result.effects.append(CheckMember(group, member_id))
            self._await_revocation(group, member_id, result)

    def _await_revocation(
        self, group: ConsumerGroup, member_id: str, result: GroupResult[None]
    ) -> None:
        current = group.current.get(member_id)
        if current is not None and current.state is MemberState.UNREVOKED_PARTITIONS:
            delay_ms = group.members[member_id].rebalance_timeout_ms
            result.effects.append(RevocationTimer(group, member_id, current, delay_ms))

    def _append_update(self, update: ConsumerGroupUpdate, result: GroupResult[None]) -> None:
        """Append the changes of a group. A response without changes waits for those before it."""
        records, group_id = update.changes.records, update.group.group_id
        if records:
            self._updates[group_id] = update
            result.appends.append(CoordinatorAppend(tuple(records), update))
            return
        before = self._updates.get(group_id)
        if before is not None:
            before.replies.extend(update.replies)
            return
        for respond, response in update.replies:
            result.reply(respond, response)

    def expired(
        self, group: ConsumerGroup, member_id: str, reason: str, image: MetadataImage
    ) -> GroupResult[None]:
        """Remove a member whose session, or whose time to revoke partitions, has ended."""
        result: GroupResult[None] = CoordinatorResult(None)
        if group.is_dead or member_id not in group.members:
            return result
        result.event(
            "consumer_member_failed", group=group.group_id, member=member_id, reason=reason
        )
        changes = Changes(group)
        fence_member(changes, member_id, image)
        result.effects.append(CheckMember(group, member_id))
        self._append_update(ConsumerGroupUpdate(group, changes, []), result)
        return result

    def resolved(
        self,
        group: ConsumerGroup,
        found: Mapping[str, Sequence[str]],
        image: MetadataImage,
        now_ms: int,
    ) -> GroupResult[None]:
        """Store the topics that were found in ``image`` for regular expressions, and forget
        expressions to which no member subscribes. New topics raise the group epoch."""
        result: GroupResult[None] = CoordinatorResult(None)
        group.is_resolving = False
        group.resolution = Resolution(image, now_ms)
        if group.is_dead:
            return result
        changes, in_use = Changes(group), set(group.regexes_in_use)
        for regex in sorted(in_use & found.keys()):
            known, topics = group.regexes.get(regex), sorted(found[regex])
            if known is None or known.topics != topics:
                value = ConsumerGroupRegularExpressionValue(topics, timestamp=now_ms)
                changes.write(ConsumerGroupRegularExpressionKey(group.group_id, regex), value)
        is_new = bool(changes.records)
        for regex in sorted(group.regexes.keys() - in_use):
            changes.write(ConsumerGroupRegularExpressionKey(group.group_id, regex), None)
        if is_new:
            update_epoch(changes, image, raised=True)
        self._append_update(ConsumerGroupUpdate(group, changes, []), result)
        return result

    def make_classic(self, group: ConsumerGroup, now_ms: int, result: GroupResult[None]) -> Group:
        """Replace a group without members by a classic one, which keeps its offsets."""
        new = self._groups[group.group_id] = Group(group.group_id, now_ms)
        new.offsets = group.offsets
        deletion = OffsetDeletion(group, None)
        result.appends.append(
            CoordinatorAppend(tuple(group.tombstones()), deletion, replicated=False)
        )
        return new

    # -- timers

    def start_timers(self, group: ConsumerGroup, result: GroupResult[None]) -> None:
        """Start the timers of all members: after loading, or when a change was taken back."""
        for member_id in group.members:
            if member_id not in group.deadlines:
                timeout_ms = self._config.session_timeout_ms
                result.effects.append(MemberHeard(group, member_id, timeout_ms))
            self._await_revocation(group, member_id, result)


def _wants_resolution(group: ConsumerGroup, image: MetadataImage, now_ms: int) -> bool:
    """Whether to look up the topics of a group's regular expressions: one is new, or topics may
    have changed and the last time is ``RESOLVE_AGAIN_MS`` ago."""
    in_use = group.regexes_in_use
    if group.is_resolving or not in_use:
        return False
    last = group.resolution
    if not in_use <= group.regexes.keys() or last is None:
        return True
    return last.image is not image and now_ms - last.at_ms >= RESOLVE_AGAIN_MS


def revocation_is_over(timer: RevocationTimer) -> bool:
    """Whether a member has revoked its partitions, or has left."""
    group = timer.group
    return group.is_dead or group.current.get(timer.member_id) is not timer.current
