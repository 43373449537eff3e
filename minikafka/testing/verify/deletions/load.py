"""The load of ``delete-records``: that of ``append``, and deletions up to random offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import ClassVar, Literal

from minikafka.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Admin, Consumer
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.testing.verify.append.history import Reading
from minikafka.testing.verify.append.load import Append
from minikafka.testing.verify.deletions.judge import (
    DeletionKind,
    Deletions,
    SeenStart,
    SentDeletion,
    judge_deletions,
)
from minikafka.testing.verify.finding import Finding
from minikafka.testing.verify.workload import Scene

PAUSE_MS = 500
TIMEOUT_MS = 10_000


class DeleteRecords(Append):
    """See ``Workload``. A reader that comes too late goes on where the log starts."""

    name: ClassVar[str] = "delete-records"
    promise: ClassVar[str] = "nothing lost or misread, nothing deleted is back"
    _reset: ClassVar[Literal["none", "earliest"]] = "earliest"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, scene.topic_of(self.name))
        self.deletions = Deletions()

    async def load(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._delete())
            await super().load()

    async def conclude(self) -> None:
        await super().conclude()
        scene = self._scene
        async with Admin(scene.world, scene.client) as admin:
            for tp in self._partitions():
                # A deletion that failed may have been done meanwhile.
                self.history.starts[tp.partition] = await self._see_start(admin, tp, None)

    async def _read_some(
        self, consumer: Consumer, reading: Reading, positions: dict[TopicPartition, int]
    ) -> None:
        await super()._read_some(consumer, reading, positions)
        for tp, position in positions.items():  # all that is left may have been deleted
            positions[tp] = max(position, await consumer.position(tp))

    def judge(self) -> list[Finding]:
        return [*super().judge(), *judge_deletions(self.deletions, self.history.final)]

    def evidence(self, finding: Finding) -> Iterator[str]:
        if not isinstance(finding.kind, DeletionKind):
            yield from super().evidence(finding)
            return
        (partition,) = finding.about
        told = [
            (each.settled_ms, f"deletion below {each.before}, confirmed {each.start}")
            for each in self.deletions.deletions
            if each.partition == partition
        ]
        told += [
            (each.seen_ms, f"log start {each.start}")
            for each in self.deletions.starts
            if each.partition == partition
        ]
        for at_ms, text in sorted(told):
            yield f"at {at_ms / 1000:.3f} s: {text}"

    def counts(self) -> dict[str, int]:
        confirmed = sum(each.start >= 0 for each in self.deletions.deletions)
        return {**super().counts(), "deletions_confirmed": confirmed}

    async def _delete(self) -> None:
        scene = self._scene
        choose = scene.world.entropy.randrange
        async with Admin(scene.world, scene.client) as admin:
            while not scene.stop.is_set():
                await scene.sleep(choose(PAUSE_MS))
                tp = self._partitions()[choose(scene.config.partitions)]
                try:
                    start = await self._see_start(admin, tp, TIMEOUT_MS)
                    found = await admin.list_offsets({tp: LATEST_TIMESTAMP}, timeout_ms=TIMEOUT_MS)
                except KafkaError:
                    continue
                end = found[tp].offset
                await self._delete_below(admin, tp, start + choose(max(1, end - start)))

    async def _delete_below(self, admin: Admin, tp: TopicPartition, before: int) -> None:
        sent_ms = self._scene.now_ms()
        outcome = (await admin.delete_records({tp: before}, timeout_ms=TIMEOUT_MS))[tp]
        start = -1 if isinstance(outcome, KafkaError) else outcome
        self.deletions.deletions.append(
            SentDeletion(tp.partition, before, sent_ms, start, self._scene.now_ms())
        )

    async def _see_start(self, admin: Admin, tp: TopicPartition, timeout_ms: int | None) -> int:
        """Return where a log starts. Raises KafkaError."""
        sent_ms = self._scene.now_ms()
        found = await admin.list_offsets({tp: EARLIEST_TIMESTAMP}, timeout_ms=timeout_ms)
        start = found[tp].offset
        seen = SeenStart(tp.partition, start, sent_ms, self._scene.now_ms())
        self.deletions.starts.append(seen)
        return start
