"""An index file of fixed-size entries: kept in memory while it grows, read in place afterwards."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from minikafka.core.log.index_math import is_full
from minikafka.kernel.ports import File, Files

_UNWRITTEN_LIMIT_BYTES: Final = 8 * 1024


class SparseIndex:
    """Entries of one ``Struct``, appended in rising order.

    The index of the active segment holds all its entries in one bytearray and writes new ones out
    in lumps: after a crash they are rebuilt from the segment anyway. An index that grows no more
    gives its memory back, and a search reads single entries from the file.
    """

    def __init__(self, files: Files, path: str, entry: Struct, max_entries: int) -> None:
        self.path = path
        self.count = 0
        self._files = files
        self._entry: Final = entry
        self._entry_bytes: Final = entry.size
        self._max_entries = max_entries
        self._entries: bytearray | None = None
        self._in_place = False  # there is a file
        self._written = 0  # entries in it
        self._file: File | None = None

    @property
    def is_full(self) -> bool:
        return is_full(self.count, self._max_entries, self._entry_bytes)

    @property
    def size_bytes(self) -> int:
        return self.count * self._entry_bytes

    # ---- life

    def create(self) -> None:
        """Start empty. The file is made when there is something to persist: making files is what
        takes the time when many partitions get their first record. Raises OSError."""
        self.close()
        self._files.remove(self.path)
        self._in_place = False
        self._entries = bytearray()
        self.count = self._written = 0

    def attach(self) -> None:
        """Take the file as it is, without reading it. Raises OSError."""
        self.count = self._written = self._files.size(self.path) // self._entry_bytes
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

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def change_suffix(self, old: str, new: str) -> None:
        """Rename the file, if there is one. Raises OSError."""
        path = self.path.removesuffix(old) + new
        if self._files.exists(self.path):
            self._files.rename(self.path, path)
        self.path = path

    def remove(self) -> None:
        self.close()
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
        if self._file is None:
            self._file = self._files.open(self.path)
        return self._file.read(length, start)

    def last(self) -> Any:
        """The fields of the last entry; there must be one."""
        return self.entry(self.count - 1)

    def add(self, *fields: int) -> None:
        """Append an entry; the index must be loaded. Raises OSError, with the entry added."""
        assert self._entries is not None
        self._entries += self._entry.pack(*fields)
        self.count += 1
        if (self.count - self._written) * self._entry_bytes >= _UNWRITTEN_LIMIT_BYTES:
            self.persist()

    def slot(self, target: int, key: Callable[[int], int]) -> int:
        """The last entry whose key is not above ``target``, or -1."""
        return bisect_right(range(self.count), target, key=key) - 1

    def keep(self, count: int) -> None:
        """Drop all entries from the ``count``-th on. Raises OSError."""
        if count >= self.count:
            return
        if self._entries is not None:
            del self._entries[count * self._entry_bytes :]
        self.count = count
        if count < self._written:
            self._written = count
            self.close()
            file = self._files.open(self.path, create=True)
            try:
                file.truncate(count * self._entry_bytes)
            finally:
                file.close()
