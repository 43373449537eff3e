"""The accumulator: batches of records that wait to be sent, by partition
(``RecordAccumulator``)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Generic

from minikafka.core.client.producer.producer_batch import (
    BATCH_OVERHEAD_BYTES,
    EncodedRun,
    PendingRecord,
    ProducerBatch,
    RunBatch,
    RunOutcome,
    Token,
    record_size_bytes,
)
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition, grouped
from minikafka.kernel.lazy_dataclass import dataclass

__all__ = [
    "BATCH_OVERHEAD_BYTES",
    "Accumulator",
    "AccumulatorConfig",
    "PendingRecord",
    "ProducerBatch",
    "Ready",
    "record_size_bytes",
]

Admit = Callable[["ProducerBatch[Token]", bool], bool]
LeaderEpochOf = Callable[[TopicPartition], int]


@dataclass(frozen=True, slots=True)
class AccumulatorConfig:
    """The producer's keys of the same names: times in milliseconds, sizes in uncompressed bytes.

    ``in_flight`` is how many batches of one partition may be in flight at the same time.
    """

    batch_size: int = 16_384
    linger_ms: int = 0
    buffer_memory: int = 33_554_432
    max_request_size: int = 1_048_576
    delivery_timeout_ms: int = 120_000
    retries: int = (1 << 31) - 1
    in_flight: int = 1


@dataclass(frozen=True, slots=True)
class Ready:
    """The partitions whose first batch can be sent now, by the leader's broker id, oldest first.

    ``unknown_topics`` have a batch to send but a partition without a known leader. ``next_ms``
    is the time at which to call ``ready`` again even if nothing happens, None without batches.
    """

    partitions_by_leader: dict[int, list[TopicPartition]] = field(default_factory=dict)
    unknown_topics: set[str] = field(default_factory=set)
    next_ms: int | None = None


def _unknown_epoch(topic_partition: TopicPartition) -> int:
    return NO_EPOCH


class Accumulator(Generic[Token]):
    """The queues of batches, one for each partition; together at most ``buffer_memory`` bytes.

    A partition with ``in_flight`` batches in flight has to wait. A batch that is retried is sent
    alone and before all later ones of its partition. For every batch that ``drain`` returns,
    call ``complete``, ``retry`` or ``split`` once its outcome is known.
    """

    def __init__(self, config: AccumulatorConfig) -> None:
        self.config = config
        self._queues: dict[TopicPartition, deque[ProducerBatch[Token]]] = {}
        self._in_flight: dict[TopicPartition, list[ProducerBatch[Token]]] = {}
        self._open: dict[TopicPartition, ProducerBatch[Token]] = {}  # that still takes records
        self._used_bytes = 0
        self._flushes = 0
        self._next_serial = 0
        self._per_partition = config.in_flight
        self._batch_size = config.batch_size
        self._buffer_memory = config.buffer_memory

    @property
    def used_bytes(self) -> int:
        return self._used_bytes

    @property
    def is_empty(self) -> bool:
        """Whether no batch is queued or in flight."""
        return not self._queues and not self._in_flight

    def one_in_flight(self) -> None:
        """Allow only one batch of a partition in flight from now on.

        Without sequence numbers, more than one could be reordered by a retry.
        """
        self._per_partition = 1

    def has_memory(self, size_bytes: int) -> bool:
        """Whether the buffer has room for a new batch with a record of this size.

        It never has for a record larger than the whole buffer; the caller rejects such a record
        first.
        """
        return self._used_bytes + BATCH_OVERHEAD_BYTES + size_bytes <= self.config.buffer_memory

    def fits_open_batch(self, topic_partition: TopicPartition, size_bytes: int) -> bool:
        """Whether ``append`` would add a record of this size to the open batch, not to a new
        one."""
        batch = self._open.get(topic_partition)
        return batch is not None and batch.size_bytes + size_bytes <= self.config.batch_size

    def append_to_open(
        self, topic_partition: TopicPartition, record: PendingRecord, size_bytes: int, token: Token
    ) -> bool | None:
        """Append to the open batch of the partition, the usual case, and return whether it is
        full now.

        Returns None without appending if there is no open batch, or it or the buffer has no
        room.
        """
        batch = self._open.get(topic_partition)
        if batch is None:
            return None
        filled = batch.size_bytes + size_bytes
        used = self._used_bytes + size_bytes
        if filled > self._batch_size or used > self._buffer_memory:
            return None
        batch.append(record, token, size_bytes)
        self._used_bytes = used
        return filled >= self._batch_size

    def append(
        self,
        topic_partition: TopicPartition,
        record: PendingRecord,
        size_bytes: int,
        token: Token,
        now_ms: int,
    ) -> bool:
        """Append a record, to a new batch if necessary; ``size_bytes`` is its
        ``record_size_bytes``.

        Returns True if a batch was begun or is full, so that the sender has to look for ready
        batches. The caller checks ``has_memory`` first. A record that cannot be encoded changes
        nothing.
        """
        batch = self._open.get(topic_partition)
        limit = self.config.batch_size
        if batch is not None and batch.size_bytes + size_bytes <= limit:
            batch.append(record, token, size_bytes)
            self._used_bytes += size_bytes
            return batch.size_bytes >= limit
        batch = ProducerBatch(topic_partition, now_ms)
        batch.append(record, token, size_bytes)
        self._open[topic_partition] = batch
        self._enqueue(batch)
        return True

    def append_run(
        self, topic_partition: TopicPartition, run: EncodedRun, outcome: RunOutcome, now_ms: int
    ) -> None:
        """Append records that are encoded together, as a batch that is ready at once.

        The caller checks ``has_memory`` first. The partition's open batch takes no more records.
        """
        self._open.pop(topic_partition, None)
        self._enqueue(RunBatch(topic_partition, now_ms, run, outcome))

    def _enqueue(self, batch: ProducerBatch[Token]) -> None:
        batch.serial = self._next_serial
        self._next_serial += 1
        self._queues.setdefault(batch.topic_partition, deque()).append(batch)
        self._used_bytes += batch.size_bytes

    def begin_flush(self) -> int:
        """Make all batches ready at once until ``end_flush``. Returns a mark for ``is_flushed``."""
        self._flushes += 1
        return self._next_serial

    def is_flushed(self, mark: int) -> bool:
        """Whether all batches begun before the mark are complete.

        The futures of records do not show that: an application may cancel one while its batch is
        in flight.
        """
        queues = self._queues.values()
        if any(queue[0].serial < mark for queue in queues):  # queues are in the order of serials
            return False
        return all(batch.serial >= mark for flying in self._in_flight.values() for batch in flying)

    def end_flush(self) -> None:
        self._flushes -= 1

    def ready(
        self,
        now_ms: int,
        leaders: Mapping[TopicPartition, int],
        leader_epoch_of: LeaderEpochOf = _unknown_epoch,
    ) -> Ready:
        """Return the partitions whose first batch is full, has lingered, is retried or is flushed.

        A batch that is retried waits for its backoff only as long as its partition has the leader
        to which it was sent before (KIP-951).
        """
        due: list[tuple[int, TopicPartition]] = []
        unknown: set[str] = set()
        next_ms: int | None = None
        for topic_partition, queue in self._queues.items():
            first = queue[0]
            # A batch never waits beyond its delivery time-out.
            send_ms = first.created_ms + self.config.delivery_timeout_ms
            if self._may_send(topic_partition, first):
                due_ms = self._send_ms(queue)
                if first.attempts and leader_epoch_of(topic_partition) > first.leader_epoch:
                    due_ms = now_ms
                if due_ms > now_ms:
                    send_ms = min(send_ms, due_ms)
                elif topic_partition not in leaders:
                    unknown.add(topic_partition.topic)
                else:
                    due.append((first.created_ms, topic_partition))
            next_ms = send_ms if next_ms is None else min(next_ms, send_ms)
        by_leader = grouped((leaders[partition], partition) for _, partition in sorted(due))
        return Ready(by_leader, unknown, next_ms)

    def drain(
        self, partitions: Iterable[TopicPartition], admit: Admit[Token] | None = None
    ) -> list[ProducerBatch[Token]]:
        """Take the first batch of each partition, in the given order, until the request is full.

        A request holds ``max_request_size`` bytes, but always at least one batch. A batch stays
        in its queue if ``admit(batch, others_in_flight)`` returns False; ``others_in_flight``
        says whether its partition has batches in flight.
        """
        batches: list[ProducerBatch[Token]] = []
        size_bytes = 0
        for topic_partition in partitions:
            queue = self._queues.get(topic_partition)
            if not queue or not self._may_send(topic_partition, queue[0]):
                continue
            batch = queue[0]
            if batches and size_bytes + batch.size_bytes > self.config.max_request_size:
                break
            if admit is not None and not admit(batch, topic_partition in self._in_flight):
                continue
            size_bytes += batch.size_bytes
            self._take_first(topic_partition, queue)
            batch.attempts += 1
            batch.attempts_there += 1
            self._in_flight.setdefault(topic_partition, []).append(batch)
            batches.append(batch)
        return batches

    def complete(self, batch: ProducerBatch[Token]) -> None:
        """Remove a drained batch that was delivered or has failed for good."""
        self._unmute(batch)
        self._used_bytes -= batch.size_bytes

    def retry(self, batch: ProducerBatch[Token], now_ms: int, backoff_ms: int) -> bool:
        """Put a drained batch back into its queue, before all later ones, for ``backoff_ms``.

        Returns False if the delivery time-out would pass before the next attempt, or no retries
        are left. The batch is then still in flight, and the caller calls ``complete``.
        """
        config = self.config
        if now_ms + backoff_ms >= batch.created_ms + config.delivery_timeout_ms:
            return False
        if batch.attempts > config.retries:
            return False
        batch.not_before_ms = now_ms + backoff_ms
        self._unmute(batch)
        self._put_back(batch)
        return True

    def split(self, batch: ProducerBatch[Token]) -> bool:
        """Put a drained batch that is too large for the broker back as two halves.

        Returns False for a batch of one record, which is then still in flight.
        """
        if batch.record_count < 2:
            return False
        self._unmute(batch)
        self._used_bytes -= batch.size_bytes
        for half in reversed(batch.halves()):
            self._used_bytes += half.size_bytes
            self._put_back(half)
        return True

    def expire(self, now_ms: int) -> list[ProducerBatch[Token]]:
        """Remove and return the queued batches whose delivery time-out has passed."""
        expired: list[ProducerBatch[Token]] = []
        for topic_partition, queue in list(self._queues.items()):
            while queue and queue[0].created_ms + self.config.delivery_timeout_ms <= now_ms:
                batch = queue[0]
                self._take_first(topic_partition, queue)
                self._used_bytes -= batch.size_bytes
                expired.append(batch)
        return expired

    def take_queued(self) -> list[ProducerBatch[Token]]:
        """Remove and return all batches that are not in flight."""
        queued = [batch for queue in self._queues.values() for batch in queue]
        self._queues.clear()
        self._open.clear()
        self._used_bytes -= sum(batch.size_bytes for batch in queued)
        return queued

    def take_all(self) -> list[ProducerBatch[Token]]:
        """Remove and return all batches, including those in flight, because the producer closes."""
        taken = self._batches()
        self._queues.clear()
        self._in_flight.clear()
        self._open.clear()
        self._used_bytes = 0
        return taken

    def _batches(self) -> list[ProducerBatch[Token]]:
        queued = [batch for queue in self._queues.values() for batch in queue]
        return [*(batch for flying in self._in_flight.values() for batch in flying), *queued]

    def _send_ms(self, queue: deque[ProducerBatch[Token]]) -> int:
        first = queue[0]
        if (
            self._flushes > 0
            or first.is_complete
            or len(queue) > 1
            or first.size_bytes >= self.config.batch_size
        ):
            return first.not_before_ms
        return first.created_ms + self.config.linger_ms

    def _may_send(self, topic_partition: TopicPartition, first: ProducerBatch[Token]) -> bool:
        flying = self._in_flight.get(topic_partition)
        if flying is None:
            return True
        return first.attempts == 0 and len(flying) < self._per_partition

    def _take_first(
        self, topic_partition: TopicPartition, queue: deque[ProducerBatch[Token]]
    ) -> None:
        batch = queue.popleft()
        if not queue:
            del self._queues[topic_partition]
        if self._open.get(topic_partition) is batch:
            del self._open[topic_partition]

    def _put_back(self, batch: ProducerBatch[Token]) -> None:
        """Insert a batch into its queue in the order of serials."""
        queue = self._queues.setdefault(batch.topic_partition, deque())
        place = 0
        while place < len(queue) and queue[place].serial < batch.serial:
            place += 1
        queue.insert(place, batch)

    def _unmute(self, batch: ProducerBatch[Token]) -> None:
        flying = self._in_flight[batch.topic_partition]
        flying.remove(batch)  # raises ValueError if it was not drained: a bug
        if not flying:
            del self._in_flight[batch.topic_partition]
