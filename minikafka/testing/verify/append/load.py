"""The load of ``append``: writers and readers, and the final reading of everything."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from minikafka.client import Admin, Consumer, ConsumerConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.verify.append.evidence import evidence
from minikafka.testing.verify.append.fill import ends_of_acknowledged, fill
from minikafka.testing.verify.append.history import History, Reading, Written
from minikafka.testing.verify.append.judge import judge
from minikafka.testing.verify.append.writer import ask_for_identity, identify
from minikafka.testing.verify.finding import Finding
from minikafka.testing.verify.workload import Scene

POLL_MS = 200
AGAIN_MS = 1_000
MOST_COMPLAINTS = 10
NEVER = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.CORRUPT_MESSAGE)  # at any position of a reader


class Append:
    """See ``Workload``. Each record is sent once, with its identity in its value."""

    name: ClassVar[str] = "append"
    promise: ClassVar[str] = "nothing lost, doubled, reordered or misread"

    # What a reader does at an offset that is not there: its records were read before.
    _reset: ClassVar[Literal["none", "earliest"]] = "none"

    def __init__(self, scene: Scene, topic: str = "") -> None:
        config = scene.config
        self._scene = scene
        self._run = scene.run.encode()
        self._topic = topic or scene.topic
        self.topics = [self._topic]
        self.history = History(
            [Written(number) for number in range(config.producers)],
            [Reading(f"reader {number + 1}") for number in range(config.consumers)],
            Reading("final reading"),
            idempotent=config.idempotent,
        )
        self._settled = asyncio.Event()
        self._settled_ms = 0
        # The end offset after the last acknowledged record, by partition.
        self._promised: dict[int, int] = {}

    async def prepare(self) -> None:
        """Raises KafkaError UNSUPPORTED_VERSION as well, if the brokers give no producer ids."""
        scene = self._scene
        await scene.create_topic(self._topic)
        if scene.config.idempotent:
            async with Admin(scene.world, scene.client) as admin:
                await ask_for_identity(admin.session, admin.session.deadline_ms())

    async def load(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for reading in self.history.readings:
                tasks.create_task(self._read(reading))
            await self._write()

    def judge(self) -> list[Finding]:
        return judge(self.history)

    def evidence(self, finding: Finding) -> Iterator[str]:
        return evidence(self.history, finding)

    def counts(self) -> dict[str, int]:
        written, readings = self.history.written, self.history.readings
        return {
            "records_acknowledged": sum(each.acknowledged for each in written),
            "in_doubt": sum(each.in_doubt for each in written),
            "read": sum(each.count for each in readings),
            "longest_wait_ms": max((each.longest_wait_ms for each in written), default=0),
        }

    async def _write(self) -> None:
        scene, config = self._scene, self._scene.config
        written = self.history.written
        records_per_s = max(1, config.records_per_s // max(1, len(written)))
        try:
            async with asyncio.TaskGroup() as tasks:
                for records in written:
                    work = fill(scene, self._topic, records, records_per_s, config.idempotent)
                    tasks.create_task(work)
                await scene.stop.wait()
        finally:
            self._settled_ms = scene.now_ms()
            self._promised = dict.fromkeys(range(config.partitions), 0)
            for records in written:
                for partition, end in ends_of_acknowledged(records, config.partitions).items():
                    self._promised[partition] = max(self._promised[partition], end)
            self._settled.set()

    # -- readers

    def _partitions(self) -> list[TopicPartition]:
        count = self._scene.config.partitions
        return [TopicPartition(self._topic, number) for number in range(count)]

    async def _read(self, reading: Reading) -> None:
        """Read until all acknowledged records are read, or none arrives within the API time-out.

        After an error the reader continues at its position with a new consumer.
        """
        positions = dict.fromkeys(self._partitions(), 0)
        await self._read_to_the_end(reading, positions)
        for tp, position in positions.items():
            if position < self._promised.get(tp.partition, 0):
                reading.short_of[tp.partition] = self._promised[tp.partition]

    async def _read_to_the_end(
        self, reading: Reading, positions: dict[TopicPartition, int]
    ) -> None:
        while not self._is_read(reading, positions):
            config = ConsumerConfig(auto_offset_reset=self._reset)
            async with Consumer(self._scene.world, self._scene.client, config) as consumer:
                consumer.assign(positions)
                for tp, position in positions.items():
                    consumer.seek(tp, position)
                try:
                    while not self._is_read(reading, positions):
                        await self._read_some(consumer, reading, positions)
                except KafkaError as error:
                    if error.code in NEVER or not error.retriable:
                        at_s = self._scene.now_ms() / 1000
                        reading.complaints.append(f"at {at_s:.3f} s: {error}")
                    if len(reading.complaints) >= MOST_COMPLAINTS:
                        return
                    await self._scene.sleep(AGAIN_MS)

    def _is_read(self, reading: Reading, positions: Mapping[TopicPartition, int]) -> bool:
        if not self._settled.is_set():
            return False
        idle_ms = self._scene.now_ms() - max(self._settled_ms, reading.last_ms)
        return idle_ms >= self._scene.client.default_api_timeout_ms or all(
            position >= self._promised[tp.partition] for tp, position in positions.items()
        )

    async def _read_some(
        self, consumer: Consumer, reading: Reading, positions: dict[TopicPartition, int]
    ) -> None:
        run = self._run
        for record in await consumer.poll(POLL_MS):
            found = identify(run, record.value)
            reading.see(record.partition, record.offset, found, self._scene.now_ms())
            positions[TopicPartition(self._topic, record.partition)] = record.offset + 1
        for tp in positions:
            reading.note_mark(tp.partition, consumer.high_watermark(tp))

    async def conclude(self) -> None:
        """Read all partitions to their end offsets, and to acknowledged records beyond these.

        A new leader may need some time to advance its high watermark; records that cannot be read
        within the API time-out count as missing.
        """
        config = ConsumerConfig(auto_offset_reset="earliest")
        history, run, promised = self.history, self._run, self._promised
        async with Consumer(self._scene.world, self._scene.client, config) as consumer:
            consumer.assign(self._partitions())
            ends = await consumer.end_offsets()
            history.ends = {tp.partition: end for tp, end in ends.items()}
            try:
                async for record in consumer.read_to(
                    {tp: max(end, promised[tp.partition]) for tp, end in ends.items()}
                ):
                    found = identify(run, record.value)
                    history.final.see(record.partition, record.offset, found, self._scene.now_ms())
                    history.ends[record.partition] = max(
                        history.ends[record.partition], record.offset + 1
                    )
            except KafkaError as error:
                if error.code is not ErrorCode.REQUEST_TIMED_OUT:
                    raise
                for tp, end in ends.items():
                    if await consumer.position(tp) < end:
                        history.final.short_of[tp.partition] = end
