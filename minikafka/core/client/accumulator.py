"""Records that wait to be sent, grouped into batches per partition (``RecordAccumulator``)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from minikafka.kernel.cluster import TopicPartition

Token = TypeVar("Token")

Header: TypeAlias = tuple[str, bytes | None]
# timestamp in ms, key, value, headers
PendingRecord: TypeAlias = tuple[int, bytes | None, bytes | None, list[Header]]

BATCH_OVERHEAD_BYTES = 61
RECORD_OVERHEAD_BYTES = 21  # upper bound: five varints, attributes, delta of a long
HEADER_OVERHEAD_BYTES = 10


def record_size_bytes(record: PendingRecord) -> int:
    """An upper bound of what a record takes in a batch, uncompressed."""
    _, key, value, headers = record
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES + len(name.encode()) + len(content or b"")
    return size


@dataclass(frozen=True, slots=True)
class AccumulatorConfig:
    """The producer's keys of the same names. Sizes are uncompressed bytes."""

    batch_size: int = 16_384
    linger_ms: int = 0
    buffer_memory: int = 33_554_432
    max_request_size: int = 1_048_576
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


class ProducerBatch(Generic[Token]):
    """Records of one partition that travel together. One token per record, the caller's own."""

    __slots__ = (
        "attempts",
        "created_ms",
        "not_before_ms",
        "records",
        "size_bytes",
        "tokens",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, created_ms: int) -> None:
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.not_before_ms = created_ms  # moved on by a retry's backoff
        self.attempts = 0
        self.size_bytes = BATCH_OVERHEAD_BYTES
        self.records: list[PendingRecord] = []
        self.tokens: list[Token] = []

    def append(self, record: PendingRecord, token: Token, size_bytes: int) -> None:
        self.records.append(record)
        self.tokens.append(token)
        self.size_bytes += size_bytes


@dataclass(frozen=True, slots=True)
class Ready:
    """What can be sent now: partitions by leader, oldest batch first. ``unknown_topics`` have
    something to send and no known leader. ``next_ms``: when to look again though nothing happens.
    """

    partitions_by_leader: dict[int, list[TopicPartition]] = field(default_factory=dict)
    unknown_topics: set[str] = field(default_factory=set)
    next_ms: int | None = None


