"""Writes Arrow columns to partitions: idempotent, every batch sent again until it is in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from minikafka.core.client.errors import STALE_METADATA
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.grouping import grouped
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.batch import NO_SEQUENCE
from minikafka.protocol.records.compression import Compression
from minikafka.spark.cluster import Cluster, pause
from minikafka.spark.connection import Connection
from minikafka.spark.read.offsets import names
from minikafka.spark.write.encode import EncodedBatch, ProducerStamp, encode_batches
from minikafka.world.real.wall_clock import WallClock

if TYPE_CHECKING:
    import pyarrow as pa

_AGAIN: Final = STALE_METADATA | {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}
_REQUEST_BYTES: Final = 8 * 1024 * 1024
_NO_TRANSACTION_TIMEOUT_MS: Final = 60_000


@dataclass(frozen=True)
class Identity:
    """Of a producer: as InitProducerId gave it, or nothing for acks other than all."""

    stamp: ProducerStamp = field(default_factory=ProducerStamp)
    transactional_id: str | None = None

    @property
    def is_idempotent(self) -> bool:
        return self.stamp.producer_id >= 0


def idempotent_identity(cluster: Cluster) -> Identity:
    """A fresh producer id. Raises KafkaError."""

    def ask() -> Identity:
        answer = cluster.request_any(
            InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS
            )
        )
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, "no producer id")
        return Identity(ProducerStamp(answer.producer_id, answer.producer_epoch))

    return cluster.retrying(ask, "InitProducerId")


class Producing:
    """Batches of many partitions. One request per broker is under way at a time, with at most one
    batch of each partition, so that batches of a partition stay in order when one is sent again.

    ``add`` queues, ``settle`` sends so much that the rest is under way while the caller makes more,
    ``flush`` waits for all. Errors are KafkaErrors: after ``delivery.timeout.ms`` without progress,
    or at once for what will not pass. ``close`` at the end."""

    def __init__(self, cluster: Cluster, identity: Identity, batch_bytes: int) -> None:
        self.records = 0
        self._cluster = cluster
        self._options = cluster.options
        self._identity = identity
        self._batch_bytes = batch_bytes
        self._compression = Compression[cluster.options.compression.upper()]
        self._sequences: dict[TopicPartition, int] = {}
        self._queues: dict[TopicPartition, deque[EncodedBatch]] = {}
        self._connections: dict[int, Connection] = {}
        self._asked: dict[int, list[TopicPartition]] = {}
        self._clock = WallClock()

    def add(self, partition: TopicPartition, columns: Mapping[str, pa.Array]) -> None:
        """Encode rows and queue them."""
        first = 0 if self._identity.is_idempotent else NO_SEQUENCE
        for batch in encode_batches(
            columns,
            self._cluster.now_ms(),
            self._identity.stamp,
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
        """Until each partition has one batch at most, which is under way."""
        self._send_until(lambda: all(len(queue) <= 1 for queue in self._queues.values()))
        self._dispatch()

    def flush(self) -> None:
        """Until everything is in."""
        self._send_until(lambda: not self._queues)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _send_until(self, reached: Callable[[], bool]) -> None:
        timeout_ms = self._options.delivery_timeout_ms
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        while not reached():
            before = self._left()
            self._dispatch()
            self._collect()
            if self._left() < before:
                deadline_ms = self._clock.monotonic_ms() + timeout_ms
            elif self._clock.monotonic_ms() >= deadline_ms:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"nothing could be written to {names(self._queues)} for {timeout_ms} ms",
                )
            else:
                pause(self._options.retry_backoff_ms)

    def _left(self) -> int:
        return sum(map(len, self._queues.values()))

    def _dispatch(self) -> None:
        under_way = {each for partitions in self._asked.values() for each in partitions}
        idle = [partition for partition in self._queues if partition not in under_way]
        by_leader = grouped((self._leader(partition), partition) for partition in idle)
        for leader, partitions in by_leader.items():
            if leader not in self._asked:
                try:
                    self._request(leader, partitions)
                except KafkaError as error:
                    self._note(error)

    def _leader(self, partition: TopicPartition) -> int:
        return self._cluster.retrying(
            lambda: self._cluster.leader(partition),
            f"writing to {partition}",
            self._options.delivery_timeout_ms,
        )

    def _request(self, leader: int, partitions: list[TopicPartition]) -> None:
        size = 0
        rows: list[tuple[str, PartitionProduceData]] = []
        taken: list[TopicPartition] = []
        for partition in partitions:
            data = self._queues[partition][0].data
            if taken and size + len(data) > _REQUEST_BYTES:
                break
            size += len(data)
            taken.append(partition)
            row = PartitionProduceData(index=partition.partition, records=memoryview(data))
            rows.append((partition.topic, row))
        request = ProduceRequest(
            transactional_id=self._identity.transactional_id,
            acks=self._options.acks,
            timeout_ms=self._options.request_timeout_ms,
            topic_data=[
                TopicProduceData(name=topic, partition_data=of_topic)
                for topic, of_topic in grouped(rows).items()
            ],
        )
        connection = self._connections.get(leader)
        if connection is None or not connection.is_open:
            connection = self._connections[leader] = self._cluster.new_connection(leader)
        if self._options.acks == 0:
            connection.send_and_forget(request)
            for partition in taken:
                self._is_in(partition)
        else:
            connection.send(request)
            self._asked[leader] = taken

    def _collect(self) -> None:
        for leader in list(self._asked):
            del self._asked[leader]
            try:
                answer = self._connections[leader].receive()
            except KafkaError as error:
                self._note(error)
                continue
            for topic in answer.responses:
                for row in topic.partition_responses:
                    partition = TopicPartition(topic.name, row.index)
                    code = ErrorCode(row.error_code)
                    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                        self._is_in(partition)
                    else:
                        self._note(KafkaError(code, _explain(partition, code, row.error_message)))

    def _is_in(self, partition: TopicPartition) -> None:
        queue = self._queues[partition]
        queue.popleft()
        if not queue:
            del self._queues[partition]

    def _note(self, error: KafkaError) -> None:
        """What passes is sent again, to the leader of then; the rest is the caller's."""
        if error.code not in _AGAIN:
            raise error
        self._cluster.topics.clear()


def _explain(partition: TopicPartition, code: ErrorCode, message: str | None) -> str:
    text = f"writing to {partition}: {message or code.name}"
    if code is ErrorCode.MESSAGE_TOO_LARGE:
        text += " (smaller batches: option kafka.batch.size)"
    return text
