"""The groups of one partition of ``__consumer_offsets``, as a coordinator shard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from minikafka.core.coordinator_shard import CoordinatorResult, CoordinatorShard, RespondError
from minikafka.core.group import records
from minikafka.core.group.committing import (
    CommitFacts,
    commit,
    delete_group,
    delete_offsets,
    expire,
)
from minikafka.core.group.consumer.group import ConsumerGroup
from minikafka.core.group.consumer_groups import ConsumerGroups
from minikafka.core.group.group import (
    ClassicGroupMember,
    Group,
    GroupConfig,
    GroupState,
    RespondJoin,
    RespondSync,
)
from minikafka.core.group.joining import JoinFacts, Joining, replacement_stored
from minikafka.core.group.liveness import heartbeat, heartbeat_expired, leave
from minikafka.core.group.modern.group import ModernGroup
from minikafka.core.group.modern_groups import ModernGroups
from minikafka.core.group.rebalance import (
    SyncFacts,
    assignments_stored,
    complete_join,
    fail_parked_requests,
    initial_join_over,
    prepare_rebalance,
    session_timer,
    sync,
    sync_expired,
)
from minikafka.core.group.records import (
    GroupRecord,
    GroupStored,
    ModernGroupRecord,
    OffsetCommitted,
)
from minikafka.core.group.result import (
    UNKNOWN_MEMBER,
    AnyGroup,
    AssignmentUpdate,
    CheckHeartbeat,
    CheckJoin,
    CheckSync,
    EmptyGeneration,
    GroupAppend,
    GroupAppendPurpose,
    GroupDeletion,
    GroupResult,
    GroupTimer,
    HeartbeatTimer,
    InitialJoinTimer,
    JoinTimer,
    ModernGroupUpdate,
    OffsetCommit,
    OffsetDeletion,
    RespondOffsets,
    StaticMemberReplacement,
    SyncTimer,
    join_error,
    offset_write_error,
    sync_error,
)
from minikafka.core.group.settings import SettingsOf, no_settings
from minikafka.core.group.share_groups import ShareGroups
from minikafka.core.group.streams_groups import StreamsGroups
from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.leave_group import MemberIdentity, MemberResponse
from minikafka.protocol.messages.offsets_log import GroupMetadataValue


class GroupShard(CoordinatorShard[GroupRecord, GroupAppendPurpose, GroupTimer]):
    """The groups of one partition of ``__consumer_offsets``.

    Records contain generations, assignments and offsets. The phase of a rebalance and the parked
    requests are in no record: a new coordinator starts without them, and the members join again.
    Kafka: ``GroupCoordinator`` and ``GroupMetadataManager``.
    """

    awaits_replication = False

    def __init__(self, config: GroupConfig, settings: SettingsOf = no_settings) -> None:
        """``settings`` returns the settings of a group that replace those of ``config``."""
        self.groups: dict[str, AnyGroup] = {}
        self._config = config
        self._loaded = False
        # The groups with offsets that a transaction of the producer decides on, in order.
        self._in_transactions: dict[int, dict[str, None]] = {}
        self.consumers = ConsumerGroups(self.groups, config, settings)
        self.shares = ShareGroups(self.groups, config.share, settings)
        self.streams = StreamsGroups(self.groups, config.streams, settings)
        self._kinds: tuple[ModernGroups[Any], ...] = (
            self.consumers,
            self.shares,
            self.streams,
        )
        self._owners = {key: kind for kind in self._kinds for key in kind.KEYS}

    @property
    def size(self) -> int:
        return len(self.groups)

    def of_kind(self, group: ModernGroup) -> ModernGroups[Any]:
        """Return what decides about groups of the kind of ``group``."""
        return next(kind for kind in self._kinds if isinstance(group, kind.kind))

    # -- records

    def encode(self, record: GroupRecord) -> tuple[bytes, bytes | None]:
        return records.encode_record(record, self._config.inter_broker_protocol)

    @staticmethod
    def decode(key: bytes, value: bytes | None) -> GroupRecord | None:
        return records.decode_record(key, value)

    def replay(self, record: GroupRecord, offset: int, producer_id: int | None = None) -> None:
        if isinstance(record, GroupStored):
            if record.value is None:
                self._replay_group_tombstone(record.group_id)
            elif self._loaded:
                self._replay_own_generation(record.group_id, record.value)
            else:
                self._load_group(record.group_id, record.value)
            return
        if isinstance(record, ModernGroupRecord):
            if not self._loaded:  # otherwise it was applied when it was decided
                self._owners[type(record.key)].load(record)
            return
        group = self._group_of_offset(record)
        if group is None:
            return
        if producer_id is not None:
            group.offsets.replay_in_transaction(
                producer_id, record.topic_partition, offset, record.committed
            )
            self._track_transaction(group, producer_id)
        elif record.committed is None:
            group.offsets.remove(record.topic_partition)
        elif self._loaded:
            group.offsets.complete(record.topic_partition, offset, record.committed)
        else:
            group.offsets.replay(record.topic_partition, offset, record.committed)

    def replay_end_transaction_marker(self, producer_id: int, offset: int, committed: bool) -> None:
        for group_id in self._in_transactions.pop(producer_id, ()):
            group = self.groups.get(group_id)
            if group is not None:  # otherwise it was deleted with all its offsets
                group.offsets.end_transaction(producer_id, offset, committed)
                self._track_transaction(group, producer_id)

    def _track_transaction(self, group: AnyGroup, producer_id: int) -> None:
        """Update ``_in_transactions``, so that a marker finds its groups without a search.

        Kafka: ``openGroupsForProducer``.
        """
        groups = self._in_transactions.setdefault(producer_id, {})
        if group.offsets.awaits(producer_id):
            groups[group.group_id] = None
        else:
            groups.pop(group.group_id, None)
        if not groups:
            del self._in_transactions[producer_id]

    def _group_of_offset(self, record: OffsetCommitted) -> AnyGroup | None:
        group = self.groups.get(record.group_id)
        if group is None and not self._loaded and record.committed is not None:
            group = self.groups[record.group_id] = Group(record.group_id, None)
        return group

    def _load_group(self, group_id: str, value: GroupMetadataValue) -> None:
        since_ms = value.current_state_timestamp
        group = Group(group_id, None if since_ms == -1 else since_ms)
        group.generation_id = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        for stored in value.members:
            group.add(
                ClassicGroupMember(
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

    def _replay_own_generation(self, group_id: str, value: GroupMetadataValue) -> None:
        """Apply the assignments of a generation that this shard has appended.

        No effect if the group has begun another rebalance in the meantime.
        """
        group = self.groups.get(group_id)
        if not isinstance(group, Group) or group.generation_id != value.generation:
            return
        if group.state is GroupState.COMPLETING_REBALANCE:
            for stored in value.members:
                member = group.members.get(stored.member_id)
                if member is not None:
                    member.assignment = stored.assignment

    def _replay_group_tombstone(self, group_id: str) -> None:
        """Apply the tombstone of a group while loading: it loses its generation, not its
        offsets.

        Offsets have tombstones too. Once the shard is loaded, ``settle`` deletes the group
        instead.
        """
        known = self.groups.get(group_id)
        if not self._loaded and isinstance(known, Group):
            del self.groups[group_id]
            if not known.offsets.is_empty:
                group = self.groups[group_id] = Group(group_id, None)
                group.offsets = known.offsets

    # -- loading and unloading

    def loaded(self, now_ms: int) -> GroupResult[None]:
        """Start the session timers of all members, and rebalance groups above
        ``group.max.size``."""
        assert not self._loaded
        result: GroupResult[None] = CoordinatorResult(None)
        self._loaded = True
        for group_id, group in list(self.groups.items()):
            if isinstance(group, ModernGroup):
                self.of_kind(group).start_timers(group, result)
                continue
            if group.is_forgettable and group.protocol_type is None:
                del self.groups[group_id]  # all its offsets have been deleted
                continue
            if group.state_since_ms is None and group.protocol_type is None:
                group.state_since_ms = now_ms
            if len(group.members) > self._config.group_max_size:
                reason = "the group is larger than group.max.size"
                prepare_rebalance(group, reason, self._config, now_ms, result)
            for member in group.members.values():
                result.effects.append(session_timer(group, member))
        return result

    def unloaded(self, now_ms: int) -> GroupResult[None]:
        """Fail parked requests with NOT_COORDINATOR, so that members find the new coordinator."""
        result: GroupResult[None] = CoordinatorResult(None)
        for group in self.groups.values():
            if isinstance(group, ModernGroup):
                self.of_kind(group).unload(group, result)
                continue
            group.transition_to(GroupState.DEAD, now_ms)
            for member in group.members.values():
                fail_parked_requests(group, member, ErrorCode.NOT_COORDINATOR, result)
            for member_id in (*group.members, *group.pending_members):
                result.effects.append(CheckHeartbeat(group, member_id))
            result.effects += (CheckJoin(group), CheckSync(group))
            assert group.awaiting_join == 0, "every parked request has a response"
        self.groups.clear()
        self._in_transactions.clear()
        return result

    # -- requests of members

    def join(
        self,
        group_id: str,
        facts: JoinFacts,
        respond: RespondJoin,
        image: MetadataImage,
        now_ms: int,
    ) -> GroupResult[None]:
        """Handle a JoinGroup request. The first one without a member id creates the group."""
        result: GroupResult[None] = CoordinatorResult(None)
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.consumers.join(group, facts, respond, image, now_ms)
        if isinstance(group, ModernGroup):
            if not (group.is_empty and group.MAY_BECOME_CLASSIC):
                result.reply(respond, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
                return result
            group = self.of_kind(group).make_classic(group, now_ms, result)
        if group is None:
            if facts.member_id != UNKNOWN_MEMBER:
                unknown = join_error(ErrorCode.UNKNOWN_MEMBER_ID, facts.member_id)
                result.reply(respond, unknown)
                return result
            group = self.groups[group_id] = Group(group_id, now_ms)
        Joining(group, facts, respond, self._config, now_ms, result).handle()
        if group.is_forgettable and group.generation_id == 0:
            del self.groups[group_id]  # the request that created it was refused
        return result

    def sync(
        self, group_id: str, facts: SyncFacts, respond: RespondSync, image: MetadataImage
    ) -> GroupResult[None]:
        """Handle a SyncGroup request."""
        result: GroupResult[None] = CoordinatorResult(None)
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumers.sync(group, facts, respond, image)
        if not isinstance(group, Group):
            result.reply(respond, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            sync(group, facts, respond, result)
        return result

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> GroupResult[ErrorCode]:
        """Handle a Heartbeat request; the response is its error code."""
        result: GroupResult[None] = CoordinatorResult(None)
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumers.classic_heartbeat(
                group, member_id, group_instance_id, generation_id
            )
        if not isinstance(group, Group):
            return result.responding(ErrorCode.UNKNOWN_MEMBER_ID)
        return result.responding(
            heartbeat(group, member_id, group_instance_id, generation_id, result)
        )

    def leave(
        self,
        group_id: str,
        identities: Sequence[MemberIdentity],
        image: MetadataImage,
        now_ms: int,
    ) -> GroupResult[list[MemberResponse]]:
        """Handle a LeaveGroup request; the response has a row for each member."""
        result: GroupResult[None] = CoordinatorResult(None)
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumers.leave(group, identities, image, now_ms)
        if not isinstance(group, Group):
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            return result.responding(
                [
                    MemberResponse(who.member_id, who.group_instance_id, unknown)
                    for who in identities
                ]
            )
        return result.responding(leave(group, identities, self._config, now_ms, result))

    # -- timers

    def heartbeat_expired(self, timer: HeartbeatTimer, now_ms: int) -> GroupResult[None]:
        """Handle the expiry of a session timer."""
        result: GroupResult[None] = CoordinatorResult(None)
        heartbeat_expired(timer, self._config, now_ms, result)
        return result

    def join_over(self, timer: JoinTimer | InitialJoinTimer, now_ms: int) -> GroupResult[None]:
        """Complete the joining phase: all members have joined, or its time has passed."""
        result: GroupResult[None] = CoordinatorResult(None)
        if isinstance(timer, JoinTimer):
            complete_join(timer.group, now_ms, result)
        else:
            initial_join_over(timer.group, timer, self._config, now_ms, result)
        return result

    def sync_expired(self, timer: SyncTimer, now_ms: int) -> GroupResult[None]:
        """Handle the expiry of the SyncGroup time-out."""
        result: GroupResult[None] = CoordinatorResult(None)
        sync_expired(timer.group, timer.generation_id, self._config, now_ms, result)
        return result

    # -- offsets and deletions

    def commit(
        self, group_id: str, facts: CommitFacts, respond: RespondOffsets, now_ms: int
    ) -> GroupResult[None]:
        """Handle an OffsetCommit or TxnOffsetCommit request.

        The first commit of a client that is not a member creates the group.
        """
        assert self._loaded, "offsets are committed in a loaded shard only"
        result: GroupResult[None] = CoordinatorResult(None)
        group = self.groups.get(group_id)
        if group is None:
            if facts.generation_id >= 0:
                error = ErrorCode.ILLEGAL_GENERATION
                if facts.transaction is not None:
                    error = ErrorCode.UNKNOWN_MEMBER_ID
                result.reply(respond, dict.fromkeys(facts.offsets, error))
                return result
            group = self.groups[group_id] = Group(group_id, now_ms)
        commit(group, facts, respond, self._config, result)
        if facts.transaction is not None:
            self._track_transaction(group, facts.transaction.producer_id)
        return result

    def delete_offsets(
        self,
        group: AnyGroup,
        topic_partitions: Iterable[TopicPartition],
        respond: RespondError | None,
    ) -> GroupResult[int]:
        """Delete committed offsets. The immediate response is their number; ``respond`` follows
        later."""
        result: GroupResult[None] = CoordinatorResult(None)
        return result.responding(delete_offsets(group, topic_partitions, respond, result))

    def expire(self, group: AnyGroup, now_ms: int) -> GroupResult[int]:
        """Delete the expired offsets of a group. The response is their number."""
        result: GroupResult[None] = CoordinatorResult(None)
        return result.responding(expire(group, self._config, now_ms, result))

    def delete_group(self, group: AnyGroup, respond: RespondError) -> GroupResult[None]:
        """Delete an empty group with all its offsets."""
        result: GroupResult[None] = CoordinatorResult(None)
        offsets = delete_group(group, respond, result)
        result.event("group_deleted", group=group.group_id, offsets=offsets)
        return result

    # -- outcomes of appends

    def settle(
        self, append: GroupAppend, error: ErrorCode, base_offset: int, now_ms: int
    ) -> GroupResult[None]:
        """Replay the records of a successful append, and continue according to its purpose.

        Records of a group that was deleted in the meantime are not replayed, so it does not come
        back.
        """
        result: GroupResult[None] = CoordinatorResult(None)
        purpose = append.purpose
        if error is ErrorCode.NONE and self._goes_on(purpose.group):
            producer_id = None if append.transaction is None else append.transaction.producer_id
            for record in append.records:
                self.replay(record, base_offset, producer_id)
        if isinstance(purpose, ModernGroupUpdate):
            self.of_kind(purpose.group).settled(purpose, error, now_ms, result)
        elif isinstance(purpose, OffsetCommit):
            self._offsets_settled(append, error)
            code = offset_write_error(error)
            errors = {tp: refusal or code for tp, refusal in purpose.errors.items()}
            result.reply(purpose.respond, errors)
        elif isinstance(purpose, AssignmentUpdate):
            assignments_stored(purpose, error, self._config, now_ms, result)
        elif isinstance(purpose, StaticMemberReplacement):
            replacement_stored(purpose, error, result)
        elif isinstance(purpose, OffsetDeletion):
            forgets = purpose.may_delete_group and purpose.group.is_forgettable
            if error is ErrorCode.NONE and forgets:
                self._delete(purpose.group, now_ms, result)
            if purpose.respond is not None:
                result.reply(purpose.respond, offset_write_error(error))
        elif isinstance(purpose, GroupDeletion):
            self._group_deletion_settled(purpose, error, now_ms, result)
        else:
            assert isinstance(purpose, EmptyGeneration)
            if error is not ErrorCode.NONE:
                # After a failover the last stored generation comes back; its members time out.
                group_id = purpose.group.group_id
                result.event(
                    "empty_group_not_stored", level="warning", group=group_id, error=error.name
                )
        return result

    def _goes_on(self, group: AnyGroup) -> bool:
        """Whether a group is not deleted: it is there, or one of the other protocol in its place,
        which has its offsets."""
        known = self.groups.get(group.group_id)
        return known is not None and known.offsets is group.offsets

    def _group_deletion_settled(
        self, deletion: GroupDeletion, error: ErrorCode, now_ms: int, result: GroupResult[None]
    ) -> None:
        group, code = deletion.group, offset_write_error(error)
        if error is ErrorCode.NONE:
            if group.is_empty and not group.is_dead:
                self._delete(group, now_ms, result)
            elif not group.is_dead:
                code = ErrorCode.NON_EMPTY_GROUP  # a member has joined meanwhile
        result.reply(deletion.respond, code)

    def _delete(self, group: AnyGroup, now_ms: int, result: GroupResult[None]) -> None:
        assert not group.members, "only a group without members is deleted"
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
        if isinstance(group, ModernGroup):
            group.is_dead = True
            return
        group.transition_to(GroupState.DEAD, now_ms)
        result.effects += (CheckHeartbeat(group, member_id) for member_id in group.pending_members)

    def _offsets_settled(self, append: GroupAppend, error: ErrorCode) -> None:
        """Settle the announced commits of an append that are still pending."""
        group, transaction = append.purpose.group, append.transaction
        for record in append.records:
            if not isinstance(record, OffsetCommitted) or record.committed is None:
                continue
            if transaction is not None:
                group.offsets.settle_in_transaction(transaction.producer_id, record.topic_partition)
            elif error is not ErrorCode.NONE:
                group.offsets.fail(record.topic_partition, record.committed)
        if transaction is not None and self._goes_on(group):
            self._track_transaction(group, transaction.producer_id)
