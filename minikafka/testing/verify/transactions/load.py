"""The load of ``transactions``: seats with producers, readers of both levels, the final reading."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import ClassVar, Final

from minikafka.client import Consumer, ConsumerConfig
from minikafka.kernel.errors import KafkaError
from minikafka.testing.verify.append.history import Reading
from minikafka.testing.verify.finding import Finding
from minikafka.testing.verify.transactions.evidence import evidence
from minikafka.testing.verify.transactions.history import TransactionHistory, TransactionOutcome
from minikafka.testing.verify.transactions.judge import judge, write_cycles
from minikafka.testing.verify.transactions.reader import (
    Reader,
    end_offsets,
    partitions_of,
    read_all,
)
from minikafka.testing.verify.transactions.seat import Appender, Seat, transactional_producer
from minikafka.testing.verify.workload import Scene

SETTLE_MS: Final = 120_000  # for the end of all transactions
AGAIN_MS: Final = 500


class Transactions:
    """See ``Workload``. Each producer is a seat: a transactional id that changes hands."""

    name: ClassVar[str] = "transactions"
    promise: ClassVar[str] = "no transaction lost, half visible, read too early, or of a zombie"

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._topic = scene.topic_of(self.name)
        self.topics = [self._topic]
        readers = range(1, max(1, scene.config.consumers) + 1)
        self.history = TransactionHistory(
            committed=[Reading(f"reader {number}, read_committed") for number in readers],
            uncommitted=[Reading("reader, read_uncommitted")],
        )
        self._readers = [
            *(Reader(scene, self._topic, r, "read_committed") for r in self.history.committed),
            *(Reader(scene, self._topic, r, "read_uncommitted") for r in self.history.uncommitted),
        ]
        self._seats: Sequence[Seat] = []
        self._is_settled = False

    async def prepare(self) -> None:
        """Raises KafkaError UNSUPPORTED_VERSION as well, if the brokers have no transactions."""
        scene = self._scene
        await scene.create_topic(self._topic)
        async with transactional_producer(scene, scene.client, f"{self._topic}-probe") as producer:
            await producer.init_transactions()

    async def load(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for reader in self._readers:
                tasks.create_task(reader.run())
            tasks.create_task(self._watch_stable_offsets())
            self._seats = self._new_seats()
            async with asyncio.TaskGroup() as seats:
                for seat in self._seats:
                    seats.create_task(seat.run())
            await self._settle()
            self._is_settled = True
            for reader in self._readers:
                reader.finish(self.history.ends_of(reader.reading))

    def _new_seats(self) -> Sequence[Seat]:
        scene, history = self._scene, self.history
        return [
            Appender(scene, self._topic, self._name_of(number), history, scene.stop)
            for number in range(scene.config.producers)
        ]

    def _name_of(self, number: int) -> str:
        """Return the transactional id of a seat."""
        return f"{self._topic}-{number}"

    async def conclude(self) -> None:
        history = self.history
        if not history.ends:  # no broker responded at the end of the load
            await self._note_ends()
        scene, topic = self._scene, self._topic
        stable, ends = history.stable_ends, history.ends
        await read_all(scene, topic, history.final_committed, "read_committed", stable)
        await read_all(scene, topic, history.final_uncommitted, "read_uncommitted", ends)

    def judge(self) -> list[Finding]:
        return judge(self.history)

    def evidence(self, finding: Finding) -> Iterator[str]:
        return evidence(self.history, finding.about)

    def counts(self) -> dict[str, int]:
        history = self.history
        counts = {
            "transactions_committed": history.ended[TransactionOutcome.COMMITTED],
            "aborted": history.ended[TransactionOutcome.ABORTED],
            "in_doubt": history.ended[TransactionOutcome.IN_DOUBT],
            "producers": len(history.incarnations),
            "fenced": sum(seat.fenced for seat in self._seats),
            "read": sum(reading.count for reading in [*history.committed, *history.uncommitted]),
        }
        if history.final_committed.count:
            counts["legal_cycles_of_writes"] = len(write_cycles(history))
        return counts

    async def _watch_stable_offsets(self) -> None:
        """Look up the last stable offsets again and again, by one client. A leader responds only
        when it has caught up with the ones before it (KIP-207)."""
        config = ConsumerConfig(isolation_level="read_committed")
        async with Consumer(self._scene.world, self._scene.client, config) as consumer:
            consumer.assign(partitions_of(self._scene, self._topic))
            while not self._is_settled:
                with suppress(KafkaError):
                    for tp, offset in (await consumer.end_offsets()).items():
                        self.history.note_stable_offset(tp.partition, offset, self._scene.now_ms())
                await self._scene.sleep(AGAIN_MS)

    async def _settle(self) -> None:
        """End the last transaction of each seat, and wait until the last stable offsets reach the
        high watermarks; both in bounded time."""
        async with asyncio.TaskGroup() as tasks:
            settling = {
                seat.name: tasks.create_task(seat.settle(SETTLE_MS)) for seat in self._seats
            }
        self.history.unsettled = [name for name, task in settling.items() if not task.result()]
        history, end_ms = self.history, self._scene.now_ms() + SETTLE_MS
        while self._scene.now_ms() < end_ms:
            with suppress(KafkaError):
                await self._note_ends()
                if history.stable_ends == history.ends:
                    break
            await self._scene.sleep(AGAIN_MS)

    async def _note_ends(self) -> None:
        stable = await end_offsets(self._scene, self._topic, "read_committed")
        self.history.stable_ends = stable
        self.history.ends = await end_offsets(self._scene, self._topic, "read_uncommitted")
