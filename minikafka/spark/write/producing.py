"""An idempotent producer of Arrow columns, which retries each batch until it is acknowledged.

``send_rows`` sends all rows of a task, for at-least-once and exactly-once delivery.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from minikafka.client.columnar.encode import EncodedBatch, ProducerStamp, encode_batches
from minikafka.client.columnar.partitioning import chunks_of
from minikafka.core.client.producer.calls import (
    ProduceCall,
    TransactionalProducer,
    new_producer_id,
    produce,
)
from minikafka.kernel.cluster import ProducerIdAndEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.batch import NO_PRODUCER_ID, NO_SEQUENCE
from minikafka.protocol.records.compression import Compression
from minikafka.spark.cluster import Cluster, pause
from minikafka.spark.connection import BlockingConnection
from minikafka.spark.failure_text import WRITE, missing_acl
from minikafka.spark.options import TopicSelection
from minikafka.spark.read.offsets import names
from minikafka.spark.write.routing import Router
from minikafka.world.real.wall_clock import WallClock

if TYPE_CHECKING:
    import pyarrow as pa


_REQUEST_BYTES: Final = 8 * 1024 * 1024


def idempotent_producer(cluster: Cluster) -> ProducerIdAndEpoch:
    """Request a new producer id from any broker. Raises KafkaError."""
    return cluster.retrying(lambda: cluster.call_any(new_producer_id()), "InitProducerId")


class Producing:
    """A producer for one task.

    Each broker has at most one request in flight, with at most one batch of each partition, so that
    the batches of a partition stay in order when one is sent again.

    ``add`` queues rows. ``settle`` sends them and returns with the last requests in flight, so that
    the caller can encode more rows meanwhile. ``flush`` waits until all are acknowledged. All raise
    KafkaError: a fatal one immediately, a retriable one after ``delivery.timeout.ms`` without any
    acknowledgement. Call ``close`` at the end."""

    def __init__(
        self,
        cluster: Cluster,
        producer: TransactionalProducer | ProducerIdAndEpoch,
        batch_bytes: int,
    ) -> None:
        self.records = 0
        self._cluster = cluster
        self._options = cluster.options
        self._transactional_id: str | None = None
        if isinstance(producer, TransactionalProducer):
            self._transactional_id = producer.transactional_id
        self._stamp = ProducerStamp(
            producer.producer_id, producer.epoch, self._transactional_id is not None
        )
        self._batch_bytes = batch_bytes
        self._compression = Compression[cluster.options.compression.upper()]
        self._sequences: dict[TopicPartition, int] = {}
        self._queues: dict[TopicPartition, deque[EncodedBatch]] = {}
        self._connections: dict[int, BlockingConnection] = {}
        self._in_flight: dict[int, tuple[ProduceCall, list[TopicPartition]]] = {}
        self._clock = WallClock()
        self._last_error = ErrorCode.NONE

    def add(self, partition: TopicPartition, columns: Mapping[str, pa.Array]) -> None:
        """Encode rows and queue the batches. Raises KafkaError MESSAGE_TOO_LARGE if a batch is
        larger than ``max.request.size``."""
        first = NO_SEQUENCE if self._stamp.producer_id == NO_PRODUCER_ID else 0
        for batch in encode_batches(
            columns,
            self._cluster.now_ms(),
            self._stamp,
            self._sequences.get(partition, first),
            self._compression,
            self._batch_bytes,
        ):
            if len(batch.data) > self._options.max_request_size:
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"a record for {partition} takes {len(batch.data)} bytes, more than "
                    f"kafka.max.request.size={self._options.max_request_size}",
                )
            self._queues.setdefault(partition, deque()).append(batch)
            self._sequences[partition] = batch.next_sequence
            self.records += batch.record_count

    def settle(self) -> None:
        """Send until each partition has at most one batch left, which is in flight."""
        self._send_until(lambda: all(len(queue) <= 1 for queue in self._queues.values()))
        self._dispatch()

    def flush(self) -> None:
        """Send until every batch is acknowledged."""
        self._send_until(lambda: not self._queues)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _send_until(self, reached: Callable[[], bool]) -> None:
        timeout_ms = self._options.delivery_timeout_ms
        deadline_ms, failures = self._clock.monotonic_ms() + timeout_ms, 0
        while not reached():
            before = self._left()
            self._dispatch()
            self._collect()
            if self._left() < before:
                deadline_ms, failures = self._clock.monotonic_ms() + timeout_ms, 0
            elif self._clock.monotonic_ms() >= deadline_ms:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"no batch for {names(self._queues)} was acknowledged for {timeout_ms} ms",
                )
            else:
                pause(self._cluster.backoff_ms(self._last_error, failures))
                failures += 1

    def _left(self) -> int:
        return sum(map(len, self._queues.values()))

    def _dispatch(self) -> None:
        under_way = {each for _, partitions in self._in_flight.values() for each in partitions}
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in [each for each in self._queues if each not in under_way]:
            by_leader.setdefault(self._leader(partition), []).append(partition)
        for leader, partitions in by_leader.items():
            if leader not in self._in_flight:
                try:
                    self._request(leader, partitions)
                except KafkaError as error:
                    self._note_error(error)

    def _leader(self, partition: TopicPartition) -> int:
        return self._cluster.retrying(
            lambda: self._cluster.leader(partition),
            f"writing to {partition}",
            self._options.delivery_timeout_ms,
        )

    def _request(self, leader: int, partitions: list[TopicPartition]) -> None:
        size = 0
        taken: dict[TopicPartition, memoryview] = {}
        for partition in partitions:
            data = self._queues[partition][0].data
            if taken and size + len(data) > _REQUEST_BYTES:
                break
            size += len(data)
            taken[partition] = memoryview(data)
        options = self._options
        call = produce(
            taken.items(), options.acks, options.request_timeout_ms, self._transactional_id
        )
        connection = self._connections.get(leader)
        if connection is None or not connection.is_open:
            connection = self._connections[leader] = self._cluster.new_connection(leader)
        if options.acks == 0:
            connection.send_and_forget(call.request, call.highest_version)
            for partition in taken:
                self._delivered(partition)
        else:
            connection.send(call.request, call.highest_version)
            self._in_flight[leader] = (call, list(taken))

    def _collect(self) -> None:
        for leader in list(self._in_flight):
            call, _ = self._in_flight.pop(leader)
            try:
                rows = call.read(self._connections[leader].receive())
            except KafkaError as error:
                self._note_error(error)
                continue
            for partition, row in rows.items():
                code = ErrorCode(row.error_code)
                if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self._delivered(partition)
                else:
                    text = _explain(partition, code, row.error_message)
                    self._note_error(KafkaError(code, text))

    def _delivered(self, partition: TopicPartition) -> None:
        queue = self._queues[partition]
        queue.popleft()
        if not queue:
            del self._queues[partition]

    def _note_error(self, error: KafkaError) -> None:
        """Raise ``error`` unless it is retriable. The batches of a failed request are still queued
        and are sent again, to the current leader."""
        if not error.retriable:
            raise error
        self._last_error = error.code
        self._cluster.note_error(error.code)


def _explain(partition: TopicPartition, code: ErrorCode, message: str | None) -> str:
    text = f"writing to {partition}: {message or code.name}"
    if code is ErrorCode.MESSAGE_TOO_LARGE:
        text += " (set the option kafka.batch.size to a lower value)"
    return text + missing_acl(code, WRITE)


def send_rows(
    batches: Iterator[pa.RecordBatch],
    topic: str | None,
    cluster: Cluster,
    producing: Producing,
    announce: Callable[[set[TopicPartition]], None],
) -> set[str]:
    """Send rows, wait until they are acknowledged, and return the topics that they went to.

    ``announce`` is called with partitions before rows are sent to them, so that a transaction can
    add them. Raises WriteError, KafkaError."""
    counts: dict[str, int] = {}
    announced: set[TopicPartition] = set()

    def count_of(name: str) -> int:
        if name not in counts:
            counts[name] = len(cluster.partitions(TopicSelection(topics=(name,))))
        return counts[name]

    dice = random.SystemRandom()
    router = Router(topic, count_of, lambda: dice.randrange(1 << 31))
    for chunk in chunks_of(batches):
        routed = list(router.route(chunk))
        new = {partition for partition, _ in routed} - announced
        if new:
            announce(new)
            announced |= new
        for partition, columns in routed:
            producing.add(partition, columns)
        producing.settle()
    producing.flush()
    return {partition.topic for partition in announced}
