"""The group APIs, as far as they do not depend on their versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from minikafka.coordinator.runtime import ShardRuntime
from minikafka.coordinator.shards import GroupShards
from minikafka.core.group.answers import join_error, sync_error
from minikafka.core.group.committing import CommitFacts, delete_group, delete_offsets
from minikafka.core.group.description import FetchedOffset, described, fetched, listed
from minikafka.core.group.group import Group
from minikafka.core.group.joining import JoinFacts
from minikafka.core.group.liveness import heartbeat, leave
from minikafka.core.group.result import CoordinatorResult
from minikafka.core.group.states import GroupState
from minikafka.core.group.syncing import SyncFacts
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.describe_groups import DescribedGroup
from minikafka.protocol.messages.join_group import JoinGroupResponse
from minikafka.protocol.messages.leave_group import MemberIdentity, MemberResponse
from minikafka.protocol.messages.list_groups import ListedGroup
from minikafka.protocol.messages.sync_group import SyncGroupResponse

CLASSIC = "classic"  # the type of all groups that this coordinator knows (KIP-848)


class GroupService:
    """Kafka's ``GroupCoordinator``. What it answers at once it returns, or raises as KafkaError;
    what may have to wait goes to ``reply``, exactly once.

    An empty group id is good for offsets and administration only.
    """

    def __init__(self, shards: GroupShards) -> None:
        self._shards = shards

    # -- members

    def join(
        self, group_id: str, facts: JoinFacts, reply: Callable[[JoinGroupResponse], None]
    ) -> None:
        limits = self._shards.config.group
        try:
            runtime = self._of_members(group_id)
        except KafkaError as error:
            reply(join_error(error.code, facts.member_id))
            return
        shortest, longest = (
            limits.group_min_session_timeout_ms,
            limits.group_max_session_timeout_ms,
        )
        if not shortest <= facts.session_timeout_ms <= longest:
            reply(join_error(ErrorCode.INVALID_SESSION_TIMEOUT, facts.member_id))
            return
        runtime.run(runtime.shard.join(group_id, facts, reply, self._now_ms()))

    def sync(
        self, group_id: str, facts: SyncFacts, reply: Callable[[SyncGroupResponse], None]
    ) -> None:
        try:
            runtime = self._of_members(group_id)
        except KafkaError as error:
            loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            # The rebalance was in the memory of the coordinator before: it has to begin anew. Older
            # clients do not expect to hear of loading here.
            reply(sync_error(ErrorCode.REBALANCE_IN_PROGRESS if loading else error.code))
            return
        runtime.run(runtime.shard.sync(group_id, facts, reply))

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Nobody's session runs while the groups are loaded: then everybody is fine."""
        try:
            runtime = self._of_members(group_id)
        except KafkaError as error:
            loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ErrorCode.NONE if loading else error.code
        group = runtime.shard.groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        result = CoordinatorResult()
        code = heartbeat(group, member_id, group_instance_id, generation_id, result)
        runtime.run(result)
        return code

    def leave(self, group_id: str, identities: Sequence[MemberIdentity]) -> list[MemberResponse]:
        """Raises KafkaError for the request as a whole."""
        runtime = self._of_members(group_id)
        group = runtime.shard.groups.get(group_id)
        if group is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            return [
                MemberResponse(who.member_id, who.group_instance_id, unknown) for who in identities
            ]
        result = CoordinatorResult()
        now_ms = self._now_ms()
        answers = leave(group, identities, self._shards.config.group, now_ms, result)
        runtime.run(result)
        return answers

    # -- offsets

    def commit(
        self,
        group_id: str,
        facts: CommitFacts,
        reply: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        try:
            runtime = self._shards.require(group_id)
        except KafkaError as error:
            reply(dict.fromkeys(facts.offsets, error.code))
            return
        runtime.run(runtime.shard.commit(group_id, facts, reply, self._now_ms()))

    def transaction_ended(
        self, producer_id: int, markers: Mapping[int, int], committed: bool
    ) -> None:
        """Its markers are in these partitions of ``__consumer_offsets``, at these offsets, on all
        in-sync replicas. One that is being loaded comes to the marker by itself."""
        for partition, offset in markers.items():
            runtime = self._shards.of_partition(partition)
            if runtime is not None and not runtime.loading:
                runtime.shard.replay_end_of_transaction(producer_id, offset, committed)

    def partition_for(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` that its offsets go to."""
        return self._shards.partition_for(group_id)

    def fetch(
        self,
        group_id: str,
        topic_partitions: Sequence[TopicPartition] | None,
        require_stable: bool,
    ) -> list[FetchedOffset]:
        """None: all that are committed. Raises KafkaError."""
        group = self._shards.require(group_id).shard.groups.get(group_id)
        return fetched(group, topic_partitions, require_stable)

    def delete_offsets(
        self,
        group_id: str,
        topic_partitions: Sequence[TopicPartition],
        reply: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Raises KafkaError for the request as a whole."""
        runtime = self._of_members(group_id)
        group = runtime.shard.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not GroupState.EMPTY and not group.is_consumer_group:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        kept = {
            topic_partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            for topic_partition in topic_partitions
            if group.state is not GroupState.EMPTY
            and group.may_be_subscribed_to(topic_partition.topic)
        }
        gone = [tp for tp in topic_partitions if tp not in kept]

        def answer(error: ErrorCode) -> None:
            reply({**kept, **dict.fromkeys(gone, error)})

        result = CoordinatorResult()
        delete_offsets(group, gone, answer, result)
        runtime.run(result)

    def partitions_deleted(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Nobody can consume them any more: their offsets go in every group."""
        self._shards.forget_offsets(topic_partitions)

    # -- administration

    def describe(self, group_id: str) -> DescribedGroup:
        try:
            runtime = self._shards.require(group_id)
        except KafkaError as error:
            return DescribedGroup(error.code, group_id)
        return described(group_id, runtime.shard.groups.get(group_id))

    def list_groups(
        self, states: Iterable[str], types: Iterable[str]
    ) -> tuple[ErrorCode, list[ListedGroup]]:
        """Filters in any case; empty ones take everything. What is loaded so far comes with
        COORDINATOR_LOAD_IN_PROGRESS."""
        if self._shards.is_closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        loading = self._shards.is_loading
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE
        wanted_types = {name.lower() for name in types}
        if wanted_types and CLASSIC not in wanted_types:
            return error, []
        wanted = {name.lower() for name in states}
        return error, [
            listed(group, CLASSIC)
            for _, group in self._shards.groups()
            if not wanted or group.state.value.lower() in wanted
        ]

    def delete_groups(
        self, group_ids: Iterable[str], reply: Callable[[Mapping[str, ErrorCode]], None]
    ) -> None:
        """Groups without members, each answered by itself."""
        wanted = list(dict.fromkeys(group_ids))
        errors: dict[str, ErrorCode] = {}

        def answer(group_id: str, error: ErrorCode) -> None:
            errors[group_id] = error
            if len(errors) == len(wanted):
                reply(errors)

        if not wanted:
            reply(errors)
        for group_id in wanted:
            self._delete_one(group_id, answer)

    def _delete_one(self, group_id: str, answer: Callable[[str, ErrorCode], None]) -> None:
        try:
            runtime = self._shards.require(group_id)
        except KafkaError as error:
            answer(group_id, error.code)
            return
        group = runtime.shard.groups.get(group_id)
        if group is None:
            answer(group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        elif group.state is not GroupState.EMPTY:
            answer(group_id, ErrorCode.NON_EMPTY_GROUP)
        else:
            result = CoordinatorResult()
            offsets = delete_group(group, lambda error: answer(group_id, error), result)
            result.note("group_deleted", group, offsets=offsets)
            runtime.run(result)

    # -- help

    def _of_members(self, group_id: str) -> ShardRuntime:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return self._shards.require(group_id)

    def _now_ms(self) -> int:
        return self._shards.clock.wall_ms()

    def group(self, group_id: str) -> Group | None:
        """For whoever looks in; None when it is not served here."""
        try:
            return self._shards.require(group_id).shard.groups.get(group_id)
        except KafkaError:
            return None
