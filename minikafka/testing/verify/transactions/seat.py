"""A seat: a transactional id, whose producers follow each other while the old ones try on."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from minikafka.client import ClientConfig, Consumer, ConsumerConfig, Producer, ProducerConfig
from minikafka.core.client.errors import FATAL_TO_PRODUCER
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.testing.verify.append.history import Reading
from minikafka.testing.verify.append.writer import identify, value_of
from minikafka.testing.verify.transactions.history import (
    NEVER,
    Incarnation,
    ObservedTransaction,
    TransactionHistory,
)
from minikafka.testing.verify.transactions.reader import POLL_MS, partitions_of
from minikafka.testing.verify.workload import Scene

MOST_RECORDS: Final = 10  # of a transaction
ABORTED_ONE_IN: Final = 5
LEFT_OPEN_ONE_IN: Final = 40
COMMIT_AGAIN_ONE_IN: Final = 2
SHORTEST_LIFE_MS, LONGEST_LIFE_MS = 3_000, 15_000  # of a producer, until another one takes over
TRANSACTION_TIMEOUT_MS: Final = 15_000
AGAIN_MS: Final = 500


class Seat(ABC):
    """Runs transactions under one transactional id until ``stop`` is set.

    Its producers follow each other; the old ones are not stopped. ``fenced`` counts those that
    ended because they were fenced.
    """

    def __init__(
        self,
        scene: Scene,
        topic: str,
        name: str,
        history: TransactionHistory,
        stop: asyncio.Event,
    ) -> None:
        config = scene.config
        self.name = name
        self.fenced = 0
        self._scene = scene
        self._topic = topic
        self._run = scene.run.encode()
        self._history = history
        self._stop = stop
        self._newest: Incarnation | None = None
        # Calls of the coordinator end soon, so that ends of transactions are in doubt.
        self._client = replace(scene.client, default_api_timeout_ms=2 * config.request_timeout_ms)

    @abstractmethod
    def _new_consumer(self) -> Consumer:
        """Return the consumer of one producer."""

    @abstractmethod
    async def _fill(
        self, producer: Producer, transaction: ObservedTransaction, consumer: Consumer
    ) -> None:
        """Read and send. Raises KafkaError if something was not done."""

    @abstractmethod
    async def _rewind(self, consumer: Consumer) -> None:
        """Let the consumer read again what an aborted transaction has read. Raises KafkaError."""

    async def run(self) -> None:
        """Begin a producer when the last one has lived its time, or has failed. That one does not
        learn that it has a successor."""
        scene = self._scene
        async with asyncio.TaskGroup() as producers:
            while not self._stop.is_set():
                living = producers.create_task(self._live())
                end_ms = scene.now_ms() + SHORTEST_LIFE_MS
                end_ms += self._randrange(LONGEST_LIFE_MS - SHORTEST_LIFE_MS)
                while not (living.done() or self._stop.is_set()) and scene.now_ms() < end_ms:
                    await scene.sleep(POLL_MS)

    async def settle(self, timeout_ms: int) -> bool:
        """Take the transactional id over, which ends its last transaction. Return whether that
        succeeded in time."""
        end_ms = self._scene.now_ms() + timeout_ms
        while self._scene.now_ms() < end_ms:
            incarnation = self._incarnate()
            with suppress(KafkaError):
                async with self._producer() as producer:
                    await producer.init_transactions()
                    incarnation.ready_ms = self._scene.now_ms()
                    return True
            await self._scene.sleep(AGAIN_MS)
        return False

    def _producer(self) -> Producer:
        return transactional_producer(self._scene, self._client, self.name)

    def _randrange(self, stop: int) -> int:
        return self._scene.world.entropy.randrange(stop)

    def _incarnate(self) -> Incarnation:
        self._newest = self._history.incarnate(self.name, self._scene.now_ms())
        return self._newest

    async def _live(self) -> None:
        """Run transactions with a new producer until the load ends, a call fails for good, or the
        producer leaves a transaction open."""
        first = self._incarnate()
        try:
            async with self._producer() as producer, self._new_consumer() as consumer:
                await producer.init_transactions()
                first.ready_ms = self._scene.now_ms()
                going_on: Incarnation | None = first
                while going_on is not None and not self._stop.is_set():
                    going_on = await self._transact(producer, going_on, consumer)
        except KafkaError as error:
            self.fenced += error.code in FATAL_TO_PRODUCER
            await self._scene.sleep(AGAIN_MS)

    async def _transact(
        self, producer: Producer, incarnation: Incarnation, consumer: Consumer
    ) -> Incarnation | None:
        """Run a transaction; return what goes on with this producer. Raises the KafkaError after
        which nothing can."""
        producer.begin_transaction()
        transaction = self._history.begin(incarnation, self._scene.now_ms())
        try:
            await self._fill(producer, transaction, consumer)
            # A producer that has a successor waits for it, so that it must not commit.
            while self._newest is not incarnation and self._newest_is_awaited():
                await self._scene.sleep(POLL_MS)
            if not self._randrange(LEFT_OPEN_ONE_IN):
                return None
            if self._randrange(ABORTED_ONE_IN):
                await self._commit(producer, transaction)
                return incarnation
            await producer.abort_transaction()
            await self._rewind(consumer)
            return incarnation
        except KafkaError:
            if transaction.commit_ms != NEVER:
                raise  # in doubt
            return await self._give_up(producer, incarnation, consumer)
        finally:
            self._history.end(transaction, self._scene.now_ms())

    def _newest_is_awaited(self) -> bool:
        newest = self._newest
        return newest is not None and newest.ready_ms == NEVER and not self._stop.is_set()

    async def _deliver(
        self,
        producer: Producer,
        transaction: ObservedTransaction,
        partitions: Iterable[int],
        pause_ms: int = 0,
    ) -> None:
        """Send a record to each of these partitions, in this order, and note their offsets. Raises
        the KafkaError of one that was not delivered."""
        size_bytes, promises = self._scene.config.value_bytes, []
        for partition in partitions:
            value = value_of(self._run, transaction.add(partition), size_bytes)
            promises.append(await producer.send(self._topic, value, partition=partition))
            await self._scene.sleep(pause_ms)
        await producer.flush()
        for index, promise in enumerate(promises):
            if promise.exception() is None:
                transaction.offsets[index] = promise.result().offset
        for promise in promises:
            promise.result()

    async def _commit(self, producer: Producer, transaction: ObservedTransaction) -> None:
        """Commit; without a response sometimes again. Raises KafkaError."""
        transaction.commit_ms = self._scene.now_ms()
        while True:
            try:
                await producer.commit_transaction()
                break
            except KafkaError as error:
                if not error.retriable or self._randrange(COMMIT_AGAIN_ONE_IN):
                    raise
        transaction.committed_ms = self._scene.now_ms()

    async def _give_up(
        self, producer: Producer, incarnation: Incarnation, consumer: Consumer
    ) -> Incarnation:
        """Abort a transaction of which something failed. The producer goes on as another one: old
        brokers give it a new epoch whoever has taken the id over. Raises KafkaError."""
        again = self._history.incarnate(self.name, self._scene.now_ms())
        if self._newest is incarnation:
            self._newest = again
        await producer.abort_transaction()
        again.ready_ms = self._scene.now_ms()
        await self._rewind(consumer)
        return again


class Appender(Seat):
    """A seat whose transactions append to random partitions, and read the same topic."""

    def __init__(
        self,
        scene: Scene,
        topic: str,
        name: str,
        history: TransactionHistory,
        stop: asyncio.Event,
    ) -> None:
        super().__init__(scene, topic, name, history, stop)
        self._reading = Reading(f"reader of {name}")
        history.committed.append(self._reading)
        self._positions = dict.fromkeys(partitions_of(scene, topic), 0)
        per_s = max(1, scene.config.records_per_s // scene.config.producers)
        self._pause_ms = max(1, 1_000 // per_s)  # after a record

    def _new_consumer(self) -> Consumer:
        config = ConsumerConfig(auto_offset_reset="none", isolation_level="read_committed")
        consumer = Consumer(self._scene.world, self._scene.client, config)
        consumer.assign(self._positions)
        for tp, position in self._positions.items():
            consumer.seek(tp, position)
        return consumer

    async def _fill(
        self, producer: Producer, transaction: ObservedTransaction, consumer: Consumer
    ) -> None:
        count = 1 + self._randrange(MOST_RECORDS)
        partitions = [self._randrange(len(self._positions)) for _ in range(count)]
        await self._deliver(producer, transaction, partitions, self._pause_ms)
        if self._newest is transaction.incarnation:
            await self._read(transaction, consumer)

    async def _rewind(self, consumer: Consumer) -> None:
        """Do nothing: what was read is noted, and has no other effect."""

    async def _read(self, transaction: ObservedTransaction, consumer: Consumer) -> None:
        """Note one record of each transaction that was read, without waiting for more."""
        sources: set[int] = set()
        for record in await consumer.poll(0):
            found = identify(self._run, record.value)
            self._reading.see(record.partition, record.offset, found, self._scene.now_ms())
            self._positions[TopicPartition(self._topic, record.partition)] = record.offset + 1
            if found is not None and found.producer not in sources:
                sources.add(found.producer)
                transaction.reads.append(found)


def transactional_producer(scene: Scene, client: ClientConfig, transactional_id: str) -> Producer:
    timeout_ms = client.default_api_timeout_ms
    config = ProducerConfig(
        transactional_id=transactional_id,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        max_block_ms=timeout_ms,
        delivery_timeout_ms=timeout_ms,
    )
    return Producer(scene.world, client, config)
