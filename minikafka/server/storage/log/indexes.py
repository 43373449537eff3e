"""The index files of a segment: offsets, times, and aborted transactions.

``OffsetIndex``: an entry is a relative offset i32 and a position i32. The offset is the last offset
of the batch that starts at the position. A search for this or a higher offset starts there.

``TimeIndex``: an entry is a timestamp i64 (ms) and a relative offset i32. No record up to the
offset has a larger timestamp. The last entry of a segment that was rolled or closed has the
segment's largest timestamp.

``TxnIndex``: an entry is an aborted transaction. The file exists only if there is an entry. Kafka:
``TransactionIndex``.

All methods that read or write may raise OSError.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple

from minikafka.core.log.open_transactions import ENTRY, ENTRY_BYTES, VERSION, AbortedTxn
from minikafka.core.log.segment_limits import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, max_entries
from minikafka.kernel.ports import Files
from minikafka.protocol.records.batch import NO_TIMESTAMP
from minikafka.server.storage.log.sparse_index import SparseIndex

OFFSET_ENTRY: Final = Struct(">ii")
assert OFFSET_ENTRY.size == OFFSET_ENTRY_BYTES


class OffsetPosition(NamedTuple):
    """An entry of an offset index. ``position`` is in bytes from the start of the ``.log`` file."""

    offset: int
    position: int


class OffsetIndex(SparseIndex):
    """Maps offsets to positions in the ``.log`` file."""

    def __init__(self, files: Files, path: str, base_offset: int, size_max_bytes: int) -> None:
        limit = max_entries(size_max_bytes, OFFSET_ENTRY_BYTES)
        super().__init__(files, path, OFFSET_ENTRY, limit)
        self._base_offset = base_offset

    def append(self, offset: int, position: int) -> None:
        """Add an entry. ``offset`` must be above that of the last entry, and must fit an entry."""
        self.add(offset - self._base_offset, position)

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry up to ``offset``; (base offset, 0) if there is none."""
        return self._entry_or_start(self.floor(offset - self._base_offset, 0).fields)

    def lookup_position(self, position: int) -> OffsetPosition:
        """Return the last entry up to ``position``; (base offset, 0) if there is none."""
        return self._entry_or_start(self.floor(position, 1).fields)

    def entries_after(self, position: int) -> Iterator[OffsetPosition]:
        """Yield the entries behind ``position``, in order."""
        for index in range(self.floor(position, 1).number + 1, self.count):
            yield self._entry_or_start(self.entry(index))

    def last_entry(self) -> OffsetPosition:
        """Return the last entry; (base offset, 0) if the index is empty."""
        return self._entry_or_start(self.last)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at or above ``offset``."""
        self.keep(self.floor(offset - self._base_offset - 1, 0).number + 1)

    def is_sane(self, segment_bytes: int) -> bool:
        """Return whether the last entry can belong to this segment. Other entries are not
        checked."""
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
    """An entry of a time index: the largest timestamp (ms) of a batch, and its last offset."""

    timestamp: int
    offset: int


class TimeIndex(SparseIndex):
    """Maps timestamps to offsets."""

    def __init__(self, files: Files, path: str, base_offset: int, size_max_bytes: int) -> None:
        super().__init__(files, path, TIME_ENTRY, max_entries(size_max_bytes, TIME_ENTRY_BYTES))
        self._base_offset = base_offset

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry unless the last one has the same or a larger timestamp, or ``timestamp`` is
        -1."""
        if timestamp > (NO_TIMESTAMP if self.last is None else self.last[0]):
            self.add(timestamp, offset - self._base_offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry up to ``timestamp``; (-1, base offset) if there is none."""
        return self._entry_or_start(self.floor(timestamp, 0).fields)

    def last_entry(self) -> TimestampOffset:
        """Return the last entry; (-1, base offset) if the index is empty."""
        return self._entry_or_start(self.last)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at or above ``offset``."""
        self.keep(self.floor(offset - self._base_offset - 1, 1).number + 1)

    def is_sane(self) -> bool:
        """Return whether the last entry can belong to this segment. Other entries are not
        checked."""
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
_LAST_OFFSET = 3  # the field that increases from entry to entry
_FIELDS = Struct(">2xqqqq")  # an entry without its version
_last_stable_offset = attrgetter("last_stable_offset")


class TxnIndex(SparseIndex):
    """The aborted transactions whose ABORT markers are in the segment, in the order of markers."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        super().__init__(files, path, ENTRY, _NO_LIMIT)
        self._base_offset = base_offset

    def create(self) -> None:
        """Begin an empty index, without a file."""
        super().create()
        self._in_place = True  # so that ``persist`` creates no empty file

    def load(self) -> None:
        if self.count == 0:
            self._entries = bytearray()
        super().load()

    def attach(self) -> None:
        """Use the existing file. If there is none, no transaction was aborted."""
        try:
            super().attach()
        except FileNotFoundError:
            self.create()

    def is_sane(self) -> bool:
        """Return whether the entries can belong to this segment, are complete and have a known
        version."""
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
        """Add an entry. The index must be loaded, and markers must come in increasing offsets.

        After OSError the entry is kept in memory until ``persist`` succeeds."""
        self.add(VERSION, *txn)

    def collect(self, from_offset: int, bound: int) -> tuple[list[AbortedTxn], bool]:
        """Return the transactions with records in ``[from_offset, bound)``, and whether the search
        is complete: True if no later segment can have the marker of another one."""
        found: list[AbortedTxn] = []
        if self.count == 0:
            return found, False
        start = self.floor(from_offset - 1, _LAST_OFFSET).number + 1
        for lump in self._lumps(start):
            # One statement for all entries: a read may cover hundreds of small transactions.
            transactions = list(map(AbortedTxn._make, _FIELDS.iter_unpack(lump)))
            last = bisect_left(transactions, bound, key=_last_stable_offset)
            found += [txn for txn in transactions[: last + 1] if txn.first_offset < bound]
            if last < len(transactions):
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Remove transactions whose markers are at or above ``offset``."""
        self.keep(self.floor(offset - 1, _LAST_OFFSET).number + 1)

    async def flush(self) -> None:
        self.persist()
        if self.count or self._files.exists(self.path):
            await super().flush()

    def _lumps(self, start: int) -> Iterator[bytes]:
        """Yield the bytes of the entries from ``start`` on, ``_CHUNK_ENTRIES`` at a time."""
        for index in range(start, self.count, _CHUNK_ENTRIES):
            yield self.raw(index, min(_CHUNK_ENTRIES, self.count - index))
