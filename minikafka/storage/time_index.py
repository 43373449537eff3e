"""The ``.timeindex`` file of a segment: the largest timestamp so far, and the offset that had it.

Entry: timestamp i64 (ms), relative offset i32. Every record above that offset may be later, none
up to it is. The last entry of a segment that is rolled or closed tells its largest timestamp.
Kafka: ``TimeIndex``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from minikafka.core.log.index_math import TIME_ENTRY_BYTES, max_entries
from minikafka.kernel.ports import Files
from minikafka.protocol.records.batch import NO_TIMESTAMP
from minikafka.storage.sparse_index import SparseIndex

ENTRY: Final = Struct(">qi")
assert ENTRY.size == TIME_ENTRY_BYTES


class TimestampOffset(NamedTuple):
    """``offset`` is the last offset of the batch that has ``timestamp`` (ms) as its largest."""

    timestamp: int
    offset: int


class TimeIndex(SparseIndex):
    """Raises OSError wherever it reads or writes."""

    def __init__(self, files: Files, path: str, base_offset: int, size_max_bytes: int) -> None:
        super().__init__(files, path, ENTRY, max_entries(size_max_bytes, TIME_ENTRY_BYTES))
        self._base_offset = base_offset

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if ``timestamp`` is above that of the last one (and is one at all)."""
        if timestamp > (NO_TIMESTAMP if self.last is None else self.last[0]):
            self.add(timestamp, offset - self._base_offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry not above ``timestamp``; (-1, base offset) when there is none."""
        return self._entry_or_start(self.floor(timestamp, 0).fields)

    def last_entry(self) -> TimestampOffset:
        """(-1, base offset) when empty."""
        return self._entry_or_start(self.last)

    def truncate_to(self, offset: int) -> None:
        """Keep only entries below ``offset``."""
        self.keep(self.floor(offset - self._base_offset - 1, 1).number + 1)

    def is_sane(self) -> bool:
        """Whether the last entry can be one of this segment. Nothing else is looked at."""
        if self.count == 0:
            return True
        timestamp, offset = self.last
        return bool(offset >= 0 and timestamp >= self.entry(0)[0])

    def _entry_or_start(self, fields: tuple[int, int] | None) -> TimestampOffset:
        if fields is None:
            return TimestampOffset(NO_TIMESTAMP, self._base_offset)
        return TimestampOffset(fields[0], self._base_offset + fields[1])
