"""The share groups (KIP-932) of one partition of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from minikafka.core.coordinator_shard import CoordinatorResult, RespondError
from minikafka.core.group.group import Group
from minikafka.core.group.modern.changes import GroupChanges
from minikafka.core.group.modern.partitions import Partitions
from minikafka.core.group.modern_groups import ModernGroups
from minikafka.core.group.records import ModernGroupKey
from minikafka.core.group.result import (
    AnyGroup,
    AwaitedReply,
    CheckMember,
    GroupResult,
    InitializeStates,
    ModernGroupUpdate,
    RespondShareHeartbeat,
    share_heartbeat_error,
)
from minikafka.core.group.settings import SettingsOf
from minikafka.core.group.share.config import ShareGroupConfig
from minikafka.core.group.share.group import ShareGroup
from minikafka.core.group.share.heartbeat import (
    ShareHeartbeatFacts,
    begin_states,
    check_request,
    fence_members,
    heartbeat,
    require_member,
)
from minikafka.core.group.share.states import NO_STATES, StatePartitions, stored_states
from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.consumer_group_heartbeat import LEAVES
from minikafka.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from minikafka.protocol.messages.share_group_membership_log import (
    SHARE_GROUP_RECORDS,
    ShareGroupStatePartitionMetadataKey,
)


class ShareGroups(ModernGroups[ShareGroup]):
    """The share groups among ``groups``, which are all groups of the shard by id."""

    KEYS: ClassVar[Collection[type[ModernGroupKey]]] = tuple(key for key, _ in SHARE_GROUP_RECORDS)

    def __init__(
        self, groups: dict[str, AnyGroup], config: ShareGroupConfig, settings: SettingsOf
    ) -> None:
        super().__init__(ShareGroup, groups)
        self._config = config
        self._settings = settings

    def _config_of(self, group_id: str) -> ShareGroupConfig:
        """Return the configuration with the group's own settings."""
        settings = self._settings(group_id)
        return self._config if settings is None else settings.of_shares(self._config)

    # -- requests

    def heartbeat(
        self,
        group_id: str,
        facts: ShareHeartbeatFacts,
        respond: RespondShareHeartbeat,
        image: MetadataImage,
        now_ms: int,
    ) -> GroupResult[None]:
        """Handle a ShareGroupHeartbeat request. The first one of a member creates the group."""
        result: GroupResult[None] = CoordinatorResult(None)
        member_id = facts.member_id
        try:
            check_request(facts)
            group, _ = self.of_heartbeat(group_id, facts.member_epoch)
        except KafkaError as error:
            result.reply(respond, share_heartbeat_error(error))
            return result
        changes = GroupChanges(group)
        try:
            if facts.member_epoch == LEAVES:
                require_member(group, member_id)
                self.remove(changes, [member_id], image, now_ms, result)
                response = ShareGroupHeartbeatResponse(member_id=member_id, member_epoch=LEAVES)
                partitions: Partitions = {}
            else:
                response = heartbeat(changes, facts, image, self._config_of(group_id))
                retry_ms = self._config.initialize_retry_interval_ms
                partitions = begin_states(changes, image, retry_ms, now_ms)
                self.heard(group, member_id, result)
        except KafkaError as error:
            self.restore(group, None)
            result.reply(respond, share_heartbeat_error(error))
            return result
        then = (InitializeStates(group, partitions, group.epoch),) if partitions else ()
        reply = AwaitedReply(respond, response, _refused_heartbeat)
        self.append(ModernGroupUpdate(group, changes, [reply], then=then), result)
        return result

    # -- states of share-partitions

    def store_states(
        self, group: ShareGroup, states: StatePartitions, respond: RespondError
    ) -> GroupResult[None]:
        """Store the states of a group's share-partitions. ``respond`` is called when the record is
        replicated, or with the error."""
        result: GroupResult[None] = CoordinatorResult(None)
        changes = GroupChanges(group)
        key = ShareGroupStatePartitionMetadataKey(group.group_id)
        changes.write(key, stored_states(states))
        reply = AwaitedReply(respond, ErrorCode.NONE, lambda error: error)
        self.append(ModernGroupUpdate(group, changes, [reply]), result)
        return result

    def forget_topics(self, group: ShareGroup, image: MetadataImage) -> GroupResult[None]:
        """Remove the share-partitions of deleted topics. The share coordinators remove the states
        of deleted topics themselves."""
        states = group.states or NO_STATES
        gone = [topic for topic in states.names if topic not in image.topic_names]
        if not gone or group.is_dead:
            return CoordinatorResult(None)
        return self.store_states(group, states.forget(gone, image), lambda _: None)

    # -- members

    def remove(
        self,
        changes: GroupChanges[ShareGroup],
        member_ids: Collection[str],
        image: MetadataImage,
        now_ms: int,
        result: GroupResult[None],
    ) -> Group | None:
        """Remove members. A share group never becomes a classic one."""
        result.effects += (CheckMember(changes.group, member_id) for member_id in member_ids)
        fence_members(changes, member_ids, image)
        return None

    def session_timeout_ms(self, group: ShareGroup, member_id: str) -> int:
        return self._config_of(group.group_id).session_timeout_ms


def _refused_heartbeat(error: ErrorCode) -> ShareGroupHeartbeatResponse:
    return share_heartbeat_error(KafkaError(error))
