"""Readers of all partitions of a topic, by assignment, of one isolation level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from minikafka.client import Consumer, ConsumerConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.verify.append.history import Reading
from minikafka.testing.verify.append.writer import identify
from minikafka.testing.verify.workload import Scene

POLL_MS = 200
AGAIN_MS = 1_000
MOST_COMPLAINTS = 10
NEVER = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.CORRUPT_MESSAGE)  # at any position of a reader

Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]


class Reader:
    """Reads into ``reading`` from the beginnings of the partitions on, across errors, until
    ``finish`` is called and their ends are reached, or nothing more arrives in time."""

    def __init__(self, scene: Scene, topic: str, reading: Reading, isolation: Isolation) -> None:
        self._scene = scene
        self.reading = reading
        self._run = scene.run.encode()
        self._isolation: Isolation = isolation
        self._positions = dict.fromkeys(partitions_of(scene, topic), 0)
        self._ends: Mapping[int, int] | None = None
        self._finishing_ms = 0

    def finish(self, ends: Mapping[int, int]) -> None:
        """Let ``run`` end at these offsets, by partition."""
        self._ends = ends
        self._finishing_ms = self._scene.now_ms()

    async def run(self) -> None:
        """Read with a new consumer after each error. Ends not reached are noted."""
        config = ConsumerConfig(auto_offset_reset="none", isolation_level=self._isolation)
        while not self._is_done():
            async with Consumer(self._scene.world, self._scene.client, config) as consumer:
                consumer.assign(self._positions)
                for tp, position in self._positions.items():
                    consumer.seek(tp, position)
                try:
                    while not self._is_done():
                        await self._read_some(consumer)
                except KafkaError as error:
                    if error.code in NEVER or not error.retriable:
                        at_s = self._scene.now_ms() / 1000
                        self.reading.complaints.append(f"at {at_s:.3f} s: {error}")
                    if len(self.reading.complaints) >= MOST_COMPLAINTS:
                        break
                    await self._scene.sleep(AGAIN_MS)
        for partition, end in (self._ends or {}).items():
            if self._position(partition) < end:
                self.reading.short_of[partition] = end

    def _position(self, partition: int) -> int:
        (position,) = (at for tp, at in self._positions.items() if tp.partition == partition)
        return position

    def _is_done(self) -> bool:
        if self._ends is None:
            return False
        idle_ms = self._scene.now_ms() - max(self._finishing_ms, self.reading.last_ms)
        return idle_ms >= self._scene.client.default_api_timeout_ms or all(
            position >= self._ends.get(tp.partition, 0) for tp, position in self._positions.items()
        )

    async def _read_some(self, consumer: Consumer) -> None:
        reading = self.reading
        for record in await consumer.poll(POLL_MS):
            found = identify(self._run, record.value)
            reading.see(record.partition, record.offset, found, self._scene.now_ms())
        for tp in self._positions:
            # Markers have offsets, too, and are no records.
            self._positions[tp] = await consumer.position(tp)
            reading.note_mark(tp.partition, consumer.high_watermark(tp))


async def read_all(
    scene: Scene, topic: str, reading: Reading, isolation: Isolation, ends: Mapping[int, int]
) -> None:
    """Read everything up to ``ends``, by partition. What does not arrive within the API time-out
    is noted. Raises KafkaError."""
    config = ConsumerConfig(auto_offset_reset="earliest", isolation_level=isolation)
    run = scene.run.encode()
    async with Consumer(scene.world, scene.client, config) as consumer:
        partitions = partitions_of(scene, topic)
        consumer.assign(partitions)
        try:
            async for record in consumer.read_to({tp: ends[tp.partition] for tp in partitions}):
                found = identify(run, record.value)
                reading.see(record.partition, record.offset, found, scene.now_ms())
        except KafkaError as error:
            if error.code is not ErrorCode.REQUEST_TIMED_OUT:
                raise
            for tp in partitions:
                if await consumer.position(tp) < ends[tp.partition]:
                    reading.short_of[tp.partition] = ends[tp.partition]


async def end_offsets(scene: Scene, topic: str, isolation: Isolation) -> dict[int, int]:
    """Return the high watermarks, or the last stable offsets, by partition. Raises KafkaError."""
    config = ConsumerConfig(isolation_level=isolation)
    async with Consumer(scene.world, scene.client, config) as consumer:
        consumer.assign(partitions_of(scene, topic))
        return {tp.partition: end for tp, end in (await consumer.end_offsets()).items()}


def partitions_of(scene: Scene, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(scene.config.partitions)]
