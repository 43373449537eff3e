"""Files in memory for tests of the log alone.

They need no loop and no process, and the test chooses what a crash leaves. ``SimFiles`` takes
simulated time for each flush and leaves what its seed says.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

from minikafka.kernel.ports import Buffer, Volume


@dataclass
class Inode:
    data: bytearray = field(default_factory=bytearray)
    durable: int = 0  # how many bytes of data would survive a power loss
    modified_ms: int = 0


class MemoryFile:
    def __init__(self, files: MemoryFiles, path: str, inode: Inode) -> None:
        self._files, self._path, self._inode = files, path, inode
        self._closed = False

    def _open_inode(self) -> Inode:
        if self._closed:
            raise OSError(errno.EBADF, "closed", self._path)
        return self._inode

    def size(self) -> int:
        return len(self._open_inode().data)

    def write(self, data: Buffer, offset: int) -> None:
        inode = self._open_inode()
        raw = bytes(data)
        room = self._files.take_room(self._path, len(raw))
        if offset > len(inode.data):
            inode.data.extend(bytes(offset - len(inode.data)))
        inode.data[offset : offset + room] = raw[:room]
        inode.durable = min(inode.durable, offset)
        inode.modified_ms = self._files.now_ms
        if room < len(raw):
            raise OSError(errno.ENOSPC, "no space left", self._path)

    def read(self, length: int, offset: int) -> bytes:
        return bytes(self._open_inode().data[offset : offset + length])

    async def read_cold(self, length: int, offset: int) -> bytes:
        return self.read(length, offset)

    def is_cached(self, length: int, offset: int) -> bool:
        return True

    def truncate(self, length: int) -> None:
        inode = self._open_inode()
        self._files.take_room(self._path, 0)
        del inode.data[length:]
        inode.data.extend(bytes(length - len(inode.data)))
        inode.durable = min(inode.durable, length)

    async def flush(self) -> None:
        inode = self._open_inode()
        inode.durable = len(inode.data)

    def close(self) -> None:
        self._closed = True


class MemoryLock:
    def __init__(self, locks: set[str], path: str) -> None:
        self._locks, self._path = locks, path

    def release(self) -> None:
        self._locks.discard(self._path)


class MemoryFiles:
    """``room_bytes`` is what may still be written before the disk is full; ``broken`` makes every
    write and truncation fail, of paths that start with ``broken_below``."""

    def __init__(self) -> None:
        self._inodes: dict[str, Inode] = {}
        self._directories: set[str] = set()
        self._locks: set[str] = set()
        self.room_bytes = 2**60
        self.broken = False
        self.broken_below = ""
        self.now_ms = 0  # for the times of modification

    def check(self, path: str) -> None:
        if self.broken and path.startswith(self.broken_below):
            raise OSError(errno.EIO, "broken disk", path)

    def take_room(self, path: str, wanted: int) -> int:
        self.check(path)
        granted = min(wanted, self.room_bytes)
        self.room_bytes -= granted
        return granted

    def crash(self, keep: Callable[[str, int, int], int]) -> None:
        """Power loss. ``keep(path, durable, size)`` says how many bytes of a file are left."""
        for path in sorted(self._inodes):
            inode = self._inodes[path]
            if inode.durable < len(inode.data):
                del inode.data[keep(path, inode.durable, len(inode.data)) :]
            inode.durable = len(inode.data)
        self._locks.clear()

    def _inode(self, path: str) -> Inode:
        if path not in self._inodes:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return self._inodes[path]

    def open(self, path: str, create: bool = False) -> MemoryFile:
        if create and path not in self._inodes:
            if not self.is_directory(path.rpartition("/")[0]):
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            self.check(path)
            self._inodes[path] = Inode()
        return MemoryFile(self, path, self._inode(path))

    def exists(self, path: str) -> bool:
        return path in self._inodes or path in self._directories

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def list(self, path: str) -> list[str]:
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        prefix = path + "/"
        inside = [p for p in (*self._inodes, *self._directories) if p.startswith(prefix)]
        return sorted({p[len(prefix) :].split("/")[0] for p in inside})

    def is_directory(self, path: str) -> bool:
        return path in self._directories

    def make_directories(self, path: str) -> None:
        while path and path not in self._directories:
            self._directories.add(path)
            path = path.rpartition("/")[0]

    def rename(self, source: str, target: str) -> None:
        if source in self._inodes:
            self._inodes[target] = self._inodes.pop(source)
            return
        if source not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        for path in [p for p in self._inodes if p.startswith(source + "/")]:
            self._inodes[target + path[len(source) :]] = self._inodes.pop(path)
        for path in [p for p in self._directories if (p + "/").startswith(source + "/")]:
            self._directories.remove(path)
            self._directories.add(target + path[len(source) :])

    def remove(self, path: str) -> None:
        self.check(path)
        self._inodes.pop(path, None)

    def remove_tree(self, path: str) -> None:
        for inside in [p for p in self._inodes if p.startswith(path + "/")]:
            del self._inodes[inside]
        self._directories = {p for p in self._directories if not (p + "/").startswith(path + "/")}

    async def discard(self, path: str) -> None:
        if path in self._inodes:
            self.remove(path)
        else:
            self.remove_tree(path)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def volume(self, path: str) -> Volume:
        return Volume(2**60, self.room_bytes)

    def read_all(self, path: str) -> bytes:
        return bytes(self._inode(path).data)

    async def replace(self, path: str, data: bytes) -> None:
        self.replace_unsynced(path, data)
        self._inodes[path].durable = len(data)

    def replace_unsynced(self, path: str, data: bytes) -> None:
        if self.take_room(path, len(data)) < len(data):
            raise OSError(errno.ENOSPC, "no space left", path)
        if not self.is_directory(path.rpartition("/")[0]):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self._inodes[path] = Inode(bytearray(data))

    async def flush_directory(self, path: str) -> None:
        if path != "/" and path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)

    def lock(self, path: str) -> MemoryLock:
        if path in self._locks:
            raise BlockingIOError(errno.EAGAIN, "locked", path)
        self._locks.add(path)
        return MemoryLock(self._locks, path)


class SilentEvents:
    """An event log that discards its events."""

    def debug(self, event: str, **facts: object) -> None: ...

    def info(self, event: str, **facts: object) -> None: ...

    def warning(self, event: str, **facts: object) -> None: ...

    def error(self, event: str, **facts: object) -> None: ...

    def bind(self, **facts: object) -> SilentEvents:
        return self
