"""The batches of a Fetch response, and the records in them that a consumer may see.

The records of a batch are kept by fields, and made into ConsumerRecords when they are read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, overload

from minikafka.kernel.cluster import NO_EPOCH, TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.records.batch import (
    CorruptRecordError,
    RecordBatch,
    crc_is_valid,
    iterate_batches,
)
from minikafka.protocol.records.control import ControlRecordType, decode_end_txn_marker
from minikafka.protocol.records.record import Header, decode_batch
from minikafka.protocol.records.record_loop import read_columns


class ConsumerRecord(NamedTuple):
    """A record as an application receives it.

    ``timestamp`` is milliseconds since 1970, or -1; ``headers`` are pairs of name and value.
    ``key`` and ``value`` are bytes or None, or the results of the application's deserializers.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Sequence[Header]
    leader_epoch: int


_as_records = partial(tuple.__new__, ConsumerRecord)


class ConsumerRecords(Sequence[ConsumerRecord]):
    """Records of one batch, in the order of offsets. ``keys`` and ``values`` are bytes or None.

    Each reading makes new ``ConsumerRecord`` objects; ``values`` and its like make none.
    """

    __slots__ = (
        "_deltas",
        "_times",
        "headers",
        "keys",
        "leader_epoch",
        "offsets",
        "topic_partition",
        "values",
    )

    def __init__(
        self, topic_partition: TopicPartition, batch: RecordBatch, start: int, end: int
    ) -> None:
        """Decode the records with ``start <= offset < end``. Raises CorruptRecordError."""
        count, base = batch.record_count, batch.base_offset
        is_dense = batch.last_offset_delta == count - 1
        try:
            deltas, times, keys, values, headers = read_columns(
                batch.plain_records(), count, not is_dense
            )
        except CorruptRecordError as error:
            where = f"{topic_partition}: batch at offset {base}"
            raise CorruptRecordError(f"{where}: {error.message}") from error
        offsets: Sequence[int] = range(base, base + count)
        if not is_dense:
            offsets = [base + delta for delta in deltas]
        rows = slice(None)
        if base < start or end < batch.next_offset:
            rows = slice(bisect_left(offsets, start), bisect_left(offsets, end))
        self.topic_partition = topic_partition
        self.leader_epoch = batch.partition_leader_epoch
        self.offsets = offsets[rows]
        self.keys: list[bytes | None] = keys[rows]
        self.values: list[bytes | None] = values[rows]
        self.headers: list[Sequence[Header]] = headers[rows]
        self._deltas = times[rows]
        self._times = (batch.base_timestamp, batch.max_timestamp, batch.timestamp_type_log_append)

    @property
    def topic(self) -> str:
        return self.topic_partition.topic

    @property
    def partition(self) -> int:
        return self.topic_partition.partition

    @property
    def timestamps(self) -> list[int]:
        """Milliseconds since 1970, or -1."""
        first, latest, is_append_time = self._times
        if is_append_time:
            return [latest] * len(self._deltas)
        return [first + delta for delta in self._deltas]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        topic, partition = self.topic_partition
        rows = zip(
            repeat(topic),
            repeat(partition),
            self.offsets,
            self.timestamps,
            self.keys,
            self.values,
            self.headers,
            repeat(self.leader_epoch),
            strict=False,
        )
        return map(_as_records, rows)

    @overload
    def __getitem__(self, index: int) -> ConsumerRecord: ...

    @overload
    def __getitem__(self, index: slice) -> list[ConsumerRecord]: ...

    def __getitem__(self, index: int | slice) -> ConsumerRecord | list[ConsumerRecord]:
        return list(self)[index]


def consumer_records(
    topic_partition: TopicPartition, batch: RecordBatch, start: int = 0
) -> list[ConsumerRecord]:
    """Decode the records of a batch with offset ``start`` or later. Raises CorruptRecordError for
    malformed bytes."""
    return list(ConsumerRecords(topic_partition, batch, start, batch.next_offset))


__all__ = [
    "AbortedTransactions",
    "BatchRun",
    "ConsumerRecord",
    "Convert",
    "FetchedChunk",
    "ReadPosition",
    "TakenRun",
]

R = TypeVar("R")

# Converts a record before the application gets it; raises KafkaError for one that cannot be.
Convert: TypeAlias = Callable[[ConsumerRecord], ConsumerRecord]


