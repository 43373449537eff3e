"""The load of ``compacted``: a producer writes versions of few keys, a reader reads all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from typing import ClassVar

from minikafka.client import Consumer, ConsumerConfig, Producer, ProducerConfig, RecordMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.testing.verify.compacted.history import CompactedHistory, Key, Scan, Version
from minikafka.testing.verify.compacted.judge import judge
from minikafka.testing.verify.finding import Finding
from minikafka.testing.verify.workload import Scene

KEYS = 20  # of a partition
TOMBSTONES = 7  # one of so many records
RETENTION_MS = 10_000
LAG_MS = 2_000
PAUSE_MS = 50
AGAIN_MS = 1_000
# Segments are closed soon, since the active one is not compacted.
SETTINGS = {
    "cleanup.policy": "compact",
    "delete.retention.ms": str(RETENTION_MS),
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": str(LAG_MS),
    "segment.ms": "1000",
}


class Compacted:
    """See ``Workload``. The header of a record has the run and the version of its key."""

    name: ClassVar[str] = "compacted"
    promise: ClassVar[str] = "the last version of each key is there, and nothing deleted is back"

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._run = scene.run.encode()
        self._topic = scene.topic_of(self.name)
        self.topics = [self._topic]
        self.history = CompactedHistory(RETENTION_MS, LAG_MS)
        self._acknowledged = self._scans = 0

    async def prepare(self) -> None:
        await self._scene.create_topic(self._topic, configs=SETTINGS)

    async def load(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._scan_again())
            await self._write()

    async def conclude(self) -> None:
        """Scans that failed are repeated until one comes to its end. Raises its KafkaError if none
        does within the API time-out."""
        deadline_ms = self._scene.now_ms() + self._scene.client.default_api_timeout_ms
        while True:
            try:
                await self._scan("final reading", keeps_offsets=True)
                return
            except KafkaError:
                if self._scene.now_ms() >= deadline_ms:
                    raise
                await self._scene.sleep(AGAIN_MS)

    def judge(self) -> list[Finding]:
        return judge(self.history)

    def evidence(self, finding: Finding) -> Iterator[str]:
        for key in finding.about:
            for number, version in enumerate(self.history.versions[key]):
                what = "tombstone" if version.is_tombstone else "value"
                end = f"offset {version.offset} at {version.settled_ms / 1000:.3f} s"
                end = end if version.offset >= 0 else "in doubt"
                yield f"version {number}, a {what}, sent at {version.sent_ms / 1000:.3f} s: {end}"
            for scan in self.history.scans:
                began_s, ended_s = scan.began_ms / 1000, scan.ended_ms / 1000
                yield f"{scan.name}, {began_s:.3f} to {ended_s:.3f} s: {scan.last.get(key)}"

    def counts(self) -> dict[str, int]:
        kept = self.history.scans[-1].offsets if self.history.scans else {}
        gone = self._acknowledged - len(kept) if kept else 0
        return {
            "versions_acknowledged": self._acknowledged,
            "compacted_away": max(0, gone),
            "full_readings": self._scans,
        }

    async def _write(self) -> None:
        scene, config = self._scene, self._scene.config
        choose = scene.world.entropy.randrange
        share = max(1, config.records_per_s * PAUSE_MS // 1000)
        timeout_ms = config.delivery_timeout_ms
        settings = ProducerConfig(enable_idempotence=True, delivery_timeout_ms=timeout_ms)
        async with Producer(scene.world, scene.client, settings) as producer:
            while not scene.stop.is_set():
                for _ in range(share):
                    key = Key(choose(config.partitions), choose(KEYS))
                    await self._write_one(producer, key, choose(TOMBSTONES) == 0)
                await scene.sleep(PAUSE_MS)
            await producer.flush()

    async def _write_one(self, producer: Producer, key: Key, is_tombstone: bool) -> None:
        versions = self.history.versions.setdefault(key, [])
        version = Version(is_tombstone, self._scene.now_ms())
        versions.append(version)
        header = b"%s %d" % (self._run, len(versions) - 1)
        try:
            await producer.send(
                self._topic,
                None if is_tombstone else b"x" * self._scene.config.value_bytes,
                b"%d" % key.number,
                partition=key.partition,
                headers=[("version", header)],
                on_delivery=partial(self._settle, version),
            )
        except KafkaError:
            return  # in doubt: there was no metadata, or no room

    def _settle(
        self, version: Version, written: RecordMetadata | None, error: BaseException | None
    ) -> None:
        if written is not None and written.offset >= 0:
            version.offset, version.settled_ms = written.offset, self._scene.now_ms()
            self._acknowledged += 1

    # -- readings

    async def _scan_again(self) -> None:
        number = 0
        while not self._scene.stop.is_set():
            number += 1
            try:
                await self._scan(f"reading {number}", keeps_offsets=False)
            except KafkaError:
                await self._scene.sleep(AGAIN_MS)

    async def _scan(self, name: str, keeps_offsets: bool) -> None:
        """Raises KafkaError."""
        scene = self._scene
        scan = Scan(name, scene.now_ms())
        config = ConsumerConfig(auto_offset_reset="earliest")
        partitions = [TopicPartition(self._topic, n) for n in range(scene.config.partitions)]
        async with Consumer(scene.world, scene.client, config) as consumer:
            consumer.assign(partitions)
            await self._read_to(consumer, await consumer.end_offsets(), scan, keeps_offsets)
            scan.again_ms = scene.now_ms()
            await self._read_to(consumer, await consumer.end_offsets(), scan, keeps_offsets)
        scan.ended_ms = scene.now_ms()
        self.history.scans.append(scan)
        self._scans += 1

    async def _read_to(
        self,
        consumer: Consumer,
        ends: Mapping[TopicPartition, int],
        scan: Scan,
        keeps_offsets: bool,
    ) -> None:
        async for record in consumer.read_to(ends):
            words = (dict(record.headers).get("version") or b"").split(b" ")
            key = Key(record.partition, int(record.key or b"-1"))
            sent = self.history.versions.get(key, [])
            if len(words) != 2 or words[0] != self._run or int(words[1]) >= len(sent):
                scan.strangers.append((record.partition, record.offset))
                continue
            kept = record.offset if keeps_offsets else None
            scan.see(key, int(words[1]), record.value is None, kept)