class Accumulator(Generic[Token]):
    """Batches per partition, first in first out; bounded by ``buffer_memory``.

    A partition with a batch in flight is muted until that batch is done or queued again, so that
    retries never reorder. Every batch taken by ``drain`` comes back by ``complete``, ``retry`` or
    ``split``.
    """

    def __init__(self, config: AccumulatorConfig) -> None:
        self.config = config
        self._queues: dict[TopicPartition, deque[ProducerBatch[Token]]] = {}
        self._in_flight: dict[TopicPartition, ProducerBatch[Token]] = {}
        self._used_bytes = 0
        self._flushes = 0

    @property
    def used_bytes(self) -> int:
        return self._used_bytes

    @property
    def is_empty(self) -> bool:
        """Nothing waits and nothing is in flight."""
        return not self._queues and not self._in_flight

    def has_memory(self, size_bytes: int) -> bool:
        """Whether a record of this size may enter. An empty buffer takes any."""
        if self._used_bytes == 0:
            return True
        return self._used_bytes + BATCH_OVERHEAD_BYTES + size_bytes <= self.config.buffer_memory

    def fits_open_batch(self, topic_partition: TopicPartition, size_bytes: int) -> bool:
        """Whether ``append`` would go on with a batch instead of beginning a new one."""
        queue = self._queues.get(topic_partition)
        if not queue:
            return False
        last = queue[-1]
        return last.attempts == 0 and last.size_bytes + size_bytes <= self.config.batch_size

    def append(
        self,
        topic_partition: TopicPartition,
        record: PendingRecord,
        size_bytes: int,
        token: Token,
        now_ms: int,
    ) -> bool:
        """Add a record whose ``record_size_bytes`` is given. True when there may be news for the
        sender: a batch has begun, or is full. Ask ``has_memory`` first."""
        queue = self._queues.get(topic_partition)
        if queue is None:
            queue = self._queues[topic_partition] = deque()
        news = False
        if not self.fits_open_batch(topic_partition, size_bytes):
            queue.append(ProducerBatch(topic_partition, now_ms))
            self._used_bytes += BATCH_OVERHEAD_BYTES
            news = True
        batch = queue[-1]
        batch.append(record, token, size_bytes)
        self._used_bytes += size_bytes
        return news or batch.size_bytes >= self.config.batch_size

    def begin_flush(self) -> list[Token]:
        """From here to ``end_flush`` nothing lingers. Returns the last token of every batch that
        is here now: once those are settled, so is all that was appended before."""
        self._flushes += 1
        return [batch.tokens[-1] for batch in self._batches()]

    def end_flush(self) -> None:
        self._flushes -= 1

    def ready(self, now_ms: int, leaders: Mapping[TopicPartition, int]) -> Ready:
        """Which partitions have a batch that is full, or has lingered enough, or must not wait."""
        due: list[tuple[int, TopicPartition]] = []
        unknown: set[str] = set()
        next_ms: int | None = None
        for topic_partition, queue in self._queues.items():
            first = queue[0]
            # Whatever else it waits for, it does not wait beyond its delivery time-out.
            send_ms = first.created_ms + self.config.delivery_timeout_ms
            if topic_partition not in self._in_flight:
                due_ms = self._send_ms(queue)
                if due_ms > now_ms:
                    send_ms = min(send_ms, due_ms)
                elif topic_partition not in leaders:
                    unknown.add(topic_partition.topic)
                else:
                    due.append((first.created_ms, topic_partition))
            next_ms = send_ms if next_ms is None else min(next_ms, send_ms)
        by_leader: dict[int, list[TopicPartition]] = {}
        for _, topic_partition in sorted(due):
            by_leader.setdefault(leaders[topic_partition], []).append(topic_partition)
        return Ready(by_leader, unknown, next_ms)

    def drain(self, partitions: Iterable[TopicPartition]) -> list[ProducerBatch[Token]]:
        """Take the first batch of each, in the order given, as far as one request holds them.

        The first is taken whatever its size. The partitions are muted.
        """
        batches: list[ProducerBatch[Token]] = []
        size_bytes = 0
        for topic_partition in partitions:
            queue = self._queues.get(topic_partition)
            if not queue or topic_partition in self._in_flight:
                continue
            size_bytes += queue[0].size_bytes
            if batches and size_bytes > self.config.max_request_size:
                break
            batch = queue.popleft()
            if not queue:
                del self._queues[topic_partition]
            batch.attempts += 1
            self._in_flight[topic_partition] = batch
            batches.append(batch)
        return batches

    def complete(self, batch: ProducerBatch[Token]) -> None:
        """A drained batch is delivered, or given up."""
        self._unmute(batch)
        self._used_bytes -= batch.size_bytes

    def retry(self, batch: ProducerBatch[Token], now_ms: int) -> bool:
        """Put a drained batch back in front, to be sent again after a backoff that doubles.

        False when its delivery time-out would strike first: then it is still in flight, and the
        caller completes it.
        """
        config = self.config
        backoff_ms = min(
            config.retry_backoff_max_ms, config.retry_backoff_ms << min(batch.attempts - 1, 20)
        )
        if now_ms + backoff_ms >= batch.created_ms + config.delivery_timeout_ms:
            return False
        batch.not_before_ms = now_ms + backoff_ms
        self._unmute(batch)
        self._push_front(batch)
        return True

    def split(self, batch: ProducerBatch[Token]) -> bool:
        """The broker found a drained batch too large: queue it again in two halves.

        False for a single record, which is still in flight then.
        """
        count = len(batch.records)
        if count < 2:
            return False
        self._unmute(batch)
        self._used_bytes -= batch.size_bytes
        for part in (slice(count // 2, None), slice(0, count // 2)):
            half: ProducerBatch[Token] = ProducerBatch(batch.topic_partition, batch.created_ms)
            half.attempts = batch.attempts  # closed: nothing is appended to it any more
            for record, token in zip(batch.records[part], batch.tokens[part], strict=True):
                half.append(record, token, record_size_bytes(record))
            self._used_bytes += half.size_bytes
            self._push_front(half)
        return True

    def expire(self, now_ms: int) -> list[ProducerBatch[Token]]:
        """Take out, for good, the queued batches whose delivery time-out is over."""
        expired: list[ProducerBatch[Token]] = []
        for topic_partition, queue in list(self._queues.items()):
            while queue and queue[0].created_ms + self.config.delivery_timeout_ms <= now_ms:
                batch = queue.popleft()
                self._used_bytes -= batch.size_bytes
                expired.append(batch)
            if not queue:
                del self._queues[topic_partition]
        return expired

    def take_all(self) -> list[ProducerBatch[Token]]:
        """Take out, for good, whatever is here or in flight: the producer closes."""
        taken = self._batches()
        self._queues.clear()
        self._in_flight.clear()
        self._used_bytes = 0
        return taken

    def _batches(self) -> list[ProducerBatch[Token]]:
        queued = [batch for queue in self._queues.values() for batch in queue]
        return [*self._in_flight.values(), *queued]

    def _send_ms(self, queue: deque[ProducerBatch[Token]]) -> int:
        first = queue[0]
        if (
            self._flushes > 0
            or first.attempts > 0
            or len(queue) > 1
            or first.size_bytes >= self.config.batch_size
        ):
            return first.not_before_ms
        return max(first.not_before_ms, first.created_ms + self.config.linger_ms)

    def _push_front(self, batch: ProducerBatch[Token]) -> None:
        self._queues.setdefault(batch.topic_partition, deque()).appendleft(batch)

    def _unmute(self, batch: ProducerBatch[Token]) -> None:
        removed = self._in_flight.pop(batch.topic_partition, None)
        assert removed is batch, "only what was drained can come back"