class ReadPosition(NamedTuple):
    """The offset of the next record to read, and the leader epoch of the record before it.

    ``epoch`` is -1 if that epoch is unknown. Kafka: ``SubscriptionState.FetchPosition``.
    """

    offset: int
    epoch: int = NO_EPOCH


class BatchRun(NamedTuple):
    """Checked batches of one partition that a consumer may see; at least one.

    Of their records those with ``start <= offset < end`` are meant: at most ``record_count``.
    """

    topic_partition: TopicPartition
    batches: list[RecordBatch]
    start: int
    end: int
    record_count: int


class TakenRun(NamedTuple, Generic[R]):
    """What a run was decoded to, None if no batch was visible; how many records and bytes at most
    it had; and the position after it, None if nothing was passed."""

    decoded: R | None
    record_count: int
    size_bytes: int
    place: ReadPosition | None


class AbortedTransactions:
    """The filter for batches of aborted transactions in a read-committed fetch.

    It is built from the response's aborted transactions, as pairs of producer id and first
    offset.
    """

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        self._pending = sorted(((first, producer) for producer, first in pairs), reverse=True)
        self._aborted: set[int] = set()

    def hides(self, batch: RecordBatch) -> bool:
        """Whether a consumer must not see the batch: it is a control batch or of an aborted
        transaction.

        Call it once for each batch, in the order of offsets: abort markers end the transactions.
        """
        while self._pending and self._pending[-1][0] <= batch.last_offset:
            self._aborted.add(self._pending.pop()[1])
        if batch.is_control:
            if batch.producer_id in self._aborted and _is_abort(batch):
                self._aborted.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._aborted


def _is_abort(batch: RecordBatch) -> bool:
    markers = (decode_end_txn_marker(record) for record in decode_batch(batch))
    return any(marker is not None and marker.type is ControlRecordType.ABORT for marker in markers)


