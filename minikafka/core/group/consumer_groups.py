"""The consumer groups (KIP-848) of one partition of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from minikafka.core.coordinator_shard import CoordinatorResult
from minikafka.core.group.consumer.classic_members import (
    admit,
    check_protocols,
    find_leaving,
    join_accepted,
    must_rejoin,
    require_classic,
    session_timeout_of,
    subscribe,
    sync,
)
from minikafka.core.group.consumer.config import ConsumerGroupConfig
from minikafka.core.group.consumer.embedded import partitions_by_id, read_subscription
from minikafka.core.group.consumer.group import ClassicRequest, ConsumerGroup, Resolution
from minikafka.core.group.consumer.heartbeat import (
    HeartbeatFacts,
    assign_if_due,
    check_request,
    fence_members,
    heartbeat,
    leave_for_now,
    reconcile_member,
    refresh_epoch,
    require_member,
    update_epoch,
)
from minikafka.core.group.conversion import (
    can_downgrade,
    can_downgrade_for,
    check_upgrade,
    downgrade,
    retire,
    revived,
    upgrade,
)
from minikafka.core.group.group import Group, GroupConfig, RespondJoin, RespondSync
from minikafka.core.group.joining import JoinFacts
from minikafka.core.group.modern.admission import check_room
from minikafka.core.group.modern.changes import GroupChanges
from minikafka.core.group.modern_groups import ModernGroups
from minikafka.core.group.rebalance import SyncFacts, prepare_rebalance, session_timer
from minikafka.core.group.records import ModernGroupKey
from minikafka.core.group.result import (
    UNKNOWN_MEMBER,
    AnyGroup,
    AwaitedReply,
    CheckMember,
    GroupResult,
    MemberHeard,
    ModernGroupUpdate,
    RequestTimer,
    ResolveRegexes,
    RespondHeartbeat,
    RevocationTimer,
    heartbeat_error,
    join_error,
    sync_error,
)
from minikafka.core.group.settings import SettingsOf
from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.codec import DecodeError
from minikafka.protocol.messages.consumer_group_heartbeat import (
    LEAVES,
    LEAVES_FOR_NOW,
    ConsumerGroupHeartbeatResponse,
)
from minikafka.protocol.messages.consumer_group_log import (
    CONSUMER_GROUP_RECORDS,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from minikafka.protocol.messages.leave_group import MemberIdentity, MemberResponse

# Kafka's ``REGEX_BATCH_REFRESH_MIN_INTERVAL_MS``.
RESOLVE_AGAIN_MS: Final = 10_000


class ConsumerGroups(ModernGroups[ConsumerGroup]):
    """The consumer groups among ``groups``, which are all groups of the shard by id."""

    KEYS: ClassVar[Collection[type[ModernGroupKey]]] = tuple(
        key for key, _ in CONSUMER_GROUP_RECORDS
    )

    def __init__(
        self, groups: dict[str, AnyGroup], config: GroupConfig, settings: SettingsOf
    ) -> None:
        super().__init__(ConsumerGroup, groups)
        self._config = config
        self._settings = settings

    def _config_of(self, group_id: str) -> ConsumerGroupConfig:
        """Return the configuration with the group's own settings."""
        settings, config = self._settings(group_id), self._config.consumer
        return config if settings is None else settings.of_consumers(config)

    def take_back(
        self,
        update: ModernGroupUpdate[ConsumerGroup],
        now_ms: int,
        result: GroupResult[None],
    ) -> None:
        """Undo an update that is not in the log, also a change of the protocol."""
        name, replaced, successor = update.group.group_id, update.replaced, update.successor
        if successor is not None and self._groups.get(name) is successor:
            self._groups[name] = update.group
            retire(successor, ErrorCode.NOT_COORDINATOR, now_ms, result)
        is_there = self._groups.get(name) is update.group
        if is_there and replaced is not None and replaced.is_dead:
            update = replace(update, replaced=revived(replaced, self._config, now_ms, result))
        super().take_back(update, now_ms, result)

    # -- requests

    def heartbeat(
        self,
        group_id: str,
        facts: HeartbeatFacts,
        respond: RespondHeartbeat,
        image: MetadataImage,
        now_ms: int,
    ) -> GroupResult[None]:
        """Handle a ConsumerGroupHeartbeat request. The first one of a member creates the group, or
        takes the place of a classic group, with its members if it has some."""
        result: GroupResult[None] = CoordinatorResult(None)
        try:
            check_request(facts, self._config.consumer.assignors)
            group, replaced = self.of_heartbeat(group_id, facts.member_epoch)
        except KafkaError as error:
            result.reply(respond, heartbeat_error(error))
            return result
        before = group.current.get(facts.member_id)
        changes, successor = GroupChanges(group), None
        try:
            if replaced is not None:
                self._take_over(changes, replaced, image)
            if facts.member_epoch == LEAVES:
                require_member(group, facts.member_id, facts.instance_id)
                successor = self.remove(changes, [facts.member_id], image, now_ms, result)
                response = ConsumerGroupHeartbeatResponse(
                    member_id=facts.member_id, member_epoch=LEAVES
                )
            elif facts.member_epoch == LEAVES_FOR_NOW:
                response = leave_for_now(changes, facts)
            else:
                response = heartbeat(changes, facts, image, self._config_of(group_id))
        except KafkaError as error:
            changes.undo()
            self.restore(group, replaced)
            result.reply(respond, heartbeat_error(error))
            return result
        if replaced is not None and replaced.members:
            retire(replaced, ErrorCode.REBALANCE_IN_PROGRESS, now_ms, result)
            result.event("classic_group_upgraded", group=group_id, members=len(replaced.members))
        self.heard_in_epoch(group, facts.member_id, facts.member_epoch, before, result)
        if replaced is not None:
            self.start_timers(group, result)
        if _wants_resolution(group, image, now_ms):
            group.is_resolving = True
            result.effects.append(ResolveRegexes(group, facts.describable))
        reply = AwaitedReply(respond, response, _refused_heartbeat)
        self.append(ModernGroupUpdate(group, changes, [reply], replaced, successor), result)
        return result

    def check_takeover(self, classic: Group) -> None:
        if not classic.is_empty:
            check_upgrade(classic, self._config.consumer)

    def _take_over(
        self, changes: GroupChanges[ConsumerGroup], replaced: Group, image: MetadataImage
    ) -> None:
        """Put a consumer group in the place of a classic one, with its members if it has some."""
        if replaced.members:
            upgrade(changes, replaced, image)
        else:
            changes.records += replaced.tombstones()

    def remove(
        self,
        changes: GroupChanges[ConsumerGroup],
        member_ids: Collection[str],
        image: MetadataImage,
        now_ms: int,
        result: GroupResult[None],
    ) -> Group | None:
        """Remove members. If all others speak the classic protocol, begin the rebalance of the
        classic group that takes the place of the consumer group, and return it."""
        group = changes.group
        result.effects += (CheckMember(group, member_id) for member_id in member_ids)
        if not can_downgrade(group, member_ids, self._config):
            fence_members(changes, member_ids, image)
            return None
        successor = self._downgrade(changes, member_ids, group.epoch, image, now_ms, result)
        reason = "the last member of the consumer protocol has left"
        prepare_rebalance(successor, reason, self._config, now_ms, result)
        return successor

    def _downgrade(
        self,
        changes: GroupChanges[ConsumerGroup],
        leaving: Collection[str],
        generation_id: int,
        image: MetadataImage,
        now_ms: int,
        result: GroupResult[None],
    ) -> Group:
        group, name = changes.group, changes.group.group_id
        member_ids = list(group.members)
        successor = self._groups[name] = downgrade(changes, leaving, generation_id, image, now_ms)
        result.event("consumer_group_downgraded", group=name, members=len(successor.members))
        result.effects += (CheckMember(group, member_id) for member_id in member_ids)
        result.effects += (session_timer(successor, m) for m in successor.members.values())
        return successor

    # -- requests of members of the classic protocol

    def join(
        self,
        group: ConsumerGroup,
        facts: JoinFacts,
        respond: RespondJoin,
        image: MetadataImage,
        now_ms: int,
    ) -> GroupResult[None]:
        """Handle a JoinGroup request to a group with members."""
        result: GroupResult[None] = CoordinatorResult(None)
        changes = GroupChanges(group)
        try:
            if (facts.member_id or facts.new_member_id) not in group.members:
                check_room(group, self._config.consumer.max_size)
            check_protocols(group, facts)
            if facts.must_know_id and facts.member_id == UNKNOWN_MEMBER:
                error = ErrorCode.MEMBER_ID_REQUIRED
                result.reply(respond, join_error(error, facts.new_member_id))
                return result
            self._join(changes, facts, respond, image, now_ms, result)
        except (KafkaError, DecodeError) as error:
            changes.undo()
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            if isinstance(error, KafkaError):
                code = error.code
            result.reply(respond, join_error(code))
        return result

    def _join(
        self,
        changes: GroupChanges[ConsumerGroup],
        facts: JoinFacts,
        respond: RespondJoin,
        image: MetadataImage,
        now_ms: int,
        result: GroupResult[None],
    ) -> None:
        """Lead a member that joins one step towards its target.

        A static member in the place of the last one of the consumer protocol makes the group a
        classic one. Raises KafkaError and DecodeError.
        """
        group, epoch = changes.group, changes.group.epoch
        subscription = read_subscription(facts.protocols[0][1])
        owned = partitions_by_id(subscription.owned_partitions, image)
        holder = None
        if facts.group_instance_id is not None:
            holder = group.static_members.get(facts.group_instance_id)
        downgrades = holder is not None and can_downgrade_for(group, holder, self._config)
        member_id = admit(changes, facts)
        subscribes_anew = subscribe(changes, member_id, facts, subscription)
        refresh_epoch(changes, image, raised=subscribes_anew)
        if not downgrades:
            assign_if_due(changes, image, self._config.consumer)
        if not downgrades or not subscribes_anew:
            reconcile_member(changes, member_id, owned, image, subscribes_anew)
        response = join_accepted(group, member_id)
        if holder is not None and holder != member_id:
            result.effects.append(CheckMember(group, holder))
        successor = None
        if downgrades:
            successor = self._downgrade(changes, (), epoch, image, now_ms, result)
            if subscribes_anew:
                reason = f"static member {facts.group_instance_id} has another subscription"
                prepare_rebalance(successor, reason, self._config, now_ms, result)
        else:
            self._await_request(
                group, member_id, ClassicRequest.SYNC_GROUP, facts.rebalance_timeout_ms, result
            )
            group.awaited.pop((member_id, ClassicRequest.JOIN_GROUP), None)
            result.effects.append(MemberHeard(group, member_id, facts.session_timeout_ms))
            result.effects.append(CheckMember(group, member_id))
        reply = AwaitedReply(respond, response, join_error)
        update = ModernGroupUpdate(group, changes, [reply], successor=successor)
        self.append(update, result)

    def sync(
        self, group: ConsumerGroup, facts: SyncFacts, respond: RespondSync, image: MetadataImage
    ) -> GroupResult[None]:
        """Handle a SyncGroup request. The response waits for what the member's JoinGroup wrote."""
        result: GroupResult[None] = CoordinatorResult(None)
        member_id = facts.member_id
        try:
            response = sync(group, facts, image)
        except (KafkaError, DecodeError) as error:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            if isinstance(error, KafkaError):
                code = error.code
            if code is ErrorCode.REBALANCE_IN_PROGRESS:
                self._await_join(group, member_id, result)
            result.reply(respond, sync_error(code))
            return result
        group.awaited.pop((member_id, ClassicRequest.SYNC_GROUP), None)
        self.heard(group, member_id, result)
        result.effects.append(CheckMember(group, member_id))
        reply = AwaitedReply(respond, response, sync_error)
        self.append(ModernGroupUpdate(group, GroupChanges(group), [reply]), result)
        return result

    def classic_heartbeat(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
    ) -> GroupResult[ErrorCode]:
        """Handle a Heartbeat request; the response is its error code."""
        result: GroupResult[None] = CoordinatorResult(None)
        try:
            current = require_classic(group, member_id, instance_id, generation_id)
        except KafkaError as error:
            return result.responding(error.code)
        self.heard(group, member_id, result)
        if not must_rejoin(group, member_id, current):
            return result.responding(ErrorCode.NONE)
        self._await_join(group, member_id, result)
        return result.responding(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(
        self,
        group: ConsumerGroup,
        identities: Sequence[MemberIdentity],
        image: MetadataImage,
        now_ms: int,
    ) -> GroupResult[list[MemberResponse]]:
        """Handle a LeaveGroup request; the response has a row for each member. It does not wait
        for the records: a member whose removal is not stored goes when its session ends."""
        result: GroupResult[None] = CoordinatorResult(None)
        leaving: dict[str, None] = {}
        rows: list[MemberResponse] = []
        for who in identities:
            code = ErrorCode.NONE
            try:
                leaving[find_leaving(group, who)] = None
            except KafkaError as error:
                code = error.code
            rows.append(MemberResponse(who.member_id, who.group_instance_id, code))
        if leaving:
            changes = GroupChanges(group)
            successor = self.remove(changes, leaving, image, now_ms, result)
            update = ModernGroupUpdate(group, changes, [], successor=successor)
            self.append(update, result)
        return result.responding(rows)

    # -- time

    def session_timeout_ms(self, group: ConsumerGroup, member_id: str) -> int:
        own_ms = self._config_of(group.group_id).session_timeout_ms
        return session_timeout_of(group, member_id, own_ms)

    def _await_join(self, group: ConsumerGroup, member_id: str, result: GroupResult[None]) -> None:
        """Give a member of the classic protocol its rebalance time-out to join, unless it runs."""
        if (member_id, ClassicRequest.JOIN_GROUP) not in group.awaited:
            delay_ms = group.members[member_id].rebalance_timeout_ms
            self._await_request(group, member_id, ClassicRequest.JOIN_GROUP, delay_ms, result)

    def _await_request(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: ClassicRequest,
        delay_ms: int,
        result: GroupResult[None],
    ) -> None:
        timer = RequestTimer(group, member_id, request, delay_ms)
        group.awaited[member_id, request] = timer
        result.effects.append(timer)

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
        changes, in_use = GroupChanges(group), set(group.regexes_in_use)
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
        self.append(ModernGroupUpdate(group, changes, []), result)
        return result


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


def _refused_heartbeat(error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return heartbeat_error(KafkaError(error))


def member_timer_is_over(timer: RevocationTimer | RequestTimer) -> bool:
    """Whether a member has revoked its partitions, or has sent the request, or has left."""
    member_id = timer.member_id
    if isinstance(timer, RequestTimer):
        group = timer.group
        return group.is_dead or group.awaited.get((member_id, timer.request)) is not timer
    return timer.group.is_dead or timer.group.current.get(member_id) is not timer.current
