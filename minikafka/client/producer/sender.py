"""Sends the accumulator's batches to the leaders, and completes the futures of their records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from minikafka.client.producer.transaction_manager import TransactionManager
from minikafka.client.session import ClusterSession
from minikafka.client.task_waits import wait_for_event
from minikafka.core.client.producer.accumulator import Accumulator, ProducerBatch, Ready
from minikafka.core.client.producer.calls import new_producer_id, produce
from minikafka.core.client.producer.producer_batch import RunBatch
from minikafka.core.client.producer.sequences import BatchOutcome, Sequences
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.produce import PartitionProduceResponse
from minikafka.protocol.records.compression import Compression

UNKNOWN_OFFSET = -1


class RecordMetadata(NamedTuple):
    """Where a record was written. ``offset`` is -1 with acks=0, which has no response."""

    topic: str
    partition: int
    offset: int
    timestamp: int


_new_metadata = tuple.__new__

Promise: TypeAlias = "asyncio.Future[RecordMetadata]"
Batch: TypeAlias = ProducerBatch[Promise]


@dataclass(slots=True)
class SenderCounts:
    """Counters since the start. ``retries`` and ``failed`` count records."""

    records: int = 0
    bytes_sent: int = 0
    batches: int = 0
    requests: int = 0
    retries: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class SenderConfig:
    """The producer's keys for sending. ``idempotent`` None stands for: if the brokers support
    it."""

    acks: int
    compression: Compression
    compression_level: int | None
    request_timeout_ms: int
    max_in_flight: int
    idempotent: bool | None


class Sender:
    """Sends ready batches in one loop, with one task for each request in flight.

    A broker has at most ``max_in_flight`` requests. ``sequences`` is None for a producer without
    idempotence. ``transactions`` provides the producer id of a transactional producer and is
    notified of failed batches. ``on_settled`` is called after batches were delivered or have
    failed.
    """

    def __init__(
        self,
        session: ClusterSession,
        accumulator: Accumulator[Promise],
        sequences: Sequences | None,
        transactions: TransactionManager | None,
        config: SenderConfig,
        on_settled: Callable[[], None],
    ) -> None:
        self.sequences = sequences
        self._transactions = transactions
        self._aborting = False
        self.counts = SenderCounts()
        self._session = session
        self._accumulator = accumulator
        self._config = config
        self._on_settled = on_settled
        self._wake = asyncio.Event()
        self._in_flight: dict[int, int] = {}  # requests by broker
        self._requests: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup | None = None
        self._loop_task: asyncio.Task[None] | None = None
        self._producer_id_task: asyncio.Task[None] | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._session.metadata.add_listener(self.wake)
        self._loop_task = tasks.create_task(self._run(), name="Sender")

    async def close(self) -> None:
        """Cancel the tasks. Batches in flight or queued fail with NETWORK_EXCEPTION."""
        running = [*self._requests]
        if self._loop_task is not None:
            running.append(self._loop_task)
        if self._producer_id_task is not None:
            running.append(self._producer_id_task)
        for task in running:
            task.cancel()
        try:
            if running:
                await asyncio.wait(running)
        finally:
            error = KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer was closed")
            for batch in self._accumulator.take_all():
                if isinstance(batch, RunBatch):
                    batch.outcome.silence()
                self._fail(batch, error)
                for promise in batch.tokens:
                    if not promise.cancelled():
                        promise.exception()  # retrieved: the caller may ignore it

    async def drop(self, error: KafkaError) -> None:
        """Fail the queued batches and wait for those in flight: the transaction is aborted."""
        self._aborting = True
        try:
            for batch in self._accumulator.take_queued():
                if self.sequences is not None:
                    self.sequences.given_up(batch)
                self._fail(batch, error)
            while self._requests:
                await asyncio.wait(set(self._requests))
        finally:
            self._aborting = False

    def wake(self) -> None:
        """Make the loop look for ready batches now."""
        self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            next_ms = self._send_what_is_ready()
            timeout_ms = None
            if next_ms is not None:
                timeout_ms = next_ms - self._session.world.clock.monotonic_ms()
            await wait_for_event(self._wake, timeout_ms)

    def _send_what_is_ready(self) -> int | None:
        """Send all ready batches. Return the time (ms) at which to look again without a wake-up."""
        assert self._tasks is not None
        accumulator, metadata = self._accumulator, self._session.metadata
        now_ms = self._session.world.clock.monotonic_ms()
        self._expire(now_ms)
        if self.sequences is not None and not self.sequences.is_ready:
            if not accumulator.is_empty and self._transactions is None:
                self._want_producer_id()
            return accumulator.ready(now_ms, {}).next_ms
        ready = self._ready(now_ms)
        if ready.unknown_topics:
            metadata.request_update()
        for leader, partitions in sorted(ready.partitions_by_leader.items()):
            while self._in_flight.get(leader, 0) < self._config.max_in_flight:
                batches = accumulator.drain(partitions, self._admit)
                if not batches:
                    break
                self._in_flight[leader] = self._in_flight.get(leader, 0) + 1
                task = self._tasks.create_task(self._deliver(leader, batches))
                self._requests.add(task)
                task.add_done_callback(self._requests.discard)
                partitions = self._ready(now_ms).partitions_by_leader.get(leader, [])
        return ready.next_ms

    def _ready(self, now_ms: int) -> Ready:
        view = self._session.metadata.view
        return self._accumulator.ready(now_ms, view.leaders, view.leader_epoch)

    def _admit(self, batch: Batch, others_in_flight: bool) -> bool:
        if self.sequences is not None and not self.sequences.stamp(batch, others_in_flight):
            return False
        batch.sent_to(self._session.metadata.view.leader_epoch(batch.topic_partition))
        return True

    def _expire(self, now_ms: int) -> None:
        for batch in self._accumulator.expire(now_ms):
            if self.sequences is not None:
                self.sequences.given_up(batch)
            timeout_ms = self._accumulator.config.delivery_timeout_ms
            text = f"{batch.topic_partition}: not delivered within {timeout_ms} ms"
            self._fail(batch, KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))

    # -- the producer id

    def _want_producer_id(self) -> None:
        assert self._tasks is not None
        if self._producer_id_task is None:
            self._producer_id_task = self._tasks.create_task(self._get_producer_id())

    async def _get_producer_id(self) -> None:
        """Get a producer id, retrying without end; batches expire in the meantime.

        If the brokers do not support it and idempotence was not required, the producer continues
        without.
        """
        session = self._session
        try:
            producer = await session.retrying(
                lambda: session.call_any(new_producer_id(), session.deadline_ms()), None
            )
            if self.sequences is not None:
                self.sequences.set_producer(producer.producer_id, producer.epoch)
        except KafkaError as error:
            self._no_producer_id(error)
        finally:
            self._producer_id_task = None
            self.wake()

    def _no_producer_id(self, error: KafkaError) -> None:
        if self._config.idempotent is None and error.code is ErrorCode.UNSUPPORTED_VERSION:
            self.sequences = None
            self._accumulator.one_in_flight()
            return
        for batch in self._accumulator.take_all():
            self._fail(batch, error)

    # -- requests

    async def _deliver(self, leader: int, batches: Sequence[Batch]) -> None:
        """Send one request and complete its batches. When cancelled, ``close`` completes them."""
        try:
            responses = await self._request(leader, batches)
        except KafkaError as error:
            for batch in batches:
                self._session.metadata.note_leader_error(batch.topic_partition, leader, error.code)
                self._refused(batch, error)
        else:
            for batch in batches:
                self._settle(batch, responses[batch.topic_partition])
        finally:
            self._in_flight[leader] -= 1
            self.wake()

    async def _request(
        self, leader: int, batches: Sequence[Batch]
    ) -> dict[TopicPartition, PartitionProduceResponse]:
        """Send one request and return the outcome of each partition. Raises KafkaError."""
        config, counts = self._config, self.counts
        transactions = self._transactions
        built = [
            batch.build(config.compression, config.compression_level, transactions is not None)
            for batch in batches
        ]
        counts.bytes_sent += sum(map(len, built))
        call = produce(
            zip((batch.topic_partition for batch in batches), built, strict=True),
            config.acks,
            config.request_timeout_ms,
            None if transactions is None else transactions.transactional_id,
            transactions is not None and transactions.version_2,
        )
        counts.requests += 1
        counts.batches += len(batches)
        connections = self._session.connections
        if config.acks == 0:
            await connections.send(leader, call.request, call.highest_version)
            nothing = PartitionProduceResponse(base_offset=UNKNOWN_OFFSET)
            return {batch.topic_partition: nothing for batch in batches}
        response = await connections.request(
            leader, call.request, highest_version=call.highest_version
        )
        outcomes = call.read(response)
        self._session.metadata.note_leader_errors(leader, outcomes, response.node_endpoints)
        missing = PartitionProduceResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        return {
            batch.topic_partition: outcomes.get(batch.topic_partition, missing) for batch in batches
        }

    def _settle(self, batch: Batch, response: PartitionProduceResponse) -> None:
        code = ErrorCode(response.error_code)
        if code is ErrorCode.NONE:
            if self.sequences is not None:
                self.sequences.acknowledged(batch)
            self._delivered(batch, response.base_offset, response.log_append_time_ms)
        elif code is ErrorCode.MESSAGE_TOO_LARGE and self._accumulator.split(batch):
            return
        else:
            text = response.error_message or str(batch.topic_partition)
            self._refused(batch, KafkaError(code, text))

    def _refused(self, batch: Batch, error: KafkaError) -> None:
        verdict = BatchOutcome.RETRY if error.retriable else BatchOutcome.FAIL
        if self.sequences is not None:
            verdict = self.sequences.refused(batch, error.code, error.retriable)
        if verdict is BatchOutcome.DELIVERED:
            self._delivered(batch, UNKNOWN_OFFSET, -1)
            return
        now_ms = self._session.world.clock.monotonic_ms()
        if self._aborting:
            verdict = BatchOutcome.FAIL
        backoff_ms = self._backoff_ms(batch, error.code)
        if verdict is BatchOutcome.RETRY and self._accumulator.retry(batch, now_ms, backoff_ms):
            self.counts.retries += batch.record_count
            return
        if self.sequences is not None:
            self.sequences.given_up(batch)
        self._accumulator.complete(batch)
        self._fail(batch, error)

    def _backoff_ms(self, batch: Batch, code: ErrorCode) -> int:
        if self._transactions is not None and code is ErrorCode.NOT_ENOUGH_REPLICAS:
            # A leader says so, too, if it cannot reach the coordinator of the transaction.
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self._session.backoff_ms(code, batch.attempts_there - 1)

    def _delivered(self, batch: Batch, base_offset: int, append_time_ms: int) -> None:
        self._accumulator.complete(batch)
        self.counts.records += batch.record_count
        if isinstance(batch, RunBatch):
            batch.outcome.delivered(batch.topic_partition, base_offset, batch.record_count)
            self._on_settled()
            return
        topic, partition = batch.topic_partition
        offset, known = base_offset, base_offset != UNKNOWN_OFFSET
        for promise, timestamp in zip(batch.tokens, batch.timestamps, strict=True):
            if not promise.done():
                at = timestamp if append_time_ms == -1 else append_time_ms
                row = (topic, partition, offset, at)
                promise.set_result(_new_metadata(RecordMetadata, row))
            if known:
                offset += 1
        self._on_settled()

    def _fail(self, batch: Batch, error: KafkaError) -> None:
        self.counts.failed += batch.record_count
        if self._transactions is not None:
            self._transactions.note_failure(error)
        if isinstance(batch, RunBatch):
            if self._transactions is not None:
                batch.outcome.silence()
            batch.outcome.failed(batch.record_count, error)
        for promise in batch.tokens:
            if not promise.done():
                promise.set_exception(error)
                if self._transactions is not None:
                    promise.exception()  # the end of the transaction raises it
        self._on_settled()
