"""The streams groups (KIP-1071) of one partition of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import ClassVar

from minikafka.core.coordinator_shard import CoordinatorResult
from minikafka.core.group.group import Group
from minikafka.core.group.modern.changes import GroupChanges
from minikafka.core.group.modern_groups import ModernGroups
from minikafka.core.group.records import ModernGroupKey
from minikafka.core.group.result import (
    AnyGroup,
    AssignmentTimer,
    AwaitedReply,
    CheckMember,
    GroupResult,
    ModernGroupUpdate,
)
from minikafka.core.group.settings import SettingsOf
from minikafka.core.group.streams.config import StreamsGroupConfig
from minikafka.core.group.streams.group import StreamsGroup
from minikafka.core.group.streams.heartbeat import (
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    assign_tasks,
    fence_members,
    heartbeat,
    require_member,
)
from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.consumer_group_heartbeat import JOINS
from minikafka.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatResponse,
)
from minikafka.protocol.messages.streams_group_log import STREAMS_GROUP_RECORDS

RespondStreams = Callable[[StreamsHeartbeatResult], None]


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
        self, facts: StreamsHeartbeat, respond: RespondStreams, image: MetadataImage, now_ms: int
    ) -> GroupResult[None]:
        """Handle a StreamsGroupHeartbeat request that ``check_request`` accepts. The first one of a
        member creates the group, or takes the place of a classic group without members."""
        result: GroupResult[None] = CoordinatorResult(None)
        request, known = facts.request, self._groups.get(facts.request.group_id)
        try:
            group, replaced = self.of_heartbeat(request.group_id, request.member_epoch)
        except KafkaError as error:
            result.reply(respond, refused_heartbeat(error))
            return result
        before = group.current.get(request.member_id)
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
        if group is not known:
            _forget_first_sight(group, outcome.response)
        self.heard_in_epoch(group, request.member_id, request.member_epoch, before, result)
        reply = AwaitedReply(respond, outcome, _refused)
        self.append(ModernGroupUpdate(group, changes, [reply], replaced), result)
        return result

    def check_takeover(self, classic: Group) -> None:
        if not classic.is_empty:
            super().check_takeover(classic)

    def _delay(self, group: StreamsGroup) -> AssignmentTimer | None:
        """Return the timer of the first assignment if a group without members is to start one."""
        delay_ms = self._config_of(group.group_id).initial_rebalance_delay_ms
        if not group.is_empty or group.delay is not None or delay_ms <= 0:
            return None
        timer = group.delay = AssignmentTimer(group, delay_ms)
        return timer

    def _process(
        self,
        changes: GroupChanges[StreamsGroup],
        facts: StreamsHeartbeat,
        image: MetadataImage,
        now_ms: int,
        result: GroupResult[None],
    ) -> StreamsHeartbeatResult:
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
        return StreamsHeartbeatResult(response)

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

    def session_timeout_ms(self, group: StreamsGroup, member_id: str) -> int:
        return self._config_of(group.group_id).session_timeout_ms

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
    """Forget what no record has of a group that the request creates. Kafka decides about a
    temporary group, and makes the real one from its records."""
    group.configured, group.endpoint_epoch, group.shutdown_by = None, 0, None
    response.endpoint_information_epoch = 0


def refused_heartbeat(error: KafkaError) -> StreamsHeartbeatResult:
    return StreamsHeartbeatResult(
        StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    )


def _refused(error: ErrorCode) -> StreamsHeartbeatResult:
    return refused_heartbeat(KafkaError(error))
