"""The two passes of compaction over the batches of a log: collect keys, then filter records.

Both passes are generators that yield after a number of records, so that the caller can run other
tasks. They also yield work that takes long, for a worker. Kafka:
``Cleaner.buildOffsetMapForSegment``, ``Cleaner.cleanInto``, ``MemoryRecords.filterTo``.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from minikafka.core.log.compaction import CleanerStats
from minikafka.core.log.compaction_map import OffsetMap
from minikafka.core.log.compaction_transactions import CleanedTransactions
from minikafka.core.log.config import NO_LIMIT
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.buffer import Buffer, read_varlong, write_varint, write_varlong
from minikafka.protocol.records.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_FLAG,
    NO_TIMESTAMP,
    CorruptRecordError,
    RecordBatch,
    crc_is_valid,
)
from minikafka.protocol.records.builder import with_payload
from minikafka.protocol.records.compression import Compression, DecompressedTooLarge, compress
from minikafka.protocol.records.record_layout import Want, compile_walk

T = TypeVar("T")

# -- the records of a batch

# (start, end, timestamp delta, offset delta, key, has value). Start and end are positions in the
# records of the batch, the record's length field included. A plain tuple, because one is made for
# each record.
FoundRecord: TypeAlias = tuple[int, int, int, int, bytes | None, bool]


# This runs for every record of a dirty segment twice.
find_records: Callable[..., Iterator[FoundRecord]] = compile_walk(
    "find_records",
    "data, count, last_offset_delta=0x7FFFFFFF",
    {
        "timestamp_delta": Want.SIGNED,
        "offset_delta": Want.SIGNED,
        "key": Want.CONTENT,
        "value": Want.RAW,
    },
    each="""
        if offset_delta < 0 or offset_delta > last_offset_delta:
            malformed()
        yield start, end, timestamp_delta, offset_delta, key, not value & 1
    """,
)
"""Yield the ``count`` records in ``data``, which is uncompressed. Their headers are not parsed.
Raises CorruptRecordError."""


def with_timestamp_delta(data: bytes, start: int, end: int, timestamp_delta: int) -> bytes:
    """Return the record in ``data[start:end]`` with another timestamp delta (ms)."""
    _, position = read_varlong(data, start)
    attributes = data[position : position + 1]
    _, position = read_varlong(data, position + 1)
    body = attributes + write_varlong(timestamp_delta) + data[position:end]
    return write_varint(len(body)) + body


# Beyond this size a worker decompresses, compresses and copies the records of a batch.
ON_LOOP_BYTES: Final = 512 * 1024
_MAX_LONG: Final = 2**63 - 1

# Yields None where other tasks may run, or work for a worker, whose result it receives. The work is
# a pure function.
CleaningSteps: TypeAlias = Generator[Callable[[], Any] | None, Any, T]


def _opened(batch: RecordBatch) -> CleaningSteps[bytes]:
    """Return the records of ``batch``, decompressed. Raises KafkaError."""
    if not batch.attributes & COMPRESSION_MASK:
        return bytes(batch.payload())
    try:
        return batch.plain_records(ON_LOOP_BYTES)
    except DecompressedTooLarge:
        data: bytes = yield batch.plain_records
        return data


def _payload(data: bytes, kept: array[int], shift: int, codec: Compression) -> bytes:
    """Return the ``kept`` records of ``data``, compressed. ``kept`` has start, end and timestamp
    delta of each record. If ``shift`` is not 0, it is added to the timestamp deltas."""
    left = bytearray()
    for at in range(0, len(kept), 3):
        start, end = kept[at], kept[at + 1]
        if shift:
            left += with_timestamp_delta(data, start, end, kept[at + 2] + shift)
        else:
            left += data[start:end]
    return compress(codec, left)


# -- the passes

_STEP_RECORDS: Final = 32  # which cost some microseconds each


class LastRecord(NamedTuple):
    """The last batch of a producer. ``data_offset`` is the last offset of its last batch of data,
    -1 if only a transaction marker is known."""

    data_offset: int
    producer_epoch: int


def checked(batch: RecordBatch) -> RecordBatch:
    """Return ``batch`` if its CRC is right, else raise CorruptRecordError.

    The cleaner computes a new CRC for each batch that it writes, which would hide the damage."""
    if not crc_is_valid(batch):
        raise CorruptRecordError(f"the batch at offset {batch.base_offset} is corrupt")
    return batch


@dataclass(slots=True)
class KeyIndexer:
    """The first pass: adds the key and offset of each record from ``start_offset`` on to
    ``offsets``. Control batches and records of aborted transactions are left out."""

    offsets: OffsetMap
    start_offset: int
    transactions: CleanedTransactions = field(default_factory=CleanedTransactions)
    stats: CleanerStats = field(default_factory=CleanerStats)

    def take(self, batches: Sequence[RecordBatch]) -> CleaningSteps[bool]:
        """Add the keys of ``batches``. Returns True if the map is full; a later cleaning continues
        at the first record that was not added. Raises KafkaError for a corrupt batch."""
        offsets, start = self.offsets, self.start_offset
        for batch in batches:
            yield None
            checked(batch)
            self.stats.map_records_read += batch.record_count
            if not self.transactions.takes_away(batch) and not batch.is_control:
                base_offset = batch.base_offset
                data = yield from _opened(batch)
                found = find_records(data, batch.record_count, batch.last_offset_delta)
                for number, (_, _, _, delta, key, _) in enumerate(found):
                    if number % _STEP_RECORDS == _STEP_RECORDS - 1:
                        yield None
                    if key is not None and base_offset + delta >= start:
                        if offsets.size >= offsets.capacity:
                            return True
                        offsets.put(key, base_offset + delta)
            if batch.last_offset >= start:
                offsets.latest_offset = batch.last_offset
        return False


@dataclass(slots=True)
class BatchFilter:
    """The second pass: removes the records that compaction may drop.

    A. A record at an offset that ``offsets`` covers is kept if it is the latest of its key. A
       tombstone is removed after its delete horizon (a time in the batch header).
    B. A batch without remaining records is kept, empty, if it is the last one of a producer in
       ``producers``, because its header has the producer's sequence numbers.
    C. A transaction marker is kept while a batch of its transaction remains, and after that until
       its delete horizon.

    The delete horizon is ``now_ms + delete_retention_ms`` of the first cleaning that finds a
    tombstone, or a marker without batches (KIP-534).
    """

    offsets: OffsetMap
    now_ms: int
    delete_retention_ms: int
    producers: Mapping[int, LastRecord]
    transactions: CleanedTransactions = field(default_factory=CleanedTransactions)
    stats: CleanerStats = field(default_factory=CleanerStats)

    def take(self, batches: Sequence[RecordBatch]) -> CleaningSteps[list[Buffer]]:
        """Return the bytes of the batches that remain, in order. Raises KafkaError for a corrupt
        batch."""
        left: list[Buffer] = []
        for batch in batches:
            yield None
            checked(batch)
            kept = yield from self._left_of(batch)
            if kept is not None:
                left.append(kept)
        return left

    def _left_of(self, batch: RecordBatch) -> CleaningSteps[Buffer | None]:
        stats = self.stats
        stats.records_read += batch.record_count
        unneeded = self.transactions.takes_away(batch)
        horizon_over = batch.has_delete_horizon and batch.base_timestamp <= self.now_ms
        if unneeded and (horizon_over or not batch.is_control):
            return self._emptied(batch)
        data = yield from _opened(batch)
        kept = array("q")  # numbers, since objects for millions of records would fill the memory
        has_tombstones = unneeded  # a marker without batches gets a delete horizon, too
        base, get, seen = batch.base_offset, self.offsets.get, self.offsets.latest_offset
        found = find_records(data, batch.record_count, batch.last_offset_delta)
        for number, (start, end, timestamp_delta, delta, key, has_value) in enumerate(found):
            if number % _STEP_RECORDS == _STEP_RECORDS - 1:
                yield None
            if not batch.is_control and base + delta <= seen:  # case A, if it is one
                if key is None:
                    stats.records_without_key += 1
                    continue
                if base + delta < get(key) or (horizon_over and not has_value):
                    continue
            kept.extend((start, end, timestamp_delta))
            has_tombstones |= not has_value
        if not kept:
            return self._emptied(batch)
        stats.records_written += len(kept) // 3
        sets_horizon = has_tombstones and not batch.has_delete_horizon
        if len(kept) // 3 == batch.record_count and not sets_horizon:
            return batch.view()
        return (yield from self._rewritten(batch, data, kept, sets_horizon))

    def _emptied(self, batch: RecordBatch) -> Buffer | None:
        """Return the batch without records if it is the last one of its producer (case B), else
        None."""
        last = self.producers.get(batch.producer_id)
        if last is None:
            return None
        if last.data_offset >= 0:
            is_last = batch.last_offset == last.data_offset
        else:
            is_last = batch.is_control and batch.producer_epoch == last.producer_epoch
        if not is_last:
            return None
        flags = batch.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG)
        header = batch._replace(attributes=flags, base_timestamp=NO_TIMESTAMP, record_count=0)
        return with_payload(header, b"")

    def _rewritten(
        self, batch: RecordBatch, data: bytes, kept: array[int], sets_horizon: bool
    ) -> CleaningSteps[Buffer]:
        base = batch.base_timestamp
        first, last = base + min(kept[2::3]), base + max(kept[2::3])
        flags, shift = batch.attributes, 0
        if sets_horizon:
            flags |= DELETE_HORIZON_FLAG
            horizon = min(self.now_ms + self.delete_retention_ms, NO_LIMIT)
            base, shift = horizon, base - horizon
        if last > _MAX_LONG or min(first, first - base) < -_MAX_LONG:
            raise CorruptRecordError(
                f"the batch at offset {batch.base_offset} has times from {first} to {last}"
            )
        max_timestamp = batch.max_timestamp if batch.timestamp_type_log_append else last
        work = partial(_payload, data, kept, shift, batch.compression)
        if len(data) > ON_LOOP_BYTES:
            payload: bytes = yield work
        else:
            payload = work()
        header = batch._replace(
            attributes=flags,
            base_timestamp=base,
            max_timestamp=max_timestamp,
            record_count=len(kept) // 3,
        )
        return with_payload(header, payload)
