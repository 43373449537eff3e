"""An index file of fixed-size entries: kept in memory while it grows, read in place afterwards."""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from typing import Any, Final, NamedTuple

from minikafka.core.log.segment_limits import first_full
from minikafka.kernel.ports import Buffer, Files

_UNWRITTEN_LIMIT_BYTES: Final = 8 * 1024
_BLOCK_BYTES: Final = 4 * 1024  # what a search reads at once, when it has come that near


class Slot(NamedTuple):
    """The entry found, and its fields; -1 and None when there is none."""

    number: int
    fields: Any


NO_SLOT: Final = Slot(-1, None)


class SparseIndex:
    """Entries of one ``Struct``, appended in rising order; ``last`` holds the fields of the last
    (None when empty). With ``full_count`` entries it is full, which makes the log roll.

    The index of the active segment holds all its entries in one bytearray and writes new ones out
    in lumps: after a crash they are rebuilt from the segment anyway. An index that grows no more
    gives its memory back, and a search opens the file, reads a few entries and closes it: a log
    may have more segments than a process may have open files.
    """

    def __init__(self, files: Files, path: str, entry: Struct, max_entries: int) -> None:
        self.path = path
        self.count = 0
        self.last: Any = None
        self._files = files
        self._entry: Final = entry
        self._entry_bytes: Final = entry.size
        self.full_count: Final = first_full(max_entries, entry.size)
        self._unwritten_limit = -(-_UNWRITTEN_LIMIT_BYTES // entry.size)
        self._entries: bytearray | None = None
        self._in_place = False  # there is a file
        self._written = 0  # entries in it

    @property
    def is_full(self) -> bool:
        return self.count >= self.full_count

    @property
    def size_bytes(self) -> int:
        return self.count * self._entry_bytes

    # ---- life

    def create(self) -> None:
        """Start empty. The file is made when there is something to persist: making files is what
        takes the time when many partitions get their first record. Raises OSError."""
        self._files.remove(self.path)
        self._in_place = False
        self._entries = bytearray()
        self.count = self._written = 0
        self.last = None

    def attach(self) -> None:
        """Take the file as it is, reading only its last entry. Raises OSError."""
        size = self._entry_bytes
        file = self._files.open(self.path)
        try:
            self.count = self._written = file.size() // size
            last = file.read(size, (self.count - 1) * size) if self.count else b""
        finally:
            file.close()
        self.last = self._entry.unpack(last) if self.count else None
        self._in_place = True
        self._entries = None

    def load(self) -> None:
        """Have the entries in memory, to add to them. Raises OSError."""
        if self._entries is None:
            size = self.count * self._entry_bytes
            self._entries = bytearray(self._files.read_all(self.path)[:size])

    def persist(self) -> None:
        """Write what the file lacks. Raises OSError, and may then be called again."""
        if self._entries is None or (self._in_place and self._written == self.count):
            return
        start = self._written * self._entry_bytes
        file = self._files.open(self.path, create=True)
        try:
            file.write(memoryview(self._entries)[start:], start)
        finally:
            file.close()
        self._in_place = True
        self._written = self.count

    def release(self) -> None:
        """The index grows no more: write it out and keep nothing in memory. Raises OSError."""
        self.persist()
        self._entries = None

    async def flush(self) -> None:
        """Return when every entry is on disk. Raises OSError."""
        self.persist()
        file = self._files.open(self.path, create=True)
        try:
            await file.flush()
        finally:
            file.close()

    def change_suffix(self, old: str, new: str) -> None:
        """Rename the file, if there is one. Raises OSError."""
        path = self.path.removesuffix(old) + new
        if self._files.exists(self.path):
            self._files.rename(self.path, path)
        self.path = path

    def remove(self) -> None:
        self._files.remove(self.path)

    # ---- entries

    def entry(self, index: int) -> Any:
        """The fields of the entry at ``index``. Raises OSError."""
        if self._entries is not None:
            return self._entry.unpack_from(self._entries, index * self._entry_bytes)
        return self._entry.unpack(self.raw(index, 1))

    def raw(self, index: int, count: int) -> bytes:
        """The bytes of ``count`` entries from the one at ``index`` on. Raises OSError."""
        start, length = index * self._entry_bytes, count * self._entry_bytes
        if self._entries is not None:
            return bytes(self._entries[start : start + length])
        file = self._files.open(self.path)
        try:
            return file.read(length, start)
        finally:
            file.close()

    def add(self, *fields: int) -> None:
        """Append an entry; the index must be loaded. Raises OSError, with the entry added."""
        assert self._entries is not None
        self._entries += self._entry.pack(*fields)
        self.last = fields
        self.count += 1
        if self.count - self._written >= self._unwritten_limit:
            self.persist()

    def floor(self, target: int, field: int) -> Slot:
        """The last entry whose ``field`` (which rises) is not above ``target``. Raises OSError."""
        if self.count == 0:
            return NO_SLOT
        if self.last[field] <= target:
            return Slot(self.count - 1, self.last)
        if self._entries is not None:
            return self._floor_in(self._entries, 0, self.count, target, field)
        return self._floor_in_file(target, field)

    def _floor_in(self, data: Buffer, first: int, count: int, target: int, field: int) -> Slot:
        """Among ``count`` entries, the ``first`` of which is at the start of ``data``."""
        size, unpack = self._entry_bytes, self._entry.unpack_from
        index = bisect_right(range(count), target, key=lambda i: unpack(data, i * size)[field]) - 1
        return Slot(first + index, unpack(data, index * size)) if index >= 0 else NO_SLOT

    def _floor_in_file(self, target: int, field: int) -> Slot:
        size = self._entry_bytes
        in_block = _BLOCK_BYTES // size
        file = self._files.open(self.path)
        try:
            first = 0
            if self.count > in_block:
                starts = range(0, self.count, in_block)

                def first_of(index: int) -> int:
                    fields = self._entry.unpack(file.read(size, index * size))
                    value: int = fields[field]
                    return value

                block = bisect_right(starts, target, key=first_of) - 1
                if block < 0:
                    return NO_SLOT
                first = starts[block]
            count = min(in_block, self.count - first)
            data = file.read(count * size, first * size)
            return self._floor_in(data, first, count, target, field)
        finally:
            file.close()

    def keep(self, count: int) -> None:
        """Drop all entries from the ``count``-th on. Raises OSError."""
        if count >= self.count:
            return
        self.last = self.entry(count - 1) if count else None
        if self._entries is not None:
            del self._entries[count * self._entry_bytes :]
        self.count = count
        if count < self._written:
            self._written = count
            file = self._files.open(self.path, create=True)
            try:
                file.truncate(count * self._entry_bytes)
            finally:
                file.close()
