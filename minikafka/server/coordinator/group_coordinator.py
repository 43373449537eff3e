"""The group coordinator: the group APIs, and the expiry of offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from minikafka.core.group.committing import CommitFacts
from minikafka.core.group.consumer.heartbeat import HeartbeatFacts
from minikafka.core.group.description import (
    FetchedOffset,
    check_fetch,
    consumer_described,
    described,
    fetched,
    listed,
    share_described,
)
from minikafka.core.group.group import Group, RespondJoin, RespondSync
from minikafka.core.group.joining import JoinFacts
from minikafka.core.group.rebalance import SyncFacts
from minikafka.core.group.records import GroupRecord
from minikafka.core.group.result import (
    AnyGroup,
    GroupAppendPurpose,
    GroupTimer,
    InitializeStates,
    ResolveRegexes,
    RespondHeartbeat,
    RespondOffsets,
    RespondShareHeartbeat,
    heartbeat_error,
    join_error,
    share_heartbeat_error,
    sync_error,
)
from minikafka.core.group.settings import SettingsOf
from minikafka.core.group.shard import GroupShard
from minikafka.core.group.share.group import ShareGroup
from minikafka.core.group.share.heartbeat import ShareHeartbeatFacts
from minikafka.core.group.streams.description import streams_described
from minikafka.core.group.streams.heartbeat import StreamsHeartbeat
from minikafka.core.group.streams.heartbeat import check_request as check_streams_request
from minikafka.core.group.streams_groups import RespondStreams, refused_heartbeat
from minikafka.core.metadata_image import MetadataImage
from minikafka.core.regexes import compiled
from minikafka.core.share.persister import SharePersister
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock
from minikafka.kernel.slices import Slices, in_slices
from minikafka.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from minikafka.protocol.messages.describe_groups import DescribedGroup
from minikafka.protocol.messages.leave_group import MemberIdentity, MemberResponse
from minikafka.protocol.messages.list_groups import ListedGroup
from minikafka.protocol.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from minikafka.protocol.messages.streams_group_describe import (
    DescribedGroup as DescribedStreamsGroup,
)
from minikafka.server.coordinator.config import GroupCoordinatorConfig
from minikafka.server.coordinator.group_timers import GroupContext, GroupTimers
from minikafka.server.coordinator.ports import DelayedOperationPurgatory, InternalLog, PartitionEnds
from minikafka.server.coordinator.runtime import CoordinatorRuntime, RuntimeConfig
from minikafka.server.coordinator.share_group_offsets import ShareGroupOffsets


class GroupCoordinator:
    """The group coordinator of one broker, which the request handlers call.

    ``respond`` arguments are called exactly once, now or later. Methods that return a response
    raise KafkaError for an error of the whole request. An empty group id is valid only for
    offsets and administration. Kafka: ``GroupCoordinator``.
    """

    def __init__(
        self,
        clock: Clock,
        log: InternalLog,
        rebalances: DelayedOperationPurgatory,
        heartbeats: DelayedOperationPurgatory,
        config: GroupCoordinatorConfig,
        settings: SettingsOf,
        partition_count: Callable[[], int],
        image: Callable[[], MetadataImage],
        persister: SharePersister,
        end_offsets: PartitionEnds,
        events: EventLog,
    ) -> None:
        self._clock = clock
        self._log = log
        self._config = config
        self._events = events
        self._image = image
        timers = GroupTimers(
            clock,
            rebalances,
            heartbeats,
            image,
            self._start_resolution,
            self._start_initialization,
        )
        self.runtime: CoordinatorRuntime[
            GroupShard, GroupRecord, GroupAppendPurpose, GroupTimer
        ] = CoordinatorRuntime(
            clock,
            log,
            lambda: GroupShard(config.group, settings),
            timers.perform,
            partition_count,
            RuntimeConfig("groups", config.offsets_load_buffer_size, config.compression),
            events,
        )
        self.share_offsets = ShareGroupOffsets(
            self.runtime, persister, end_offsets, image, clock.wall_ms
        )

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self.runtime.start(tasks)
        self.runtime.start_task(self._expire_forever(), "delete-expired-group-metadata")

    def close(self) -> None:
        """Stop the runtime. Parked requests get no response: the broker closes their
        connections."""
        self.runtime.close()

    # -- members

    def join(self, group_id: str, facts: JoinFacts, respond: RespondJoin) -> None:
        """Handle JoinGroup. ``respond`` is called when the joining phase is complete, or with an
        error."""
        limits = self._config.group
        try:
            context = self._require_named(group_id)
        except KafkaError as error:
            respond(join_error(error.code, facts.member_id))
            return
        shortest, longest = (
            limits.group_min_session_timeout_ms,
            limits.group_max_session_timeout_ms,
        )
        if not shortest <= facts.session_timeout_ms <= longest:
            respond(join_error(ErrorCode.INVALID_SESSION_TIMEOUT, facts.member_id))
            return
        context.run(context.shard.join(group_id, facts, respond, self._image(), context.now_ms()))

    def sync(self, group_id: str, facts: SyncFacts, respond: RespondSync) -> None:
        """Handle SyncGroup. ``respond`` is called when the assignments are stored, or with an
        error."""
        try:
            context = self._require_named(group_id)
        except KafkaError as error:
            # While loading: the rebalance was known to the previous coordinator only and has to
            # begin again. Older clients do not expect COORDINATOR_LOAD_IN_PROGRESS here.
            loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            respond(sync_error(ErrorCode.REBALANCE_IN_PROGRESS if loading else error.code))
            return
        context.run(context.shard.sync(group_id, facts, respond, self._image()))

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Handle Heartbeat and return the error code.

        While the groups are loading no session times out, so every heartbeat succeeds.
        """
        try:
            context = self._require_named(group_id)
        except KafkaError as error:
            loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ErrorCode.NONE if loading else error.code
        return context.run(
            context.shard.heartbeat(group_id, member_id, group_instance_id, generation_id)
        )

    def consumer_heartbeat(
        self, group_id: str, facts: HeartbeatFacts, respond: RespondHeartbeat
    ) -> None:
        """Handle ConsumerGroupHeartbeat. ``respond`` is called when the member's new state is
        replicated, or with an error."""
        try:
            if not group_id:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
            context = self.runtime.require(group_id)
        except KafkaError as error:
            respond(heartbeat_error(error))
            return
        heartbeat = context.shard.consumers.heartbeat
        context.run(heartbeat(group_id, facts, respond, self._image(), context.now_ms()))

    def share_heartbeat(
        self, group_id: str, facts: ShareHeartbeatFacts, respond: RespondShareHeartbeat
    ) -> None:
        """Handle ShareGroupHeartbeat. ``respond`` is called when the member's new state is
        replicated, or with an error."""
        try:
            if not group_id:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
            context = self.runtime.require(group_id)
        except KafkaError as error:
            respond(share_heartbeat_error(error))
            return
        heartbeat = context.shard.shares.heartbeat
        context.run(heartbeat(group_id, facts, respond, self._image(), context.now_ms()))

    def _start_initialization(self, context: GroupContext, wanted: InitializeStates) -> None:
        self.runtime.start_task(
            self._initialize_states(context, wanted), "initialize-share-partitions"
        )

    async def _initialize_states(self, context: GroupContext, wanted: InitializeStates) -> None:
        try:
            await self.share_offsets.initialize(context, wanted)
        except KafkaError as error:
            # A later heartbeat asks again.
            self._events.warning(
                "share_partitions_not_initialized",
                group=wanted.group.group_id,
                error=error.code.name,
            )

    def streams_heartbeat(self, facts: StreamsHeartbeat, respond: RespondStreams) -> None:
        """Handle StreamsGroupHeartbeat. ``respond`` is called when the member's new state is
        replicated, or with an error."""
        try:
            check_streams_request(facts.request)
            context = self.runtime.require(facts.request.group_id)
        except KafkaError as error:
            respond(refused_heartbeat(error))
            return
        heartbeat = context.shard.streams.heartbeat
        context.run(heartbeat(facts, respond, self._image(), context.now_ms()))

    def leave(self, group_id: str, identities: Sequence[MemberIdentity]) -> list[MemberResponse]:
        """Handle LeaveGroup and return the response row of each member."""
        context = self._require_named(group_id)
        return context.run(
            context.shard.leave(group_id, identities, self._image(), context.now_ms())
        )

    def _start_resolution(self, context: GroupContext, request: ResolveRegexes) -> None:
        self.runtime.start_task(self._resolve_regexes(context, request), "resolve-regexes")

    async def _resolve_regexes(self, context: GroupContext, request: ResolveRegexes) -> None:
        """Look up the topics of a group's regular expressions, in slices: there may be many."""
        image, group = self._image(), request.group
        patterns = compiled(group.regexes_in_use)
        found: dict[str, list[str]] = {regex: [] for regex in patterns}
        async for topic in Slices().over(image.topics):
            for regex, pattern in patterns.items():
                if pattern.fullmatch(topic) is not None:
                    found[regex].append(topic)
        shown = set(await request.describable(list(set().union(*found.values()))))
        found = {regex: [each for each in found[regex] if each in shown] for regex in found}
        if context.is_active:
            context.run(context.shard.consumers.resolved(group, found, image, context.now_ms()))

    # -- offsets

    def commit(self, group_id: str, facts: CommitFacts, respond: RespondOffsets) -> None:
        """Handle OffsetCommit and TxnOffsetCommit. ``respond`` gets the error code of each
        partition."""
        try:
            context = self.runtime.require(group_id)
        except KafkaError as error:
            respond(dict.fromkeys(facts.offsets, error.code))
            return
        context.run(context.shard.commit(group_id, facts, respond, context.now_ms()))

    def transaction_ended(
        self, producer_id: int, markers: Mapping[int, int], committed: bool
    ) -> None:
        """Apply the replicated markers of a transaction to the offsets committed in it.

        ``markers`` maps partitions of ``__consumer_offsets`` to the log offsets of the markers.
        A partition that is loading reads its marker from the log.
        """
        for partition, offset in markers.items():
            context = self.runtime.active_in(partition)
            if context is not None:
                context.shard.replay_end_transaction_marker(producer_id, offset, committed)

    def partition_for(self, group_id: str) -> int:
        """Return the partition of ``__consumer_offsets`` that holds the group's offsets."""
        return self.runtime.partition_for(group_id)

    def fetch(
        self,
        group_id: str,
        topic_partitions: Sequence[TopicPartition],
        require_stable: bool,
        *,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> list[FetchedOffset]:
        """Handle OffsetFetch for given partitions. A member of a consumer group says its epoch.

        Raises KafkaError.
        """
        group = self._require_group(group_id)
        check_fetch(group, member_id, member_epoch)
        return fetched(group, topic_partitions, require_stable)

    def fetch_all(
        self,
        group_id: str,
        require_stable: bool,
        *,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> list[FetchedOffset]:
        """Handle OffsetFetch for all committed offsets of the group. Raises KafkaError."""
        group = self._require_group(group_id)
        check_fetch(group, member_id, member_epoch)
        return fetched(group, () if group is None else group.offsets, require_stable)

    def delete_offsets(
        self, group_id: str, topic_partitions: Sequence[TopicPartition], respond: RespondOffsets
    ) -> None:
        """Handle OffsetDelete. Raises KafkaError for an error of the whole request."""
        context = self._require_named(group_id)
        group = context.shard.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if isinstance(group, ShareGroup):
            problem = f"Group {group_id} is not a consumer group."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, problem)
        if isinstance(group, Group) and not group.is_empty and not group.is_consumer_group:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        topics = {topic_partition.topic for topic_partition in topic_partitions}
        subscribed = set() if group.is_empty else group.subscribed_among(topics)
        kept = {
            topic_partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            for topic_partition in topic_partitions
            if topic_partition.topic in subscribed
        }
        deleted = [tp for tp in topic_partitions if tp not in kept]

        def respond_all(error: ErrorCode) -> None:
            respond({**kept, **dict.fromkeys(deleted, error)})

        context.run(context.shard.delete_offsets(group, deleted, respond_all))

    # -- administration

    def describe(self, group_id: str) -> DescribedGroup:
        """Handle DescribeGroups for one group."""
        try:
            group = self._require_group(group_id)
        except KafkaError as error:
            return DescribedGroup(error.code, group_id=group_id)
        return described(group_id, group)

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        """Handle ConsumerGroupDescribe for one group."""
        try:
            group = self.runtime.require(group_id).shard.consumers.require(group_id)
        except KafkaError as error:
            return DescribedConsumerGroup(error.code, error.message, group_id)
        return consumer_described(group, self._image(), self._config.group.consumer)

    def describe_share_group(self, group_id: str) -> DescribedShareGroup:
        """Handle ShareGroupDescribe for one group."""
        try:
            group = self._require_named(group_id).shard.shares.require(group_id)
        except KafkaError as error:
            return DescribedShareGroup(error.code, error.message, group_id)
        return share_described(group, self._image())

    def describe_streams_group(self, group_id: str) -> DescribedStreamsGroup:
        """Handle StreamsGroupDescribe for one group."""
        try:
            group = self._require_named(group_id).shard.streams.require(group_id)
        except KafkaError as error:
            return DescribedStreamsGroup(error.code, error.message, group_id)
        return streams_described(group)

    def list_groups(
        self, states: Iterable[str], types: Iterable[str]
    ) -> tuple[ErrorCode, list[ListedGroup]]:
        """Handle ListGroups for the groups that this broker coordinates.

        The filters are case-insensitive; an empty one does not filter. While partitions are
        loading, the groups loaded so far are returned with COORDINATOR_LOAD_IN_PROGRESS.
        """
        if self.runtime.is_closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        loading = self.runtime.is_loading
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE
        wanted_types = {name.lower() for name in types}
        wanted = {name.lower() for name in states}
        rows = (listed(group) for _, group in self.groups())
        return error, [
            row
            for row in rows
            if (not wanted or row.group_state.lower() in wanted)
            and (not wanted_types or row.group_type.lower() in wanted_types)
        ]

    def delete_groups(
        self, group_ids: Iterable[str], respond: Callable[[Mapping[str, ErrorCode]], None]
    ) -> None:
        """Handle DeleteGroups. ``respond`` gets the error code of each group."""
        wanted = list(dict.fromkeys(group_ids))
        errors: dict[str, ErrorCode] = {}

        def deleted(group_id: str, error: ErrorCode) -> None:
            errors[group_id] = error
            if len(errors) == len(wanted):
                respond(errors)

        if not wanted:
            respond(errors)
        for group_id in wanted:
            self._delete_group(group_id, deleted)

    def _delete_group(self, group_id: str, deleted: Callable[[str, ErrorCode], None]) -> None:
        try:
            context = self.runtime.require(group_id)
        except KafkaError as error:
            deleted(group_id, error.code)
            return
        group = context.shard.groups.get(group_id)
        if group is None:
            deleted(group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        elif not group.is_empty:
            deleted(group_id, ErrorCode.NON_EMPTY_GROUP)
        elif isinstance(group, ShareGroup):
            task = self._delete_share_group(context, group, deleted)
            self.runtime.start_task(task, "delete-share-group")
        else:
            context.run(context.shard.delete_group(group, lambda error: deleted(group_id, error)))

    async def _delete_share_group(
        self,
        context: GroupContext,
        group: ShareGroup,
        deleted: Callable[[str, ErrorCode], None],
    ) -> None:
        """Delete the states of a group's share-partitions, then the group."""
        group_id = group.group_id
        error = _deletion_error(context, group)
        if not error:
            error = await self.share_offsets.delete_all(context, group)
        if not error:
            error = _deletion_error(context, group)  # it may have changed meanwhile
        if error:
            deleted(group_id, error)
        else:
            context.run(context.shard.delete_group(group, lambda code: deleted(group_id, code)))

    # -- deletion of offsets

    async def _expire_forever(self) -> None:
        while True:
            await self._clock.sleep(self._config.offsets_retention_check_interval_ms)
            await self.expire()

    async def expire(self) -> None:
        """Delete the expired offsets of every group."""

        def expire(context: GroupContext, group: AnyGroup) -> int:
            return context.run(context.shard.expire(group, context.now_ms()))

        expired = await self._delete_in_slices(expire)
        if expired:
            self._events.info("offsets_expired", offsets=expired)

    def partitions_deleted(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Start to delete the offsets of deleted partitions in every group.

        Offsets committed from now on are kept: they belong to a new topic of the same name.
        """
        gone = dict.fromkeys(topic_partitions)
        bounds = {
            context.partition: self._log.bounds(context.partition)
            for context in self.runtime.active()
        }
        ends = {partition: bound[1] for partition, bound in bounds.items() if bound is not None}

        def forget(context: GroupContext, group: AnyGroup) -> int:
            if isinstance(group, ShareGroup):
                context.run(context.shard.shares.forget_topics(group, self._image()))
                return 0
            offsets, end = group.offsets, ends.get(context.partition, 0)
            fewer = offsets if len(offsets) < len(gone) else gone
            found = [tp for tp in fewer if tp in gone and offsets.is_older(tp, end)]
            if not found:
                return 0
            return context.run(context.shard.delete_offsets(group, found, None))

        if not self.runtime.is_closed:
            self.runtime.start_task(self._delete_in_slices(forget), "forget-offsets")

    async def _delete_in_slices(self, delete: Callable[[GroupContext, AnyGroup], int]) -> int:
        """Call ``delete`` for each group; return the number of deleted offsets."""
        deleted = 0
        async for context, group in in_slices(self.groups(), look_every=1):
            if not group.is_dead:
                deleted += delete(context, group)
        return deleted

    # -- groups

    def groups(self) -> Iterator[tuple[GroupContext, AnyGroup]]:
        """Iterate over the groups of all active partitions. Groups may change during the
        iteration."""
        for context in self.runtime.active():
            for group in list(context.shard.groups.values()):
                yield context, group

    @property
    def num_groups(self) -> int:
        return sum(context.shard.size for context in self.runtime.active())

    def _require_group(self, group_id: str) -> AnyGroup | None:
        """Return a group, None if it does not exist. Raises KafkaError if it is not coordinated
        here."""
        return self.runtime.require(group_id).shard.groups.get(group_id)

    def _require_named(self, group_id: str) -> GroupContext:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return self.runtime.require(group_id)


def _deletion_error(context: GroupContext, group: ShareGroup) -> ErrorCode:
    """Return the error for which a group cannot be deleted, or NONE."""
    if not context.is_active:
        return ErrorCode.NOT_COORDINATOR
    if context.shard.groups.get(group.group_id) is not group:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.is_empty else ErrorCode.NON_EMPTY_GROUP
