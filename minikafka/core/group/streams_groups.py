"""The streams groups (KIP-1071) of one partition of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import ClassVar

from minikafka.core.coordinator_shard import CoordinatorResult
from minikafka.core.group.group import Group
from minikafka.core.group.modern.changes import GroupChanges
from minikafka.core.group.modern.group import ModernGroup
from minikafka.core.group.modern_groups import ModernGroups
from minikafka.core.group.records import ModernGroupKey
from minikafka.core.group.result import (
    AnyGroup,
    AssignmentTimer,
    AwaitedReply,
    CheckMember,
    GroupResult,
    MemberHeard,
    ModernGroupUpdate,
    RevocationTimer,
)
from minikafka.core.group.settings import SettingsOf
from minikafka.core.group.streams.config import StreamsGroupConfig
from minikafka.core.group.streams.group import StreamsGroup
from minikafka.core.group.streams.heartbeat import (
    Heartbeat,
    HeartbeatResult,
    assign_tasks,
    fence_members,
    heartbeat,
    require_member,
)
from minikafka.core.group.streams.reconciliation import MemberState
from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.consumer_group_heartbeat import JOINS
from minikafka.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from minikafka.protocol.messages.streams_group_log import STREAMS_GROUP_RECORDS

RespondStreams = Callable[[HeartbeatResult], None]


class StreamsGroups(ModernGroups[StreamsGroup]):
    """The streams groups among ``groups``, which are all groups of the shard by id."""

    KEYS: ClassVar[Collection[type[ModernGroupKey]]] = tuple(
        key for key, _ in STREAMS_GROUP_RECORDS
    )

    def __init__(
        self, groups: dict[str, AnyGroup], config: StreamsGroupConfig, settings: SettingsOf
    ) -> None:
        super().__init__(StreamsGroup, groups)
        self._config = config
        self._settings = settings

    def _config_of(self, group_id: str) -> StreamsGroupConfig:
        """Return the configuration with the group's own settings."""
        settings = self._settings(group_id)
        return self._config if settings is None else settings.of_streams(self._config)

    # -- requests

    def heartbeat(
        self, facts: Heartbeat, respond: RespondStreams, image: MetadataImage, now_ms: int
    ) -> GroupResult[None]:
        """Handle a StreamsGroupHeartbeat request that ``check_request`` accepts. The first one of a
        member creates the group, or takes the place of a classic group without members."""
        result: GroupResult[None] = CoordinatorResult(None)
        try:
            group, replaced, is_new = self._require_streams_group(facts.request)
        except KafkaError as error:
            result.reply(respond, refused_heartbeat(error))
            return result
        before = group.current.get(facts.request.member_id)
        changes, timer = GroupChanges(group), self._delay(group)
        try:
            if replaced is not None:
                changes.records += replaced.tombstones()
            outcome = self._process(changes, facts, image, now_ms, result)
        except KafkaError as error:
            changes.undo()
            if timer is not None:
                group.delay = None
            self.restore(group, replaced)
            result.reply(respond, refused_heartbeat(error))
            return result
        if timer is not None:
            result.effects.append(timer)
        if is_new:
            _forget_first_sight(group, outcome.response)
        self._keep_time(group, facts.request, before, result)
        reply = AwaitedReply(respond, outcome, _refused)
        self.append(ModernGroupUpdate(group, changes, [reply], replaced), result)
        return result

    def _require_streams_group(
        self, request: StreamsGroupHeartbeatRequest
    ) -> tuple[StreamsGroup, Group | None, bool]:
        """Return the group, the classic group that it replaces, and whether it is new. Raises
        KafkaError: GROUP_ID_NOT_FOUND."""
        group_id, epoch = request.group_id, request.member_epoch
        known = self._groups.get(group_id)
        if isinstance(known, StreamsGroup):
            return known, None, False
        is_taken = isinstance(known, ModernGroup) or (known is not None and not known.is_empty)
        if epoch != JOINS or is_taken:
            if known is not None:
                problem = f"Group {group_id} is not a streams group."
            elif epoch < JOINS:
                problem = f"Group {group_id} not found."
            else:
                problem = f"Streams group {group_id} not found."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, problem)
        assert known is None or isinstance(known, Group)
        group = self._groups[group_id] = StreamsGroup(group_id)
        if known is not None:
            group.offsets = known.offsets
        return group, known, True

    def _delay(self, group: StreamsGroup) -> AssignmentTimer | None:
        """Let a group without members wait for others, unless it waits already."""
        delay_ms = self._config_of(group.group_id).initial_rebalance_delay_ms
        if not group.is_empty or group.delay is not None or delay_ms <= 0:
            return None
        timer = group.delay = AssignmentTimer(group, delay_ms)
        return timer

    def _process(
        self,
        changes: GroupChanges[StreamsGroup],
        facts: Heartbeat,
        image: MetadataImage,
        now_ms: int,
        result: GroupResult[None],
    ) -> HeartbeatResult:
        group, request = changes.group, facts.request
        if request.member_epoch >= JOINS:
            return heartbeat(changes, facts, image, self._config_of(group.group_id))
        if request.shutdown_application and group.shutdown_by is None:
            group.shutdown_by = request.member_id
        require_member(group, request.member_id)
        self.remove(changes, [request.member_id], image, now_ms, result)
        response = StreamsGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        return HeartbeatResult(response)

    def remove(
        self,
        changes: GroupChanges[StreamsGroup],
        member_ids: Collection[str],
        image: MetadataImage,
        now_ms: int,
        result: GroupResult[None],
    ) -> Group | None:
        result.effects += (CheckMember(changes.group, member_id) for member_id in member_ids)
        fence_members(changes, member_ids)
        return None

    # -- time

    def _keep_time(
        self,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        before: object,
        result: GroupResult[None],
    ) -> None:
        """Start or check the timers of a member, whose tasks were ``before``."""
        member_id = request.member_id
        if member_id not in group.members:
            return
        self._heard(group, member_id, result)
        if group.current.get(member_id) is not before:
            result.effects.append(CheckMember(group, member_id))
            self._await_revocation(group, member_id, result)

    def _heard(self, group: StreamsGroup, member_id: str, result: GroupResult[None]) -> None:
        timeout_ms = self._config_of(group.group_id).session_timeout_ms
        result.effects.append(MemberHeard(group, member_id, timeout_ms))

    def _await_revocation(
        self, group: StreamsGroup, member_id: str, result: GroupResult[None]
    ) -> None:
        current = group.current.get(member_id)
        if current is not None and current.state is MemberState.UNREVOKED_TASKS:
            delay_ms = group.members[member_id].rebalance_timeout_ms
            result.effects.append(RevocationTimer(group, member_id, current, delay_ms))

    def start_timers(self, group: StreamsGroup, result: GroupResult[None]) -> None:
        for member_id in group.members:
            if member_id not in group.deadlines:
                self._heard(group, member_id, result)
            self._await_revocation(group, member_id, result)

    def delay_over(self, timer: AssignmentTimer) -> GroupResult[None]:
        """Assign the tasks of a group that has waited for members.

        If it has not looked at its topics yet, the next heartbeat assigns them."""
        result: GroupResult[None] = CoordinatorResult(None)
        group = timer.group
        if group.is_dead or group.delay is not timer:
            return result
        group.delay = None
        is_due = group.members and group.epoch > group.target_epoch
        if self._groups.get(group.group_id) is group and is_due and group.configured is not None:
            changes = GroupChanges(group)
            assign_tasks(changes, group.configured)
            self.append(ModernGroupUpdate(group, changes, []), result)
        return result


def _forget_first_sight(group: StreamsGroup, response: StreamsGroupHeartbeatResponse) -> None:
    """Forget what the request that creates a group has seen, as Kafka does: it decides about a
    group that is thrown away, and makes the lasting one from the records."""
    group.configured, group.endpoint_epoch, group.shutdown_by = None, 0, None
    response.endpoint_information_epoch = 0


def refused_heartbeat(error: KafkaError) -> HeartbeatResult:
    return HeartbeatResult(
        StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    )


def _refused(error: ErrorCode) -> HeartbeatResult:
    return refused_heartbeat(KafkaError(error))
