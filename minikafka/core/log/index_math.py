"""Arithmetic of the sparse indexes of a segment, whose offsets are relative to its base."""

from __future__ import annotations

from typing import Final

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12


def fits(base_offset: int, offset: int) -> bool:
    """Whether ``offset`` can stand in the indexes of a segment that starts at ``base_offset``."""
    return 0 <= offset - base_offset <= MAX_RELATIVE_OFFSET


def max_entries(index_size_max_bytes: int, entry_bytes: int) -> int:
    """Return how many entries an index file may have; at least one, so that a segment can grow."""
    return max(index_size_max_bytes // entry_bytes, 1)


def first_full(limit: int, entry_bytes: int) -> int:
    """With how many entries an index is full, which makes the log roll. The time index keeps its
    last place for the entry that is added when the segment is rolled or closed (Kafka:
    ``TimeIndex.isFull``)."""
    return limit - 1 if entry_bytes == TIME_ENTRY_BYTES else limit
