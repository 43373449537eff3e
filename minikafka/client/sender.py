"""Sends the accumulator's batches to the leaders of their partitions, and settles their records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from minikafka.client.session import ClusterSession
from minikafka.client.waiting import wait_for_event
from minikafka.core.client.accumulator import Accumulator, ProducerBatch
from minikafka.core.client.answers import error_code
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression

UNKNOWN_OFFSET = -1


class RecordMetadata(NamedTuple):
    """Where a record went. ``offset`` is -1 with acks=0, which waits for no answer."""

    topic: str
    partition: int
    offset: int
    timestamp: int


Promise: TypeAlias = "asyncio.Future[RecordMetadata]"
Batch: TypeAlias = ProducerBatch[Promise]


@dataclass(frozen=True, slots=True)
class SenderConfig:
    acks: int
    compression: Compression
    request_timeout_ms: int
    max_in_flight: int


class Sender:
    """One loop that looks what is ready, and one task per request in flight (per broker at most
    ``max_in_flight``; per partition one, so that retries keep the order)."""

    def __init__(
        self,
        session: ClusterSession,
        accumulator: Accumulator[Promise],
        config: SenderConfig,
        on_settled: Callable[[], None],
    ) -> None:
        self._session = session
        self._accumulator = accumulator
        self._config = config
        self._on_settled = on_settled
        self._wake = asyncio.Event()
        self._in_flight: dict[int, int] = {}  # requests by broker
        self._requests: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup | None = None
        self._loop_task: asyncio.Task[None] | None = None
        self.requests_sent = 0
        self.batches_sent = 0

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._session.metadata.add_listener(self.wake)
        self._loop_task = tasks.create_task(self._run(), name="producer-sender")

    async def close(self) -> None:
        """End the tasks. What is still in flight or queued fails with NETWORK_EXCEPTION."""
        running = [*self._requests]
        if self._loop_task is not None:
            running.append(self._loop_task)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        for batch in self._accumulator.take_all():
            self._fail(batch, KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer was closed"))

    def wake(self) -> None:
        """There is something new to look at."""
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
        """One pass. Returns when the next is due though nothing happens."""
        assert self._tasks is not None
        accumulator, metadata = self._accumulator, self._session.metadata
        now_ms = self._session.world.clock.monotonic_ms()
        for batch in accumulator.expire(now_ms):
            self._fail(
                batch,
                KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{batch.topic_partition}: not delivered within "
                    f"{accumulator.config.delivery_timeout_ms} ms",
                ),
            )
        ready = accumulator.ready(now_ms, metadata.view.leaders)
        if ready.unknown_topics:
            metadata.request_update()
        for leader, partitions in sorted(ready.partitions_by_leader.items()):
            while self._in_flight.get(leader, 0) < self._config.max_in_flight:
                batches = accumulator.drain(partitions)
                if not batches:
                    break
                self._in_flight[leader] = self._in_flight.get(leader, 0) + 1
                task = self._tasks.create_task(self._deliver(leader, batches))
                self._requests.add(task)
                task.add_done_callback(self._requests.discard)
        return ready.next_ms

    async def _deliver(self, leader: int, batches: Sequence[Batch]) -> None:
        """One request from sending to settling. Cancelled, it leaves its batches to ``close``."""
        try:
            answers = await self._request(leader, batches)
        except KafkaError as error:
            for batch in batches:
                self._retry_or_fail(batch, error)
        else:
            for batch in batches:
                self._settle(batch, answers[batch.topic_partition])
        finally:
            self._in_flight[leader] -= 1
            self.wake()

    async def _request(
        self, leader: int, batches: Sequence[Batch]
    ) -> dict[TopicPartition, PartitionProduceResponse]:
        """The answer per partition. Raises KafkaError when there is none."""
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            topic, partition = batch.topic_partition
            records = build_batch(batch.records, compression=self._config.compression)
            topics.setdefault(topic, []).append(PartitionProduceData(partition, records))
        request = ProduceRequest(
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=[TopicProduceData(name, rows) for name, rows in topics.items()],
        )
        self.requests_sent += 1
        self.batches_sent += len(batches)
        connections = self._session.connections
        if self._config.acks == 0:
            await connections.send(leader, request)
            nothing = PartitionProduceResponse(base_offset=UNKNOWN_OFFSET)
            return {batch.topic_partition: nothing for batch in batches}
        response: ProduceResponse = await connections.request(leader, request)
        answers = {
            TopicPartition(topic.name, row.index): row
            for topic in response.responses
            for row in topic.partition_responses
        }
        silence = PartitionProduceResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        return {
            batch.topic_partition: answers.get(batch.topic_partition, silence) for batch in batches
        }

    def _settle(self, batch: Batch, answer: PartitionProduceResponse) -> None:
        code = error_code(answer.error_code)
        if code is ErrorCode.NONE:
            self._accumulator.complete(batch)
            self._keep_promises(batch, answer.base_offset, answer.log_append_time_ms)
            self._on_settled()
        elif code is ErrorCode.MESSAGE_TOO_LARGE and self._accumulator.split(batch):
            return
        else:
            text = answer.error_message or str(batch.topic_partition)
            self._retry_or_fail(batch, KafkaError(code, text))

    def _retry_or_fail(self, batch: Batch, error: KafkaError) -> None:
        self._session.metadata.note_error(error.code)
        now_ms = self._session.world.clock.monotonic_ms()
        if not (error.code.retriable and self._accumulator.retry(batch, now_ms)):
            self._accumulator.complete(batch)
            self._fail(batch, error)

    def _keep_promises(self, batch: Batch, base_offset: int, append_time_ms: int) -> None:
        topic, partition = batch.topic_partition
        offset = base_offset
        for promise, record in zip(batch.tokens, batch.records, strict=True):
            timestamp = record[0] if append_time_ms == -1 else append_time_ms
            if not promise.done():
                promise.set_result(RecordMetadata(topic, partition, offset, timestamp))
            if offset != UNKNOWN_OFFSET:
                offset += 1

    def _fail(self, batch: Batch, error: KafkaError) -> None:
        for promise in batch.tokens:
            if not promise.done():
                promise.set_exception(error)
        self._on_settled()
