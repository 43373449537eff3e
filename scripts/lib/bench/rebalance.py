"""How long partitions pause when one of many members leaves a group, by the group's protocol."""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import Any, Final

from minikafka.aio import Consumer, Producer
from scripts.lib.bench.brokers import Brokers
from scripts.lib.bench.report import Report

TOPIC: Final = "moved"
MEMBERS: Final = 100
PARTITIONS: Final = 200
EVERY_S: Final = 0.1  # between two records of a partition
STABLE_S: Final = 5.0
WATCHED_S: Final = 10.0
PATIENCE_S: Final = 180.0
SETTINGS: Final = {"offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.ms": 3_000}
PROTOCOLS: Final[dict[str, dict[str, Any]]] = {
    "consumer": {"group_protocol": "consumer"},
    "cooperative-sticky": {"partition_assignment_strategy": ("cooperative-sticky",)},
}


class Member:
    """A consumer, and the longest time between two records of each partition that it reads.

    It is longest over ``WATCHED_S`` or so: ``watch`` begins anew."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.gaps: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._leaves = asyncio.Event()

    def watch(self) -> None:
        self.gaps = dict.fromkeys(self._last, 0.0)

    def leave(self) -> None:
        self._leaves.set()

    async def read(self) -> None:
        """Read until ``leave``. Raises KafkaError."""
        async with self.consumer as consumer:
            consumer.subscribe([TOPIC])
            while not self._leaves.is_set():
                for record in await consumer.poll(timeout_ms=200):
                    self._seen(record.partition, time.monotonic())

    def _seen(self, partition: int, now_s: float) -> None:
        gap = now_s - self._last.get(partition, now_s)
        if partition in self.gaps:
            self.gaps[partition] = max(self.gaps[partition], gap)
        self._last[partition] = now_s


async def produce(bootstrap: str) -> None:
    """Send a record to each partition every ``EVERY_S``, until it is cancelled."""
    async with Producer(bootstrap, acks=1) as producer:
        while True:
            for partition in range(PARTITIONS):
                await producer.send(TOPIC, b"x", partition=partition)
            await asyncio.sleep(EVERY_S)


async def longest_gaps(bootstrap: str, protocol: str) -> tuple[float, float]:
    """Return the median and the longest gap, in ms, of the partitions of members that stay, while
    another one leaves."""
    async with asyncio.TaskGroup() as tasks:
        producing = tasks.create_task(produce(bootstrap))
        options = PROTOCOLS[protocol]
        members = [
            Member(Consumer(bootstrap, group_id=protocol, **options)) for _ in range(MEMBERS)
        ]
        for member in members:
            tasks.create_task(member.read())
        async with asyncio.timeout(PATIENCE_S):
            while True:
                await asyncio.sleep(0.5)
                if all(len(m.consumer.assignment) == PARTITIONS // MEMBERS for m in members):
                    break
        await asyncio.sleep(STABLE_S)
        gone, *others = members
        for member in others:
            member.watch()
        gone.leave()
        await asyncio.sleep(WATCHED_S)
        gaps = [gap * 1000 for member in others for gap in member.gaps.values()]
        for member in others:
            member.leave()
        producing.cancel()
    return median(gaps), max(gaps)


def rebalances(report: Report) -> None:
    with Brokers(1, SETTINGS) as cluster:
        cluster.create({TOPIC: [[1]] * PARTITIONS})
        title = f"one of {MEMBERS} members leaves: gaps of the others' {PARTITIONS} partitions"
        report.section(title, *PROTOCOLS)
        found = [asyncio.run(longest_gaps(cluster.bootstrap, protocol)) for protocol in PROTOCOLS]
        for name, values in zip(("median", "longest"), zip(*found, strict=True), strict=True):
            report.row(f"{name} (a record every {EVERY_S * 1000:.0f} ms)", "ms", *values)
