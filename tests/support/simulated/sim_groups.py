"""One simulated broker, and consumers of one group on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from minikafka.client import (
    Admin,
    Consumer,
    ConsumerConfig,
    Producer,
    RebalanceListener,
    SubscriptionPattern,
)
from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.simulator.cluster import SimCluster

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "500",
    "auto.create.topics.enable": "false",
}
TOPIC = "t"


class RecordingListener(RebalanceListener):
    """A rebalance listener that records its calls as lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.lines.append("+ " + " ".join(map(str, partitions)))

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.lines.append("- " + " ".join(map(str, partitions)))

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.lines.append("! " + " ".join(map(str, partitions)))


class Reader:
    """A consumer that reads in a separate task until it is stopped; ``alive`` says whether it
    still reads."""

    def __init__(self, cluster: SimCluster, **keys: Any) -> None:
        keys.setdefault("group_id", "g")
        keys.setdefault("auto_offset_reset", "earliest")
        self.rebalances = RecordingListener()
        self.records: list[ConsumerRecord] = []
        self.consumer = Consumer(
            cluster.client_host.world, cluster.client_config, ConsumerConfig(**keys)
        )
        self._stop = asyncio.Event()
        self._how: dict[str, Any] = {}
        self._task: asyncio.Task[None] | None = None
        self._cluster = cluster

    def start(self, *topics: str, pattern: str | SubscriptionPattern | None = None) -> Reader:
        names = topics or (() if pattern else (TOPIC,))
        self.consumer.subscribe(names, pattern=pattern, listener=self.rebalances)
        self._task = self._cluster.spawn_client(self._read(), "reader")
        return self

    async def _read(self) -> None:
        async with self.consumer:
            while not self._stop.is_set():
                self.records += await self.consumer.poll(200)

    async def read_on(self) -> None:
        """Poll until stopped; raise the errors of ``poll``."""
        while True:
            self.records += await self.consumer.poll(1_000)

    async def stop(self) -> None:
        """Leave the group in order."""
        self._stop.set()
        assert self._task is not None
        await self._task

    async def vanish(self) -> None:
        """Stop as if the process was killed: the group gets no LeaveGroup request."""
        self.consumer.session.connections.close()
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])

    @property
    def partitions(self) -> list[int]:
        return [tp.partition for tp in self.consumer.assignment]

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]


def simulated(
    scenario: Callable[[SimCluster], Awaitable[None]],
    partitions: int = 4,
    seed: int = 1,
    initial_delay_ms: int = 500,
) -> None:
    """Run a scenario with the topic ``t``. ``initial_delay_ms`` delays the first rebalance of a
    group."""
    settings = SETTINGS | {"group.initial.rebalance.delay.ms": str(initial_delay_ms)}

    async def play(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("broker up", lambda: len(cluster.nodes()) == 1)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic(TOPIC, partitions, 1)
            await admin.wait_for_topic(TOPIC, partitions)
        await scenario(cluster)

    SimCluster(seed, [1], settings).run(play)


async def write(cluster: SimCluster, first: int, count: int, topic: str = TOPIC) -> None:
    """Write numbers to the partitions in turn."""
    async with Producer(cluster.client_host.world, cluster.client_config) as producer:
        view = await producer.session.metadata.topic(topic, 10_000)
        for number in range(first, first + count):
            partition = number % len(view.partitions)
            await producer.send(topic, b"%d" % number, partition=partition)


async def until_shared(cluster: SimCluster, *readers: Reader, partitions: int = 4) -> None:
    """Wait until each partition has one reader, each reader has a partition, and no rebalance is in
    progress."""

    def shared() -> bool:
        owned = sorted(number for reader in readers for number in reader.partitions)
        generations = {reader.consumer.group_metadata.generation for reader in readers}
        return (
            owned == list(range(partitions))
            and all(reader.partitions for reader in readers)
            and len(generations) == 1
        )

    await cluster.until("shared out", shared, 400)
