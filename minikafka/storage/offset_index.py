"""The ``.index`` file of a segment: offset to file position, one entry per few kilobytes.

Entry: relative offset i32, position i32. The offset is the last one of the batch that starts at the
position, so that batch is where a search for any offset from there on begins. Kafka:
``OffsetIndex``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from minikafka.core.log.index_math import OFFSET_ENTRY_BYTES, max_entries
from minikafka.kernel.ports import Files
from minikafka.storage.sparse_index import SparseIndex

ENTRY: Final = Struct(">ii")
assert ENTRY.size == OFFSET_ENTRY_BYTES


class OffsetPosition(NamedTuple):
    """``position`` is in bytes from the start of the segment's ``.log`` file."""

    offset: int
    position: int


class OffsetIndex(SparseIndex):
    """Raises OSError wherever it reads or writes."""

    def __init__(self, files: Files, path: str, base_offset: int, size_max_bytes: int) -> None:
        limit = max_entries(size_max_bytes, OFFSET_ENTRY_BYTES)
        super().__init__(files, path, ENTRY, limit)
        self._base_offset = base_offset

    def append(self, offset: int, position: int) -> None:
        """``offset`` must be above the last one, and fit."""
        self.add(offset - self._base_offset, position)

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry not above ``offset``; (base offset, 0) when there is none."""
        return self._entry_or_start(self.floor(offset - self._base_offset, 0).fields)

    def lookup_position(self, position: int) -> OffsetPosition:
        """The last entry whose position is not above ``position``; (base offset, 0) if none."""
        return self._entry_or_start(self.floor(position, 1).fields)

    def last_entry(self) -> OffsetPosition:
        """(base offset, 0) when empty."""
        return self._entry_or_start(self.last)

    def truncate_to(self, offset: int) -> None:
        """Keep only entries below ``offset``."""
        self.keep(self.floor(offset - self._base_offset - 1, 0).number + 1)

    def is_sane(self, segment_bytes: int) -> bool:
        """Whether the last entry can be one of this segment. Nothing else is looked at."""
        if self.count == 0:
            return True
        offset, position = self.last
        return bool(offset >= 0 and 0 <= position < segment_bytes)

    def _entry_or_start(self, fields: tuple[int, int] | None) -> OffsetPosition:
        if fields is None:
            return OffsetPosition(self._base_offset, 0)
        return OffsetPosition(self._base_offset + fields[0], fields[1])
