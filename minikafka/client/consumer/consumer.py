"""The consumer: records of partitions assigned by hand, or of topics shared within a group."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

from minikafka.client.config import ClientConfig
from minikafka.client.consumer.config import ConsumerConfig
from minikafka.client.consumer.fetcher import Fetcher, FetcherConfig
from minikafka.client.consumer.group_consumer import CommitFailedError, GroupConsumer
from minikafka.client.consumer.subscription import (
    RebalanceListener,
    SubscriptionPattern,
    TopicSubscription,
)
from minikafka.client.offsets import list_offsets
from minikafka.client.serialization import record_deserializer
from minikafka.client.session import Client
from minikafka.client.task_waits import wait_for_event
from minikafka.core.client.consumer.fetched import BatchRun, ConsumerRecord, ConsumerRecords
from minikafka.core.client.consumer.positions import Positions
from minikafka.core.client.offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    with_metadata,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.extras import imports_of
from minikafka.kernel.ports import World

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

__all__ = [
    "CommitFailedError",
    "Consumer",
    "ConsumerConfig",
    "ConsumerRecord",
    "ConsumerRecords",
    "RebalanceListener",
    "SubscriptionPattern",
]

MANY_BYTES: Final = 8 * 1024 * 1024
_NO_LIMIT: Final = 1 << 62


class Consumer(Client):
    """A consumer of partitions, assigned by hand or by a group. Only one task may use it at a
    time.

    Joining the group, calls of the listener and automatic commits happen inside ``poll`` or
    iteration. Only fetches, within the buffer's bounds, and heartbeats run in the background. A
    consumer that does not poll for ``max_poll_interval_ms`` leaves the group.

    The end of the ``async with`` block commits (with ``enable_auto_commit``) and leaves the
    group; after an exception it leaves without a commit, so that the last records are consumed
    again.
    """

    def __init__(
        self, world: World, config: ClientConfig, consumer_config: ConsumerConfig | None = None
    ) -> None:
        super().__init__(world, config)
        self._config = consumer_config or ConsumerConfig()
        self._reset_timestamp = self._config.reset_timestamp
        self._isolation_level = self._config.isolation
        self._positions = Positions(self._config.fetch_max_bytes)
        self._fetcher = Fetcher(
            self.session,
            self._positions,
            FetcherConfig(
                max_wait_ms=self._config.fetch_max_wait_ms,
                min_bytes=self._config.fetch_min_bytes,
                max_bytes=self._config.fetch_max_bytes,
                max_partition_bytes=self._config.max_partition_fetch_bytes,
                isolation_level=self._isolation_level,
                check_crcs=self._config.check_crcs,
                reset_timestamp=self._reset_timestamp,
                rack=self._config.client_rack,
            ),
            record_deserializer(self._config.key_deserializer, self._config.value_deserializer),
        )
        self._group: GroupConsumer | None = None
        if (group := self._config.group()) is not None:
            self._group = GroupConsumer(
                self.session,
                self._positions,
                group,
                self._config,
                self._reset_timestamp,
                self._fetcher.news.set,
            )
        self._closed = False
        self.records_consumed = 0

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self.session.start(tasks)
        self._fetcher.start(tasks)
        if self._group is not None:
            self._group.start(tasks)

    async def close(self) -> None:
        await self._end(commit=True)

    async def abort(self) -> None:
        await self._end(commit=False)

    async def _end(self, commit: bool) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            if self._group is not None:
                await self._group.close(commit)
        finally:
            await self._fetcher.close()
            await self.session.close()

    # -- where to read
    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share these topics, or all whose names match ``pattern``, with the group. Replaces an
        earlier subscription. Raises RuntimeError without a group, or after ``assign``; ValueError
        for a SubscriptionPattern with the classic protocol."""
        if self._group is None:
            raise RuntimeError("a subscription needs a group_id")
        if self._group.subscription is None and self._positions.assigned:
            raise RuntimeError("partitions are assigned by hand; assign([]) first")
        if isinstance(pattern, SubscriptionPattern) and not self._config.is_consumer_protocol:
            raise ValueError("a SubscriptionPattern needs group_protocol='consumer'")
        excluding = self._config.exclude_internal_topics
        self._group.subscribe(TopicSubscription.to(topics, pattern, excluding), listener)

    async def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group if there was a subscription.

        Raises what the listener raises.
        """
        if self._group is not None:
            await self._group.unsubscribe()
        self._positions.assign([], None)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment. New partitions start at the group's committed offset if there is
        one, otherwise as ``auto_offset_reset`` says, unless one of the seeks is called; with "none"
        a seek is needed. Raises RuntimeError after ``subscribe``."""
        if self._group is not None and self._group.subscription is not None:
            raise RuntimeError("the group assigns partitions; unsubscribe first")
        wanted = list(partitions)
        by_group = self._group is not None
        self._positions.assign(wanted, self._reset_timestamp, committed_wanted=by_group)
        self.session.metadata.add_topics({tp.topic for tp in wanted})

    async def assign_topics(self, *topics: str) -> list[TopicPartition]:
        """Assign every partition of these topics, and return them. Raises KafkaError when a topic
        is not found within ``default_api_timeout_ms``."""
        deadline_ms = self.session.deadline_ms()
        found: list[TopicPartition] = []
        for name in topics:
            view = await self.session.metadata.topic(name, self.session.remaining_ms(deadline_ms))
            found.extend(TopicPartition(name, partition) for partition in view.partitions)
        self.assign(found)
        return found

    @property
    def assignment(self) -> list[TopicPartition]:
        return sorted(self._positions.assigned)

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Continue at ``offset``. Raises KeyError for a partition that is not assigned."""
        self._positions.seek(topic_partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first offset; of all assigned partitions when none is named."""
        self._seek_to(EARLIEST_TIMESTAMP, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue at the end of the log as of the next poll."""
        self._seek_to(LATEST_TIMESTAMP, partitions)

    def seek_to_timestamp(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Continue at the first record of that time or later; at the end if there is none."""
        self._seek_to(timestamp_ms, partitions)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until ``resume``, or until a rebalance takes a
        partition away."""
        for tp in partitions:
            self._positions.pause(tp)

    def resume(self, *partitions: TopicPartition) -> None:
        for tp in partitions:
            self._positions.resume(tp)
        self._fetcher.news.set()

    @property
    def paused(self) -> list[TopicPartition]:
        return sorted(self._positions.paused)

    async def position(self, topic_partition: TopicPartition) -> int:
        """Return the offset of the next record. Raises KafkaError when it is not found in time."""
        deadline_ms = self.session.deadline_ms()
        while (position := self._positions.position(topic_partition)) is None:
            if self._group is not None:
                await self._group.step()
            self._check_position_will_come(topic_partition)
            await self._progress(deadline_ms, topic_partition)
        return position

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """Return the high watermark as of the last fetch; -1 before it."""
        return self._positions.high_watermark(topic_partition)

    def lag(self, topic_partition: TopicPartition) -> int | None:
        """Return the number of offsets up to the high watermark, or with ``read_committed`` up to
        the last stable offset, as of the last fetch. None before the first one. Raises KeyError.
        """
        position = self._positions.position(topic_partition)
        end = self._positions.high_watermark(topic_partition)
        if self._isolation_level:
            end = self._positions.last_stable_offset(topic_partition)
        return None if position is None or end < 0 else max(0, end - position)

    # -- the group

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        """Commit the next offsets to consume, by default those after all returned records.

        Raises CommitFailedError when other members have the partitions now, KafkaError for other
        errors, RuntimeError without a group.
        """
        group = self._the_group()
        wanted = group.consumed() if offsets is None else with_metadata(offsets)
        await group.offsets.commit(wanted, self.session.deadline_ms())

    async def committed(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group has committed, None where nothing is; of all assigned partitions
        when none is named. Raises KafkaError, RuntimeError without a group."""
        wanted = partitions or self.assignment
        return await self._the_group().offsets.committed(wanted, self.session.deadline_ms())

    @property
    def group_metadata(self) -> GroupMetadata:
        """Return this member, for ``Producer.send_offsets_to_transaction``. One that has lost its
        partitions stays what it was until it joins again. Raises RuntimeError without a group."""
        return self._the_group().metadata

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that ``commit`` commits by default: those after all returned
        records.

        Raises RuntimeError without a group.
        """
        return self._the_group().consumed()

    def _the_group(self) -> GroupConsumer:
        if self._group is None:
            raise RuntimeError("there is no group: group_id is not set")
        return self._group

    # -- reading

    async def poll(
        self, timeout_ms: int = 1_000, max_records: int | None = None
    ) -> list[ConsumerRecord]:
        """Return records as soon as there are any, an empty list after ``timeout_ms``.

        Raises KafkaError: OFFSET_OUT_OF_RANGE with ``auto_offset_reset`` "none", authorisation
        failures, corrupt batches, offsets that could not be looked up,
        RecordDeserializationError.
        """
        limit = self._config.max_poll_records if max_records is None else max_records
        records = await self._poll(timeout_ms, partial(self._positions.take, limit))
        self.records_consumed += len(records)
        return records

    async def poll_many(
        self,
        timeout_ms: int = 1_000,
        *,
        max_records: int | None = None,
        max_bytes: int = MANY_BYTES,
    ) -> list[ConsumerRecords]:
        """Return whole batches as soon as there are any, an empty list after ``timeout_ms``.

        Each is a sequence of its records, which are made when they are read; ``values``, ``keys``,
        ``offsets`` and their like are there without them. Keys and values are bytes; deserializers
        have no part in it. About ``max_bytes`` of batches, as they were fetched, and not
        ``max_poll_records`` but ``max_records`` bound the result. Raises as ``poll``.
        """
        limit = _NO_LIMIT if max_records is None else max_records
        take = partial(self._positions.take_runs, _by_batches, limit, max_bytes)
        runs = await self._poll(timeout_ms, take)
        batches = list(chain.from_iterable(runs))
        self.records_consumed += sum(map(len, batches))
        return batches

    async def poll_arrow(
        self,
        timeout_ms: int = 1_000,
        *,
        max_records: int | None = None,
        max_bytes: int = MANY_BYTES,
    ) -> pa.Table:
        """Return records as an Arrow table as soon as there are any, an empty one after
        ``timeout_ms``. Needs the extra ``arrow``.

        The columns are those of Spark's Kafka connector: key, value, topic, partition, offset,
        timestamp, timestampType (1: the broker's time), headers. Bounds and bytes are as with
        ``poll_many``. Raises as ``poll``, KafkaError INVALID_TIMESTAMP for a timestamp beyond the
        range of the column, and MissingExtraError.
        """
        with imports_of("arrow", "poll_arrow"):
            from minikafka.client.consumer.arrow_tables import decode_run, table_of

        limit = _NO_LIMIT if max_records is None else max_records
        take = partial(self._positions.take_runs, decode_run, limit, max_bytes)
        table = table_of(await self._poll(timeout_ms, take))
        self.records_consumed += table.num_rows
        return table

    async def _poll(self, timeout_ms: int, take: Callable[[], list[T]]) -> list[T]:
        """Return what ``take`` takes from the buffer, as soon as it takes anything."""
        if self._group is None:
            return await self._take(timeout_ms, take)
        self._group.member.poll_begins()
        try:
            return await self._take(timeout_ms, take)
        finally:
            self._group.member.poll_ends()

    async def _take(self, timeout_ms: int, take: Callable[[], list[T]]) -> list[T]:
        deadline_ms = self.session.deadline_ms(timeout_ms)
        news = self._fetcher.news
        while True:
            news.clear()
            error = self._fetcher.take_error()
            if error is not None:
                raise error
            if self._group is not None:
                await self._group.step()
            taken = take()
            self._fetcher.advance()
            left_ms = deadline_ms - self.session.world.clock.monotonic_ms()
            if taken or left_ms <= 0:
                return taken
            await wait_for_event(news, left_ms)

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Iterate over records without end. A record counts as consumed when the next one is
        requested, or the loop is left. Raises as ``poll``."""
        return self

    async def __anext__(self) -> ConsumerRecord:
        positions = self._positions  # a rebalance replaces its ``unread``
        if positions.unread and self._group is not None and self._group.commit_is_due:
            await self.poll(timeout_ms=0, max_records=0)
        while not positions.unread:
            positions.unread.extend(await self.poll())
        return positions.unread.popleft()

    async def read_to(
        self, end_offsets: Mapping[TopicPartition, int] | None = None
    ) -> AsyncIterator[ConsumerRecord]:
        """Iterate over the records before the end offsets, by default the current ones.

        The positions end exactly there, unless the caller stops earlier. Raises as ``poll``.
        """
        ends = dict(await self.end_offsets() if end_offsets is None else end_offsets)
        deadline_ms = self.session.deadline_ms()
        while True:
            open_ends = [tp for tp, end in ends.items() if self._is_before(tp, end)]
            if not open_ends:
                break
            records = await self.poll(timeout_ms=100)
            for record in records:
                end = ends.get(TopicPartition(record.topic, record.partition))
                if end is None or record.offset < end:
                    yield record
            if records:
                deadline_ms = self.session.deadline_ms()
            elif self.session.world.clock.monotonic_ms() >= deadline_ms:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT, f"{open_ends[0]}: end offset not reached"
                )
        for tp, end in ends.items():
            if await self.position(tp) > end:
                self._positions.seek(tp, end)

    async def end_offsets(self) -> dict[TopicPartition, int]:
        """Return the ends of the assigned partitions: high watermarks, or last stable offsets with
        ``read_committed``. Raises KafkaError."""
        return await self._offsets(LATEST_TIMESTAMP)

    async def beginning_offsets(self) -> dict[TopicPartition, int]:
        """Return the first offsets of the assigned partitions. Raises KafkaError."""
        return await self._offsets(EARLIEST_TIMESTAMP)

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first record at or after each time; offset -1 without one. Raises
        KafkaError."""
        return await list_offsets(
            self.session, timestamps_ms, self.session.deadline_ms(), self._isolation_level
        )

    async def _offsets(self, timestamp: int) -> dict[TopicPartition, int]:
        found = await self.offsets_for_times(dict.fromkeys(self.assignment, timestamp))
        return {tp: response.offset for tp, response in sorted(found.items())}

    def _seek_to(self, timestamp: int, partitions: Iterable[TopicPartition]) -> None:
        for tp in list(partitions) or self.assignment:
            self._positions.reset(tp, timestamp)

    def _is_before(self, tp: TopicPartition, end: int) -> bool:
        position = self._positions.position(tp)
        return position is None or position < end

    def _check_position_will_come(self, tp: TopicPartition) -> None:
        known = tp in self._positions.to_reset() or tp in self._positions.to_initialize()
        if not known and self._positions.position(tp) is None:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{tp} has no position and auto.offset.reset is none"
            )

    async def _progress(self, deadline_ms: int, tp: TopicPartition) -> None:
        self._fetcher.news.clear()
        error = self._fetcher.take_error()
        if error is not None:
            raise error
        self._fetcher.advance()
        left_ms = deadline_ms - self.session.world.clock.monotonic_ms()
        if not await wait_for_event(self._fetcher.news, left_ms):
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"position of {tp}")

    def metrics(self) -> dict[str, int]:
        """Return counters since the start, and gauges, under Kafka's names where it has them."""
        found = {
            "records-consumed-total": self.records_consumed,
            "fetch-total": self._fetcher.fetches,
            "bytes-consumed-total": self._fetcher.bytes_fetched,
            "buffered-bytes": self._positions.buffered_bytes,
            "assigned-partitions": len(self._positions.assigned),
            "records-lag-max": max((self.lag(tp) or 0 for tp in self.assignment), default=0),
        }
        if self._group is not None:
            member = self._group.member
            found["commit-total"] = self._group.offsets.commits
            found["rebalance-total"] = member.rebalances
            found["heartbeat-total"] = member.heartbeats
        return found


def _by_batches(run: BatchRun) -> list[ConsumerRecords]:
    """Decode each batch of a run; compaction may have removed all records of a part of it."""
    start, end = run.start, run.end
    found = [ConsumerRecords(run.topic_partition, batch, start, end) for batch in run.batches]
    return [records for records in found if records.values]
