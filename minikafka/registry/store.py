"""The topic `_schemas`: one process appends to it, any number of processes follow it.

Every process reads the topic from its beginning and applies what it reads; the writing process,
too, sees its records only when they come back. The writer is a transactional producer with a fixed
transactional id. A writer that starts later fences the earlier one, which from then on only reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from minikafka.client.admin.admin import Admin
from minikafka.client.config import ClientConfig
from minikafka.client.consumer.config import ConsumerConfig
from minikafka.client.consumer.consumer import Consumer
from minikafka.client.producer.config import ProducerConfig
from minikafka.client.producer.producer import Producer
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World
from minikafka.registry.errors import not_primary, store_failed, timed_out
from minikafka.registry.records import StoreRecord

MOST_REPLICAS: Final = 3
APPEND_WITHIN_S: Final = 30
_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


class TopicStore:
    """The records of a topic with one partition. ``apply`` is called with each, in order."""

    def __init__(
        self,
        world: World,
        config: ClientConfig,
        topic: str,
        writes: bool,
        apply: Callable[[StoreRecord], None],
    ) -> None:
        self._world = world
        self._config = config
        self._partition = TopicPartition(topic, 0)
        self._apply = apply
        self._applied = -1
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._reader = Consumer(
            world,
            config,
            ConsumerConfig(auto_offset_reset="earliest", isolation_level="read_committed"),
        )
        self._writer: Producer | None = None
        if writes:
            self._writer = Producer(
                world, config, ProducerConfig(transactional_id=f"minikafka-registry-{topic}")
            )
        self._why_not = "" if writes else "it was started with --read-only"

    async def run(self, ready: Callable[[], None]) -> None:
        """Call ``ready`` when everything that is in the topic now has been applied; then follow
        it. Raises KafkaError, ConfigError for a topic that cannot be used."""
        await self._check_topic()
        async with self._reader:
            if self._writer is None:
                await self._follow(ready)
            else:
                async with self._writer:
                    # The earlier writer is fenced before the end of the topic is looked up.
                    await self._writer.init_transactions()
                    await self._follow(ready)

    async def append(self, records: Sequence[StoreRecord]) -> None:
        """Append records, all or none, and wait until they are applied here. Raises
        RegistryError."""
        if self._writer is None or self._why_not:
            raise not_primary(self._why_not)
        topic = self._partition.topic
        try:
            async with self._writer.transaction():
                sent = [
                    await self._writer.send(topic, value, key, partition=0)
                    for key, value in records
                ]
            offset = sent[-1].result().offset
        except KafkaError as error:
            if error.code in _FENCED:
                self._why_not = "another process has become the one that writes"
                raise not_primary(self._why_not) from None
            if error.code == ErrorCode.REQUEST_TIMED_OUT:
                raise timed_out(str(error)) from None
            raise store_failed(str(error)) from None
        await self._until(offset)

    async def _check_topic(self) -> None:
        topic = self._partition.topic
        async with Admin(self._world, self._config) as admin:
            brokers = len((await admin.describe_cluster()).nodes)
            if self._writer is not None:
                try:
                    await admin.create_topic(
                        topic, 1, min(MOST_REPLICAS, brokers), {"cleanup.policy": "compact"}
                    )
                except KafkaError as error:
                    if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                        raise
            view = await admin.wait_for_topic(topic)
            if len(view.partitions) != 1:
                raise ConfigError(f"{topic} must have one partition, not {len(view.partitions)}")

    async def _follow(self, ready: Callable[[], None]) -> None:
        self._reader.assign([self._partition])
        async for record in self._reader.read_to():
            self._apply((record.key or b"", record.value))
            self._applied = record.offset
        ready()
        while True:
            for record in await self._reader.poll():
                self._apply((record.key or b"", record.value))
                self._applied = record.offset
            self._wake()

    def _wake(self) -> None:
        """Complete the waits for what is applied now."""
        still = [(offset, done) for offset, done in self._waiting if offset > self._applied]
        for offset, done in self._waiting:
            if offset <= self._applied and not done.done():
                done.set_result(None)
        self._waiting = still

    async def _until(self, offset: int) -> None:
        if offset <= self._applied:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, done))
        try:
            async with asyncio.timeout(APPEND_WITHIN_S):
                await done
        except TimeoutError:
            raise timed_out("what was written did not come back") from None
