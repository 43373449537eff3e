"""Members of groups, beside official Kafka 4: how long partitions pause when one of many leaves, by
the group's protocol, and what heartbeats cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from statistics import median
from typing import Any, Final
from uuid import uuid4

from minikafka.aio import Admin, Consumer, Producer
from minikafka.protocol.api_keys import ApiKey
from scripts.lib.bench.beside_kafka_4 import cpu_s, two_brokers
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import Connection, accepted, frame

TOPIC: Final = "moved"
MEMBERS: Final = 100
PARTITIONS: Final = 200
EVERY_S: Final = 0.1  # between two records of a partition
STABLE_S: Final = 5.0
WATCHED_S: Final = 10.0
PATIENCE_S: Final = 180.0
SETTINGS: Final = {"group.initial.rebalance.delay.ms": 3_000}
GROUPS: Final = 100
SHARING: Final = 2  # members of one connection: a broker's descriptors may not suffice for more
HEARTBEAT_S: Final = 5  # group.consumer.heartbeat.interval.ms
BEATEN_S: Final = 20
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


class Heart:
    """A member of a consumer group that has the protocol of KIP-848. ``beat`` says what it owns
    after that has changed, and else nothing, as clients do."""

    def __init__(self, connection: Connection, group_id: str) -> None:
        self._connection = connection
        self._named = {"group_id": group_id, "member_id": str(uuid4())}
        self._epoch = 0
        self._news: dict[str, Any] = {}

    async def join(self) -> None:
        """Raises RuntimeError if the broker refuses."""
        self._news = {"rebalance_timeout_ms": 60_000, "topic_partitions": []}
        await self._send(subscribed_topic_names=[TOPIC])

    async def beat(self) -> bool:
        """Return whether the member has a new epoch or a new assignment.

        Raises RuntimeError if the broker refuses."""
        before = self._epoch
        await self._send()
        return self._epoch != before or bool(self._news)

    async def _send(self, **values: Any) -> None:
        key = ApiKey.CONSUMER_GROUP_HEARTBEAT
        said = {**self._named, **self._news, **values}
        response = accepted(
            key, await self._connection.exchange(frame(key, member_epoch=self._epoch, **said))
        )
        self._epoch, assignment = response.member_epoch, response.assignment
        rows = None if assignment is None else assignment.topic_partitions
        self._news = {} if rows is None else {"topic_partitions": rows}


async def beaten(bootstrap: str) -> float:
    """Let all members join, and send their heartbeats in time for ``BEATEN_S``. Return the share
    of one processor that this takes the broker, in percent."""
    port = int(bootstrap.rpartition(":")[2])
    groups: list[list[Heart]] = []
    for number in range(GROUPS):
        group_id = f"group-{number}"
        groups.append([])
        for _ in range(MEMBERS // SHARING):
            connection = await Connection.open(port)
            groups[-1] += [Heart(connection, group_id) for _ in range(SHARING)]
    await asyncio.gather(*map(until_stable, groups))
    before_s = cpu_s(bootstrap)
    await asyncio.gather(*(beat_in_time(*each) for each in enumerate(groups)))
    return (cpu_s(bootstrap) - before_s) / BEATEN_S * 100


async def until_stable(hearts: Sequence[Heart]) -> None:
    """Let members join, and send heartbeats until none has anything new."""
    for heart in hearts:
        await heart.join()
    async with asyncio.timeout(PATIENCE_S):
        while sum([await heart.beat() for heart in hearts]):
            pass


async def beat_in_time(number: int, hearts: Sequence[Heart]) -> None:
    """Send the heartbeats of a group one after the other, evenly, from its own first moment on."""
    began_s = time.monotonic() + number * HEARTBEAT_S / len(hearts) / GROUPS
    for turn in range(round(len(hearts) * BEATEN_S / HEARTBEAT_S)):
        due_s = began_s + turn * HEARTBEAT_S / len(hearts)
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        await hearts[turn % len(hearts)].beat()


def run(report: Report) -> None:
    """Raises NoApacheKafka."""
    with two_brokers(SETTINGS) as places:
        for bootstrap in places.values():
            asyncio.run(create_topic(bootstrap))
        title = f"one of {MEMBERS} members leaves: gaps of the others' {PARTITIONS} partitions"
        report.section(title, *places)
        for protocol in PROTOCOLS:
            found = [asyncio.run(longest_gaps(each, protocol)) for each in places.values()]
            for name, values in zip(("median", "longest"), zip(*found, strict=True), strict=True):
                report.row(f"{protocol}, {name} (a record every {EVERY_S}s)", "ms", *values)
        report.section(f"{MEMBERS * GROUPS:,} members, a heartbeat each {HEARTBEAT_S} s", *places)
        ours, theirs = (asyncio.run(beaten(each)) for each in places.values())
        report.row("CPU of the broker", "% of a processor", ours, theirs)


async def create_topic(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topic(TOPIC, PARTITIONS, 1)
