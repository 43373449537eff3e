"""The producer: records in, promises of their offsets out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from minikafka.client.config import ClientConfig
from minikafka.client.sender import Promise, RecordMetadata, Sender, SenderConfig
from minikafka.client.session import Client
from minikafka.client.waiting import wait_for_event
from minikafka.core.client.accumulator import (
    BATCH_OVERHEAD_BYTES,
    Accumulator,
    AccumulatorConfig,
    Header,
    PendingRecord,
    record_size_bytes,
)
from minikafka.core.client.cluster_view import TopicView
from minikafka.core.client.partitioner import (
    RoundRobinPartitions,
    StickyPartitions,
    partition_for_key,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World
from minikafka.protocol.records.compression import Compression

__all__ = ["Producer", "ProducerConfig", "RecordMetadata"]

_DRAW = 1 << 31
_BYTES_OR_NONE = (bytes, bytearray, memoryview, type(None))


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """Kafka's producer keys in snake case, with the defaults of Kafka 3.9's producer.

    ``acks``: 0, 1, or -1 for all. ``partitioner`` says what happens to records without key.
    """

    acks: int = -1
    compression: Compression = Compression.NONE
    linger_ms: int = 0
    batch_size: int = 16_384
    buffer_memory: int = 33_554_432
    max_request_size: int = 1_048_576
    max_block_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    partitioner: Literal["sticky", "round_robin"] = "sticky"


class Producer(Client):
    """At-least-once, in order per partition: a batch that fails is sent again before later ones.

    After ``start`` any number of tasks may send. Records of one partition keep the order of the
    calls of one task.
    """

    def __init__(
        self, world: World, config: ClientConfig, producer_config: ProducerConfig | None = None
    ) -> None:
        super().__init__(world, config)
        self._config = producer_config or ProducerConfig()
        self._accumulator: Accumulator[Promise] = Accumulator(
            AccumulatorConfig(
                batch_size=self._config.batch_size,
                linger_ms=self._config.linger_ms,
                buffer_memory=self._config.buffer_memory,
                max_request_size=self._config.max_request_size,
                delivery_timeout_ms=self._config.delivery_timeout_ms,
                retry_backoff_ms=config.retry_backoff_ms,
                retry_backoff_max_ms=config.retry_backoff_max_ms,
            )
        )
        self._settled = asyncio.Event()
        self.sender = Sender(
            self.session,
            self._accumulator,
            SenderConfig(
                acks=self._config.acks,
                compression=self._config.compression,
                request_timeout_ms=config.request_timeout_ms,
                max_in_flight=config.max_in_flight_requests_per_connection,
            ),
            self._settled.set,
        )
        self._sticky = StickyPartitions()
        self._turns = RoundRobinPartitions()
        self._closed = False

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self.session.start(tasks)
        self.sender.start(tasks)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> asyncio.Future[RecordMetadata]:
        """Hand a record over. The future holds where it went, or a KafkaError.

        Waits up to ``max_block_ms`` for the topic's metadata and for room in the buffer; raises
        KafkaError: UNKNOWN_TOPIC_OR_PARTITION, MESSAGE_TOO_LARGE, REQUEST_TIMED_OUT (no room, or
        no such partition of a topic that is there).
        Keys and values are bytes: TypeError for anything else.
        """
        if not (isinstance(value, _BYTES_OR_NONE) and isinstance(key, _BYTES_OR_NONE)):
            raise TypeError("keys and values are bytes or None")
        if self._closed:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer is closed")
        session = self.session
        view = session.metadata.view.topics.get(topic)
        if (
            view is None
            or not view.partitions
            or view.error is not ErrorCode.NONE
            or (partition is not None and partition not in view.partitions)
        ):
            view = await session.metadata.topic(topic, self._config.max_block_ms, partition)
        clock = session.world.clock
        record: PendingRecord = (
            clock.wall_ms() if timestamp_ms is None else timestamp_ms,
            key,
            value,
            list(headers),
        )
        size_bytes = record_size_bytes(record)
        if size_bytes + BATCH_OVERHEAD_BYTES > self._config.max_request_size:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{size_bytes} bytes, more than max.request.size {self._config.max_request_size}",
            )
        if not self._accumulator.has_memory(size_bytes):
            await self._wait_for_memory(size_bytes)
        target = self._partition(view, key, partition, size_bytes)
        promise: Promise = asyncio.get_running_loop().create_future()
        if self._accumulator.append(target, record, size_bytes, promise, clock.monotonic_ms()):
            self.sender.wake()
        return promise

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> RecordMetadata:
        """As ``send``, until the record is acknowledged. Raises KafkaError."""
        return await (
            await self.send(
                topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        )

    async def flush(self) -> None:
        """Send all that was handed over so far, and wait until it is settled, well or badly."""
        promises = self._accumulator.begin_flush()
        try:
            self.sender.wake()
            if promises:
                await asyncio.wait(promises)
        finally:
            self._accumulator.end_flush()

    async def close(self) -> None:
        """Flush, then end. Each record is settled within its delivery time-out."""
        if self._closed:
            return
        self._closed = True
        await self.flush()
        await self._end()

    async def abort(self) -> None:
        """End now. What is not acknowledged fails with NETWORK_EXCEPTION, delivered or not."""
        if self._closed:
            return
        self._closed = True
        await self._end()

    async def _end(self) -> None:
        await self.sender.close()
        await self.session.close()

    async def _wait_for_memory(self, size_bytes: int) -> None:
        deadline_ms = self.session.deadline_ms(self._config.max_block_ms)
        while not self._accumulator.has_memory(size_bytes):
            self._settled.clear()
            left_ms = deadline_ms - self.session.world.clock.monotonic_ms()
            if not await wait_for_event(self._settled, left_ms):
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"no room in the buffer within {self._config.max_block_ms} ms",
                )
            if self._closed:
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer is closed")

    def _partition(
        self, view: TopicView, key: bytes | None, partition: int | None, size_bytes: int
    ) -> TopicPartition:
        """The record's own choice, else its key's, else that of the partitioner."""
        topic, count = view.name, len(view.partitions)
        if partition is not None:
            return TopicPartition(topic, partition)
        if key is not None:
            return TopicPartition(topic, partition_for_key(key, count))
        if self._config.partitioner == "round_robin":
            return TopicPartition(
                topic, self._turns.next(topic, count, view.available, self._draw())
            )
        current = self._sticky.current(topic)
        if current is not None:
            target = TopicPartition(topic, current)
            if self._accumulator.fits_open_batch(target, size_bytes):
                return target
        previous = -1 if current is None else current
        return TopicPartition(
            topic, self._sticky.next(topic, count, view.available, previous, self._draw())
        )

    def _draw(self) -> int:
        return self.session.world.entropy.randrange(_DRAW)
