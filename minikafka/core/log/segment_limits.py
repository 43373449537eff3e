"""The limits of a segment: which offsets, index entries and batches fit into it.

The entries of its sparse indexes have offsets relative to the segment's base offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from minikafka.protocol.records.batch import RecordBatch

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12


def fits(base_offset: int, offset: int) -> bool:
    """Return whether ``offset`` minus ``base_offset`` fits into the i32 of an index entry."""
    return 0 <= offset - base_offset <= MAX_RELATIVE_OFFSET


def max_entries(index_size_max_bytes: int, entry_bytes: int) -> int:
    """Return how many entries an index file may have: at least one, or no segment could grow."""
    return max(index_size_max_bytes // entry_bytes, 1)


def first_full(limit: int, entry_bytes: int) -> int:
    """Return the number of entries with which an index is full, so that the log rolls.

    It is one less for the time index, which gets another entry when the segment is rolled or closed
    (Kafka: ``TimeIndex.isFull``)."""
    return limit - 1 if entry_bytes == TIME_ENTRY_BYTES else limit


def segment_runs(batches: Sequence[RecordBatch], segment_bytes: int) -> list[Sequence[RecordBatch]]:
    """Divide ``batches`` (at least one) into runs that fit into one segment each.

    A batch that is larger than a segment is a run by itself: the leader appended it when
    ``segment.bytes`` was larger."""
    first, last = batches[0], batches[-1]
    if _fit_together(first, last, segment_bytes):
        return [batches]
    runs: list[Sequence[RecordBatch]] = []
    start = 0
    for index, batch in enumerate(batches):
        if index > start and not _fit_together(batches[start], batch, segment_bytes):
            runs.append(batches[start:index])
            start = index
    runs.append(batches[start:])
    return runs


def _fit_together(first: RecordBatch, last: RecordBatch, segment_bytes: int) -> bool:
    size = last.position + last.size_bytes - first.position
    return size <= segment_bytes and fits(first.base_offset, last.last_offset)
