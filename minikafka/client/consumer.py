"""The consumer by assignment: records of chosen partitions, from chosen offsets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from minikafka.client.config import ClientConfig
from minikafka.client.fetcher import Fetcher, FetcherConfig
from minikafka.client.offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    OffsetAndTimestamp,
    list_offsets,
)
from minikafka.client.session import Client
from minikafka.client.waiting import wait_for_event
from minikafka.core.client.fetched import ConsumerRecord
from minikafka.core.client.positions import Positions
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World

__all__ = ["Consumer", "ConsumerConfig", "ConsumerRecord"]

_RESET_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP, "none": None}
_ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """Kafka's consumer keys in snake case, with Kafka's defaults."""

    auto_offset_reset: Literal["earliest", "latest", "none"] = "latest"
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1_048_576
    max_poll_records: int = 500
    check_crcs: bool = True


class Consumer(Client):
    """Reads the partitions it was assigned. One task uses it at a time.

    Everything is lazy: positions are looked up and records fetched by ``poll`` or by iterating.
    """

    def __init__(
        self, world: World, config: ClientConfig, consumer_config: ConsumerConfig | None = None
    ) -> None:
        super().__init__(world, config)
        self._config = consumer_config or ConsumerConfig()
        self._reset_timestamp = _RESET_TIMESTAMPS[self._config.auto_offset_reset]
        self._isolation_level = _ISOLATION_LEVELS[self._config.isolation_level]
        self._positions = Positions()
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
            ),
        )
        self._closed = False

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self.session.start(tasks)
        self._fetcher.start(tasks)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._fetcher.close()
        await self.session.close()

    # -- where to read

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these and no others. New ones start where ``auto_offset_reset`` says, unless one of
        the seeks is called; with "none" a seek is needed."""
        wanted = list(partitions)
        self._positions.assign(wanted, self._reset_timestamp)
        self.session.metadata.add_topics({tp.topic for tp in wanted})

    async def assign_topics(self, *topics: str) -> list[TopicPartition]:
        """Assign every partition of these topics; returns them. Raises KafkaError when a topic is
        not there within ``default_api_timeout_ms``."""
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
        """Go on from ``offset``. Raises KeyError for a partition that is not assigned."""
        self._positions.seek(topic_partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on from the first offset there is; of all assigned partitions when none is named."""
        self._seek_to(EARLIEST_TIMESTAMP, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on from the end as it is at the next poll."""
        self._seek_to(LATEST_TIMESTAMP, partitions)

    def seek_to_timestamp(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Go on from the first record that is as late; from the end when none is."""
        self._seek_to(timestamp_ms, partitions)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out no records of these until ``resume``."""
        for tp in partitions:
            self._positions.pause(tp)

    def resume(self, *partitions: TopicPartition) -> None:
        for tp in partitions:
            self._positions.resume(tp)
        self._fetcher.news.set()

    async def position(self, topic_partition: TopicPartition) -> int:
        """The offset of the next record. Raises KafkaError when it cannot be looked up in time."""
        deadline_ms = self.session.deadline_ms()
        while (position := self._positions.position(topic_partition)) is None:
            self._check_position_will_come(topic_partition)
            await self._progress(deadline_ms, topic_partition)
        return position

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """As of the last fetch; -1 before it."""
        return self._positions.high_watermark(topic_partition)

    # -- reading

    async def poll(
        self, timeout_ms: int = 1_000, max_records: int | None = None
    ) -> list[ConsumerRecord]:
        """Records as soon as there are any, an empty list after ``timeout_ms``.

        Raises KafkaError: OFFSET_OUT_OF_RANGE with ``auto_offset_reset`` "none", authorisation,
        corrupt batches, offsets that could not be looked up.
        """
        limit = self._config.max_poll_records if max_records is None else max_records
        deadline_ms = self.session.deadline_ms(timeout_ms)
        news = self._fetcher.news
        while True:
            news.clear()
            error = self._fetcher.take_error()
            if error is not None:
                raise error
            records = self._positions.take(limit)
            self._fetcher.advance()
            left_ms = deadline_ms - self.session.world.clock.monotonic_ms()
            if records or left_ms <= 0:
                return records
            await wait_for_event(news, left_ms)

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Record after record, for ever. Raises as ``poll``."""
        while True:
            for record in await self.poll():
                yield record

    async def read_to(
        self, end_offsets: Mapping[TopicPartition, int] | None = None
    ) -> AsyncIterator[ConsumerRecord]:
        """Records up to, not including, the end offsets; by default those of now.

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
        """The ends of the assigned partitions: high watermarks, or last stable offsets with
        ``read_committed``. Raises KafkaError."""
        return await self._offsets(LATEST_TIMESTAMP)

    async def beginning_offsets(self) -> dict[TopicPartition, int]:
        """The first offsets of the assigned partitions. Raises KafkaError."""
        return await self._offsets(EARLIEST_TIMESTAMP)

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The first record at or after each time; offset -1 where none is. Raises KafkaError."""
        return await list_offsets(
            self.session, timestamps_ms, self.session.deadline_ms(), self._isolation_level
        )

    async def _offsets(self, timestamp: int) -> dict[TopicPartition, int]:
        found = await self.offsets_for_times(dict.fromkeys(self.assignment, timestamp))
        return {tp: answer.offset for tp, answer in sorted(found.items())}

    def _seek_to(self, timestamp: int, partitions: Iterable[TopicPartition]) -> None:
        for tp in list(partitions) or self.assignment:
            self._positions.reset(tp, timestamp)

    def _is_before(self, tp: TopicPartition, end: int) -> bool:
        position = self._positions.position(tp)
        return position is None or position < end

    def _check_position_will_come(self, tp: TopicPartition) -> None:
        if tp not in self._positions.to_reset():
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
