"""The batches of a Fetch response, and the records in them that a consumer may see."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from minikafka.core.client.consumer.record_list import ConsumerRecord, consumer_records
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
from minikafka.protocol.records.record import decode_batch

__all__ = ["AbortedTransactions", "ConsumerRecord", "Convert", "FetchedChunk", "ReadPosition"]

# Converts a record before the application gets it; raises KafkaError for one that cannot be.
Convert: TypeAlias = Callable[[ConsumerRecord], ConsumerRecord]


class ReadPosition(NamedTuple):
    """The offset of the next record to read, and the leader epoch of the record before it.

    ``epoch`` is -1 if that epoch is unknown. Kafka: ``SubscriptionState.FetchPosition``.
    """

    offset: int
    epoch: int = NO_EPOCH


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

    ``take`` skips records before ``start`` (a broker returns whole batches), control records and
    records of aborted transactions. ``end`` is where the next fetch begins: after the last whole
    batch, even if none of its records is visible.
    """

    __slots__ = (
        "_aborted",
        "_at",
        "_batches",
        "_check_crcs",
        "_convert",
        "_error",
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
        self._ready: list[ConsumerRecord] = []  # of the batch that is open, from ``_at`` on
        self._at = 0
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
        return not (self._ready or self._batches or self._error)

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
            elif self._batches:
                try:
                    place = self._open(self._batches[0]) or place
                except KafkaError:
                    if taken:
                        break
                    raise
                self._batches.popleft()
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

    def _open(self, batch: RecordBatch) -> ReadPosition | None:
        """Decode a batch. Return the position after it if it has no visible record, else None."""
        if self._check_crcs and not crc_is_valid(batch):
            raise CorruptRecordError(
                f"{self._tp}: the batch at offset {batch.base_offset} fails its CRC"
            )
        after = batch.next_offset
        if not self._aborted.hides(batch) and after > self._start:
            self._ready = consumer_records(self._tp, batch, self._start)
        if self._ready or after <= self._start:
            return None
        return ReadPosition(after, batch.partition_leader_epoch)


def _later(start: ReadPosition, batch: RecordBatch) -> ReadPosition:
    if batch.next_offset <= start.offset:
        return start
    return ReadPosition(batch.next_offset, batch.partition_leader_epoch)
