"""Load on a simulated cluster: numbered records, and the result of each."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from minikafka.client import Consumer, ConsumerConfig, Producer, RecordMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.testing.simulator.cluster import SimCluster

LONGEST_PAUSE_MS = 50


class Writer:
    """Produces with acks=all to the partitions in turn until ``stop``.

    ``sent`` has the values of a partition in the order of sending, ``acknowledged`` the offsets of
    the acknowledged ones, and ``failed`` the errors of the others.
    """

    def __init__(
        self,
        cluster: SimCluster,
        partitions: Sequence[TopicPartition],
        longest_pause_ms: int = LONGEST_PAUSE_MS,
    ) -> None:
        self.sent: dict[TopicPartition, list[bytes]] = defaultdict(list)
        self.acknowledged: dict[TopicPartition, dict[bytes, int]] = defaultdict(dict)
        self.failed: dict[TopicPartition, dict[bytes, KafkaError]] = defaultdict(dict)
        self._cluster = cluster
        self._partitions = partitions
        self._longest_pause_ms = longest_pause_ms
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    @property
    def acknowledged_count(self) -> int:
        return sum(len(offsets) for offsets in self.acknowledged.values())

    def start(self) -> None:
        self._task = self._cluster.spawn_client(self._write(), "writer")

    async def stop(self) -> None:
        """Stop, and return when every record is acknowledged or has failed."""
        assert self._task is not None
        self._stopping = True
        await self._task

    async def _write(self) -> None:
        world = self._cluster.client_host.world
        async with Producer(world, self._cluster.client_config) as producer:
            number = 0
            while not self._stopping:
                partition = self._partitions[number % len(self._partitions)]
                value = str(number).encode()
                self.sent[partition].append(value)
                promise = await producer.send(partition.topic, value, partition=partition.partition)
                promise.add_done_callback(partial(self._settle, partition, value))
                await world.clock.sleep(world.entropy.randrange(self._longest_pause_ms))
                number += 1

    def _settle(
        self, partition: TopicPartition, value: bytes, promise: asyncio.Future[RecordMetadata]
    ) -> None:
        try:
            self.acknowledged[partition][value] = promise.result().offset
        except KafkaError as error:
            self.failed[partition][value] = error


async def read_all(cluster: SimCluster, topic: str) -> dict[TopicPartition, dict[int, bytes]]:
    """Return all records that a consumer reads from a topic: values by offset. Raises
    KafkaError."""
    found: dict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
    config = ConsumerConfig(auto_offset_reset="earliest")
    async with Consumer(cluster.client_host.world, cluster.client_config, config) as consumer:
        await consumer.assign_topics(topic)
        async for record in consumer.read_to():
            found[TopicPartition(topic, record.partition)][record.offset] = record.value or b""
    return found
