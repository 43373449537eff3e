"""An index file of fixed-size entries: in memory while it grows, read from the file afterwards."""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from typing import Any, Final, NamedTuple

from minikafka.core.log.segment_limits import first_full
from minikafka.kernel.ports import Buffer, Files

_UNWRITTEN_LIMIT_BYTES: Final = 8 * 1024
_BLOCK_BYTES: Final = 4 * 1024  # the last step of a search reads one block


class Slot(NamedTuple):
    """The number of an entry and its fields; -1 and None for no entry."""

    number: int
    fields: Any


NO_SLOT: Final = Slot(-1, None)


class SparseIndex:
    """Entries of one ``Struct``, in increasing order.

    ``last`` has the fields of the last entry, None if the index is empty. With ``full_count``
    entries the index is full, and the log rolls.

    The index of the active segment has all its entries in one bytearray, and writes new ones now
    and then: in chunks of 8 KB, and when ``persist`` is called. After a crash they are rebuilt from
    the segment anyway. The file has no preallocated tail, unlike Kafka's, so at any time it is what
    Kafka leaves when it closes an index. ``release`` frees the
    memory. After that a search opens the file, reads a few entries and closes it, because a log may
    have more segments than a process may have open files.
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
        self._in_place = False  # whether the file exists
        self._written = 0  # the number of entries in the file

    @property
    def is_full(self) -> bool:
        return self.count >= self.full_count

    @property
    def is_written(self) -> bool:
        """Whether the file exists and has all entries."""
        return self._in_place and self._written == self.count

    @property
    def size_bytes(self) -> int:
        return self.count * self._entry_bytes

    # ---- life

    def create(self) -> None:
        """Begin an empty index, and delete the file of an earlier one. Raises OSError.

        ``persist`` creates the file. Creating files takes most of the time when many partitions get
        their first records."""
        self._files.remove(self.path)
        self._in_place = False
        self._entries = bytearray()
        self.count = self._written = 0
        self.last = None

    def attach(self) -> None:
        """Use the existing file, and read only its last entry. Raises OSError."""
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
        """Read the entries into memory, so that others can be added. Raises OSError."""
        if self._entries is None:
            size = self.count * self._entry_bytes
            self._entries = bytearray(self._files.read_all(self.path)[:size])

    def persist(self) -> None:
        """Write the entries that the file lacks. Raises OSError, and may then be called again."""
        if self._entries is None or self.is_written:
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
        """Write all entries to the file and free the memory, since none will be added. Raises
        OSError."""
        self.persist()
        self._entries = None

    async def flush(self) -> None:
        """Write all entries and flush the file. Raises OSError."""
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
        """Return the fields of the entry at ``index``. Raises OSError."""
        if self._entries is not None:
            return self._entry.unpack_from(self._entries, index * self._entry_bytes)
        return self._entry.unpack(self.raw(index, 1))

    def raw(self, index: int, count: int) -> bytes:
        """Return the bytes of ``count`` entries, the first of which is at ``index``. Raises
        OSError."""
        start, length = index * self._entry_bytes, count * self._entry_bytes
        if self._entries is not None:
            return bytes(self._entries[start : start + length])
        file = self._files.open(self.path)
        try:
            return file.read(length, start)
        finally:
            file.close()

    def add(self, *fields: int) -> None:
        """Add an entry. The index must be loaded. After OSError the entry is kept in memory."""
        assert self._entries is not None
        self._entries += self._entry.pack(*fields)
        self.last = fields
        self.count += 1
        if self.count - self._written >= self._unwritten_limit:
            self.persist()

    def floor(self, target: int, field: int) -> Slot:
        """Return the last entry whose ``field`` is at most ``target``. The field must increase from
        entry to entry. Raises OSError."""
        if self.count == 0:
            return NO_SLOT
        if self.last[field] <= target:
            return Slot(self.count - 1, self.last)
        if self._entries is not None:
            return self._floor_in(self._entries, 0, self.count, target, field)
        return self._floor_in_file(target, field)

    def _floor_in(self, data: Buffer, first: int, count: int, target: int, field: int) -> Slot:
        """Return the last entry in ``data`` whose ``field`` is at most ``target``. ``data`` has
        ``count`` entries, numbered from ``first``."""
        size, unpack = self._entry_bytes, self._entry.unpack_from
        found: Any = None
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            fields = unpack(data, middle * size)
            if fields[field] <= target:
                low, found = middle + 1, fields
            else:
                high = middle
        return Slot(first + low - 1, found) if found is not None else NO_SLOT

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
        """Keep the first ``count`` entries and remove the others. Raises OSError."""
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
