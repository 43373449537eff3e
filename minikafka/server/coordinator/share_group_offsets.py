"""``ShareGroupOffsets``: initializes, alters, describes and deletes start offsets (KIP-932)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

from minikafka.core.group.modern.partitions import Partitions, intersection, union
from minikafka.core.group.records import GroupRecord
from minikafka.core.group.result import GroupAppendPurpose, GroupTimer, InitializeStates
from minikafka.core.group.shard import GroupShard
from minikafka.core.group.share.group import ShareGroup
from minikafka.core.group.share.offset import UNKNOWN, SharePartitionOffset
from minikafka.core.group.share.states import (
    NO_STATES,
    StatePartitions,
    all_partitions,
    each,
)
from minikafka.core.metadata_image import MetadataImage
from minikafka.core.share.persister import (
    UNINITIALIZED_START_OFFSET,
    InitialState,
    SharePersister,
    StateSummary,
    TopicIdPartition,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.server.coordinator.ports import PartitionEnds
from minikafka.server.coordinator.runtime import CoordinatorContext, CoordinatorRuntime

GroupContext: TypeAlias = CoordinatorContext[
    GroupShard, GroupRecord, GroupAppendPurpose, GroupTimer
]


class ShareGroupOffsets:
    """The share-partitions of the groups that this broker coordinates.

    A change takes three steps: a record of the group announces it, the share coordinators carry it
    out, and another record of the group completes it. After a failure in between the next
    heartbeat, or the operator, repeats the change. Methods raise KafkaError for an error of the
    whole request.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShard, GroupRecord, GroupAppendPurpose, GroupTimer],
        persister: SharePersister,
        end_offsets: PartitionEnds,
        image: Callable[[], MetadataImage],
        now_ms: Callable[[], int],
    ) -> None:
        self._runtime = runtime
        self._persister = persister
        self._end_offsets = end_offsets
        self._image = image
        self._now_ms = now_ms

    async def initialize(self, context: GroupContext, wanted: InitializeStates) -> None:
        """Initialize the states of new share-partitions. Their leaders decide where they start."""
        group, state = wanted.group, InitialState(wanted.state_epoch, UNINITIALIZED_START_OFFSET)
        states = dict.fromkeys(each(wanted.partitions), state)
        errors = await self._persister.initialize_state(group.group_id, states)
        await self._end_initialization(
            context, group, wanted.partitions, is_done=not any(errors.values())
        )

    async def _end_initialization(
        self, context: GroupContext, group: ShareGroup, partitions: Partitions, *, is_done: bool
    ) -> None:
        """Store that states are initialized, or that this has failed. Partitions of topics that
        were deleted meanwhile are ignored."""
        if not _serves(context, group):
            return
        known = group.states or NO_STATES
        wanted = intersection(partitions, known.initializing)
        if wanted:
            change = known.complete if is_done else known.give_up
            await self._store(context, group, change(wanted, self._image()))

    # -- requests

    async def alter(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Let share-partitions of a group without members start at ``offsets``. The first request
        creates the group. Return the error of each partition."""
        context, image = self._require(group_id), self._image()
        shares = context.shard.shares
        group, _ = shares.require_or_create(group_id, creates=True)
        if not group.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        errors = dict.fromkeys(offsets, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        keys = {
            tp: TopicIdPartition(image.topic_ids[tp.topic], tp.partition)
            for tp in offsets
            if image.partition(tp) is not None and tp.topic in image.topic_ids
        }
        if not keys:
            shares.restore(group, None)
            return errors
        partitions = _by_topic(keys.values())
        group.initializing_since.update(dict.fromkeys(partitions, self._now_ms()))
        await self._store(context, group, (group.states or NO_STATES).begin(partitions, image))
        states = {key: InitialState(group.epoch, offsets[tp]) for tp, key in keys.items()}
        outcomes = await self._persister.initialize_state(group_id, states)
        if not any(outcomes.values()):
            await self._end_initialization(context, group, partitions, is_done=True)
        return {**errors, **{tp: outcomes[key] for tp, key in keys.items()}}

    async def delete(
        self, group_id: str, topics: Sequence[str]
    ) -> Mapping[str, tuple[UUID | None, KafkaError | None]]:
        """Delete the states that a group without members has of ``topics``. Return the id of each
        topic, and its error."""
        context, image = self._require(group_id), self._image()
        group = context.shard.shares.require(group_id)
        if not group.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        if group.states is None:
            return {}
        found: dict[str, tuple[UUID | None, KafkaError | None]] = {}
        partitions: Partitions = {}
        for topic in topics:
            topic_id, problem = image.topic_ids.get(topic), _NOTHING_TO_DELETE
            if topic_id is None:
                problem = "This server does not host this topic-partition."
            elif topic_id in group.states.initialized:
                partitions[topic_id] = group.states.initialized[topic_id]
                continue
            elif topic_id in group.states.deleting:
                partitions |= all_partitions([topic_id], image)
                continue
            found[topic] = (None, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, problem))
        await self._store(context, group, group.states.begin_deletion(partitions, image))
        errors = await self._delete_states(context, group, partitions)
        for topic_id, error in errors.items():
            found[image.topic_names[topic_id]] = (topic_id, KafkaError(error) if error else None)
        return found

    async def delete_all(self, context: GroupContext, group: ShareGroup) -> ErrorCode:
        """Delete all states of a group without members, before it is deleted itself."""
        if group.states is None:
            return ErrorCode.NONE
        image, before = self._image(), group.states
        states = before.begin_deletion_of_all(image)
        of_deleting = all_partitions(before.deleting, image)
        partitions = union(union(before.initialized, before.initializing), of_deleting)
        try:
            await self._store(context, group, states)
        except KafkaError as error:
            return error.code
        if not partitions:
            return ErrorCode.NONE
        errors = await self._persister.delete_state(group.group_id, each(partitions))
        return next(filter(None, errors.values()), ErrorCode.NONE)

    async def _delete_states(
        self, context: GroupContext, group: ShareGroup, partitions: Partitions
    ) -> Mapping[UUID, ErrorCode]:
        """Delete states, and store which topics are done. Return the error of each topic."""
        if not partitions:
            return {}
        outcomes = await self._persister.delete_state(group.group_id, each(partitions))
        errors = dict.fromkeys(partitions, ErrorCode.NONE)
        for (topic_id, _), error in outcomes.items():
            errors[topic_id] = errors[topic_id] or error
        gone = [topic_id for topic_id, error in errors.items() if not error]
        if gone and _serves(context, group) and group.states is not None:
            await self._store(context, group, group.states.end_deletion(gone, self._image()))
        return errors

    async def describe(
        self, group_id: str, partitions: Collection[TopicPartition] | None
    ) -> Mapping[TopicPartition, SharePartitionOffset]:
        """Return where share-partitions start. With None, return all share-partitions of the group,
        which this broker must coordinate."""
        image = self._image()
        if partitions is None:
            group = self._runtime.require(group_id).shard.groups.get(group_id)
            keys = each(group.initialized) if isinstance(group, ShareGroup) else []
        else:
            keys = [
                TopicIdPartition(image.topic_ids[topic], partition)
                for topic, partition in partitions
                if topic in image.topic_ids
            ]
        names = {
            key: TopicPartition(image.topic_names[key.topic_id], key.partition)
            for key in keys
            if key.topic_id in image.topic_names
        }
        found: dict[TopicPartition, SharePartitionOffset] = dict.fromkeys(
            partitions or (), SharePartitionOffset()
        )
        if names:
            summaries = await self._persister.read_summary(group_id, list(names))
            found.update(await self._with_lags({names[key]: s for key, s in summaries.items()}))
        return found

    async def _with_lags(
        self, summaries: Mapping[TopicPartition, StateSummary]
    ) -> Mapping[TopicPartition, SharePartitionOffset]:
        """Compute the lags of share-partitions whose start is known. As in Kafka, an error of a
        share coordinator counts as a partition that has not begun."""
        begun = [tp for tp, summary in summaries.items() if _has_begun(summary)]
        ends = await self._end_offsets.latest(begun) if begun else {}
        found: dict[TopicPartition, SharePartitionOffset] = {}
        for tp, summary in summaries.items():
            if summary.error:
                found[tp] = SharePartitionOffset()
            elif not _has_begun(summary):
                found[tp] = SharePartitionOffset(summary.start_offset, summary.leader_epoch)
            else:
                end = ends[tp]
                if isinstance(end, ErrorCode):
                    found[tp] = SharePartitionOffset(0, 0, UNKNOWN, end)
                    continue
                lag = end - summary.start_offset - summary.delivery_complete_count
                found[tp] = SharePartitionOffset(summary.start_offset, summary.leader_epoch, lag)
        return found

    # -- steps

    def _require(self, group_id: str) -> GroupContext:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
        return self._runtime.require(group_id)

    async def _store(
        self, context: GroupContext, group: ShareGroup, states: StatePartitions
    ) -> None:
        """Store the states of the group. Raises KafkaError if the record is not replicated in
        time."""
        stored: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def respond(error: ErrorCode) -> None:
            if not stored.done():  # the client of the request has gone
                stored.set_result(error)

        context.run(context.shard.shares.store_states(group, states, respond))
        error = await stored
        if error:
            raise KafkaError(error)


_NOTHING_TO_DELETE = "There is no offset information to delete."


def _serves(context: GroupContext, group: ShareGroup) -> bool:
    """Whether this broker still coordinates the group, and it was not deleted."""
    return context.is_active and context.shard.groups.get(group.group_id) is group


def _has_begun(summary: StateSummary) -> bool:
    return (
        not summary.error
        and summary.start_offset != UNINITIALIZED_START_OFFSET
        and summary.delivery_complete_count != UNKNOWN
    )


def _by_topic(keys: Iterable[TopicIdPartition]) -> Partitions:
    found: dict[UUID, set[int]] = {}
    for topic_id, partition in keys:
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(numbers) for topic_id, numbers in found.items()}