class FetchedChunk:
    """The batches of one partition in one Fetch response; each is decoded when it is reached.

    ``take`` and ``take_run`` skip records before ``start`` (a broker returns whole batches),
    control records and records of aborted transactions. ``end`` is where the next fetch begins:
    after the last whole batch, even if none of its records is visible.
    """

    __slots__ = (
        "_aborted",
        "_at",
        "_batches",
        "_check_crcs",
        "_checked",
        "_convert",
        "_error",
        "_opened",
        "_ready",
        "_start",
        "_tp",
        "end",
        "size_bytes",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        data: Buffer,
        start: ReadPosition,
        aborted: Iterable[tuple[int, int]] = (),
        check_crcs: bool = True,
        convert: Convert | None = None,
    ) -> None:
        self.size_bytes = len(data)
        self._convert = convert
        self._tp = topic_partition
        self._start = start.offset
        self._aborted = AbortedTransactions(aborted)
        self._check_crcs = check_crcs
        self._ready: list[ConsumerRecord] = []  # of ``_opened``, from ``_at`` on
        self._at = 0
        self._opened: RecordBatch | None = None
        self._checked: deque[tuple[RecordBatch, bool]] = deque()  # and whether it is visible
        self._batches: deque[RecordBatch] = deque()
        self._error: KafkaError | None = None  # raised after the batches before it
        try:
            self._batches.extend(iterate_batches(data))
        except KafkaError as error:
            self._error = error
        last = self._batches[-1] if self._batches else None
        self.end = start if last is None else _later(start, last)

    @property
    def is_used_up(self) -> bool:
        """Whether there is nothing left to take: no record and no error."""
        return not (self._ready or self._checked or self._batches or self._error)

    def take(self, limit: int) -> tuple[list[ConsumerRecord], ReadPosition | None]:
        """Return up to ``limit`` records, and the position after them.

        The position also passes batches without visible records. It is None if nothing was
        passed.

        Raises CorruptRecordError (a KafkaError) for a malformed batch or a wrong CRC, and the
        KafkaError of ``convert``. An error is raised only when all records before it have been
        returned.
        """
        taken: list[ConsumerRecord] = []
        place: ReadPosition | None = None
        while len(taken) < limit:
            if self._ready:
                some = self._ready[self._at : self._at + limit - len(taken)]
                if self._convert is not None:
                    some = self._converted(some, self._convert, first=not taken)
                    if not some:
                        break
                self._at += len(some)
                if self._at == len(self._ready):
                    self._ready, self._at = [], 0
                taken += some
                place = ReadPosition(some[-1].offset + 1, some[-1].leader_epoch)
            elif self._checked or self._batches:
                try:
                    place = self._open() or place
                except KafkaError:
                    if taken:
                        break
                    raise
            elif self._error is not None and not taken:
                raise self._error
            else:
                break
        return taken, place

    @staticmethod
    def _converted(
        records: list[ConsumerRecord], convert: Convert, first: bool
    ) -> list[ConsumerRecord]:
        """Convert records up to the first failure; raise the failure if it is the very first
        record."""
        converted: list[ConsumerRecord] = []
        try:
            for record in records:
                converted.append(convert(record))
        except KafkaError:
            if first and not converted:
                raise
        return converted

    def _open(self) -> ReadPosition | None:
        """Decode the next batch. Return the position after it if it has no visible record, else
        None."""
        if not self._checked:
            self._check_next()
        batch, visible = self._checked[0]
        if visible:
            self._ready = consumer_records(self._tp, batch, self._start)
            self._opened = batch
        self._checked.popleft()
        if self._ready or batch.next_offset <= self._start:
            return None
        return ReadPosition(batch.next_offset, batch.partition_leader_epoch)

    def _check_next(self) -> None:
        """Check the CRC of the next batch, and whether a consumer may see it."""
        batch = self._batches[0]
        if self._check_crcs and not crc_is_valid(batch):
            raise CorruptRecordError(
                f"{self._tp}: the batch at offset {batch.base_offset} fails its CRC"
            )
        visible = not self._aborted.hides(batch) and batch.next_offset > self._start
        self._checked.append((batch, visible))
        self._batches.popleft()

    # -- many batches at once

    def take_run(
        self, decode: Callable[[BatchRun], R], max_records: int, max_bytes: int
    ) -> TakenRun[R]:
        """Decode as many batches as the bounds allow, at least one, and pass them.

        A batch of more than ``max_records`` is taken in parts. ``decode`` raises CorruptRecordError
        for malformed records. Then the first batch is decoded alone, so that all records before
        the malformed ones are returned before the error is raised. Raises as ``take``.
        """
        if self._ready and self._opened is not None:  # ``take`` has left records of it
            self._checked.appendleft((self._opened, True))
            self._start = self._ready[self._at].offset
            self._ready, self._at = [], 0
        passed, run = self._next_run(max_records, max_bytes)
        if not passed and self._error is not None:
            raise self._error
        try:
            decoded = decode(run) if run.batches else None
        except KafkaError:
            if len(run.batches) < 2:
                raise
            passed, run = self._next_run(max_records, max_bytes=0)
            decoded = decode(run)
        size_bytes, place = 0, None
        for _ in range(passed):
            batch, _ = self._checked[0]
            size_bytes += batch.size_bytes
            if batch.next_offset > run.end:  # the rest of it remains
                place = ReadPosition(run.end, batch.partition_leader_epoch)
                self._start = run.end
                break
            self._checked.popleft()
            if batch.next_offset > self._start:
                place = ReadPosition(batch.next_offset, batch.partition_leader_epoch)
        return TakenRun(decoded, run.record_count, size_bytes, place)

    def _next_run(self, max_records: int, max_bytes: int) -> tuple[int, BatchRun]:
        """Return how many of the checked batches are passed, and the visible ones of them."""
        found: list[RecordBatch] = []
        passed = count = size_bytes = 0
        end = self._start
        while passed < len(self._checked) or self._batches:
            if passed == len(self._checked):
                try:
                    self._check_next()
                except KafkaError:
                    if passed:
                        break
                    raise
            batch, visible = self._checked[passed]
            if visible:
                begin = max(self._start, batch.base_offset)
                most = min(batch.record_count, batch.next_offset - begin)
                size_bytes += batch.size_bytes
                if found and (count + most > max_records or size_bytes > max_bytes):
                    break
                count += most
                found.append(batch)
            passed += 1
            end = max(end, batch.next_offset)
            if count > max_records:
                count, end = max_records, begin + max_records
                break
        return passed, BatchRun(self._tp, found, self._start, end, count)


def _later(start: ReadPosition, batch: RecordBatch) -> ReadPosition:
    if batch.next_offset <= start.offset:
        return start
    return ReadPosition(batch.next_offset, batch.partition_leader_epoch)
