"""The index files of a segment: offsets, times, and aborted transactions.

Entry: relative offset i32, position i32. The offset is the last one of the batch that starts at the
position, so that batch is where a search for any offset from there on begins. Kafka:
``OffsetIndex``.

Entry: timestamp i64 (ms), relative offset i32. Every record above that offset may be later, none
up to it is. The last entry of a segment that is rolled or closed has its largest timestamp.
Kafka: ``TimeIndex``.

There is a file only where there is an entry. Kafka: ``TransactionIndex``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple

from minikafka.core.log.aborted_txn import ENTRY, ENTRY_BYTES, VERSION, AbortedTxn
from minikafka.core.log.segment_limits import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, max_entries
from minikafka.kernel.ports import Files
from minikafka.protocol.records.batch import NO_TIMESTAMP
from minikafka.storage.log.sparse_index import SparseIndex

OFFSET_ENTRY: Final = Struct(">ii")
assert OFFSET_ENTRY.size == OFFSET_ENTRY_BYTES


class OffsetPosition(NamedTuple):
    """``position`` is in bytes from the start of the segment's ``.log`` file."""

    offset: int
    position: int


class OffsetIndex(SparseIndex):
    """Raises OSError wherever it reads or writes."""

    def __init__(self, files: Files, path: str, base_offset: int, size_max_bytes: int) -> None:
        limit = max_entries(size_max_bytes, OFFSET_ENTRY_BYTES)
        super().__init__(files, path, OFFSET_ENTRY, limit)
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


TIME_ENTRY: Final = Struct(">qi")
assert TIME_ENTRY.size == TIME_ENTRY_BYTES


class TimestampOffset(NamedTuple):
    """``offset`` is the last offset of the batch that has ``timestamp`` (ms) as its largest."""

    timestamp: int
    offset: int


class TimeIndex(SparseIndex):
    """Raises OSError wherever it reads or writes."""

    def __init__(self, files: Files, path: str, base_offset: int, size_max_bytes: int) -> None:
        super().__init__(files, path, TIME_ENTRY, max_entries(size_max_bytes, TIME_ENTRY_BYTES))
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


_NO_LIMIT = 2**62
_CHUNK_ENTRIES = 256
_LAST_OFFSET = 3  # the field by which entries rise
_FIELDS = Struct(">2xqqqq")  # an entry without its version
_last_stable_offset = attrgetter("last_stable_offset")


class TxnIndex(SparseIndex):
    """Entries in the order of their markers. Raises OSError wherever it reads or writes."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        super().__init__(files, path, ENTRY, _NO_LIMIT)
        self._base_offset = base_offset

    def create(self) -> None:
        """Start empty, without a file."""
        super().create()
        self._in_place = True  # as far as there is anything to write

    def load(self) -> None:
        if self.count == 0:
            self._entries = bytearray()
        super().load()

    def attach(self) -> None:
        """Take the file as it is; none means that nothing was aborted."""
        try:
            super().attach()
        except FileNotFoundError:
            self.create()

    def is_sane(self) -> bool:
        """Whether the file is one of this segment, whole and of a version known here."""
        if self.count == 0:
            return self._entries is not None or self._files.size(self.path) == 0
        if self._files.size(self.path) != self.count * ENTRY_BYTES:
            return False
        last = self._base_offset - 1
        for lump in self._lumps(0):
            for version, _, first_offset, last_offset, _ in ENTRY.iter_unpack(lump):
                if version != VERSION or not 0 <= first_offset <= last_offset > last:
                    return False
                last = last_offset
        return True

    def append(self, txn: AbortedTxn) -> None:
        """Markers come in the order of their offsets. The index must be loaded. With OSError the
        entry is kept in memory, to be written by a ``persist``."""
        self.add(VERSION, *txn)

    def collect(self, from_offset: int, bound: int) -> tuple[list[AbortedTxn], bool]:
        """Return the transactions that touch ``[from_offset, bound)``, and whether they are all:
        whether no later segment can hold the marker of another one."""
        found: list[AbortedTxn] = []
        if self.count == 0:
            return found, False
        start = self.floor(from_offset - 1, _LAST_OFFSET).number + 1
        for lump in self._lumps(start):
            # One statement for all: there may be hundreds in a read of small transactions.
            transactions = list(map(AbortedTxn._make, _FIELDS.iter_unpack(lump)))
            last = bisect_left(transactions, bound, key=_last_stable_offset)
            found += [txn for txn in transactions[: last + 1] if txn.first_offset < bound]
            if last < len(transactions):
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Forget transactions whose markers lie at or above ``offset``."""
        self.keep(self.floor(offset - 1, _LAST_OFFSET).number + 1)

    async def flush(self) -> None:
        self.persist()
        if self.count or self._files.exists(self.path):
            await super().flush()

    def _lumps(self, start: int) -> Iterator[bytes]:
        """From the entry at ``start`` on, some entries at a time."""
        for index in range(start, self.count, _CHUNK_ENTRIES):
            yield self.raw(index, min(_CHUNK_ENTRIES, self.count - index))
