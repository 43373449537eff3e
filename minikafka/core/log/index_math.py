"""Arithmetic of the sparse indexes of a segment, whose offsets are relative to its base."""

from __future__ import annotations

from typing import Final

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
