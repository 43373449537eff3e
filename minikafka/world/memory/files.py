"""The Files of a process, on a file tree in memory."""

from __future__ import annotations

import asyncio
import builtins
import errno
import time
from collections.abc import Sequence

from minikafka.kernel.ports import Buffer, File, FileLock, Volume
from minikafka.world.memory.file_tree import Directory, DiskTrouble, FileTree, Inode, os_error

VOLUME_BYTES = 1 << 40  # total size of a tree without ``capacity_bytes``


class MemoryFile:
    """See ``kernel.ports.File``."""

    def __init__(self, files: MemoryFiles, path: str, inode: Inode) -> None:
        self.files = files
        self.inode = inode
        self._path = path
        self._open = True
        inode.holders += 1
        files.opened[self] = None

    def size(self) -> int:
        return len(self.checked().data)

    def write(self, data: Buffer, offset: int) -> None:
        inode = self.checked()
        self.files.tree.write(inode, data, offset, self._path)
        inode.modified_ms = self.files.wall_ms()

    def write_parts(self, parts: Sequence[Buffer], offset: int) -> None:
        self.write(b"".join(parts), offset)

    def read(self, length: int, offset: int) -> bytes:
        return bytes(memoryview(self.checked().data)[offset : offset + length])

    async def read_cold(self, length: int, offset: int) -> bytes:
        await self.files.reading()
        return self.read(length, offset)

    def view(self, length: int, offset: int) -> Buffer:
        return self.read(length, offset)

    def view_cached(self, length: int, offset: int) -> Buffer | None:
        self.checked()
        return None if self.files.tree.latency_s else self.read(length, offset)

    def truncate(self, length: int) -> None:
        self.files.tree.truncate(self.checked(), length, self._path)

    async def flush(self) -> None:
        inode = self.checked()
        mark = inode.mark()
        await self.files.flushing()
        self.files.tree.check(self._path)
        inode.flush(mark)

    def close(self) -> None:
        if self._open:
            self._open = False
            del self.files.opened[self]
            self.files.tree.release(self.inode)

    def checked(self) -> Inode:
        """Return the content. Raises OSError if the file is closed, or its disk is broken."""
        self.files.check_alive()
        if not self._open:
            raise os_error(errno.EBADF, self._path)
        self.files.tree.check(self._path)
        return self.inode


class MemoryFileLock:
    """Held until it is released or the process dies."""

    def __init__(self, inode: Inode) -> None:
        self._inode = inode
        inode.lock_owner = self

    def release(self) -> None:
        if self._inode.lock_owner is self:
            self._inode.lock_owner = None


class MemoryFiles:
    """See ``kernel.ports.Files``. The tree outlives the process, which ``close_all`` ends."""

    def __init__(self, tree: FileTree) -> None:
        self.tree = tree
        self.opened: dict[MemoryFile, None] = {}
        self._locks: list[MemoryFileLock] = []

    # ------------------------------------------------------------ what a simulated process adds

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def check_alive(self) -> None:
        """Raise an exception if the process has died."""

    async def flushing(self) -> None:
        """Wait as long as a flush takes: for one turn of the loop, unless the disk is slow."""
        await asyncio.sleep(self.tree.latency_s)
        if self.tree.latency_s:
            self.tree.troubled(DiskTrouble.SLOW)

    async def reading(self) -> None:
        """Wait as long as a read takes."""
        if self.tree.latency_s:
            await asyncio.sleep(self.tree.latency_s)
            self.tree.troubled(DiskTrouble.SLOW)

    def open_inode(self, path: str, inode: Inode) -> MemoryFile:
        return MemoryFile(self, path, inode)

    def _check(self, path: str) -> None:
        self.check_alive()
        self.tree.check(path)

    # --------------------------------------------------------------------------------- the port

    def open(self, path: str, create: bool = False) -> File:
        self._check(path)
        if create and self.tree.find(path) is None:
            return self.open_inode(path, self.tree.create(path))
        return self.open_inode(path, self.tree.file(path))

    def exists(self, path: str) -> bool:
        self.check_alive()
        return self.tree.find(path) is not None

    def size(self, path: str) -> int:
        self._check(path)
        return len(self.tree.file(path).data)

    def list(self, path: str) -> builtins.list[str]:
        self._check(path)
        return sorted(self.tree.directory(path).entries)

    def is_directory(self, path: str) -> bool:
        self.check_alive()
        return isinstance(self.tree.find(path), Directory)

    def make_directories(self, path: str) -> None:
        self._check(path)
        self.tree.make_directories(path)

    def rename(self, source: str, target: str) -> None:
        self._check(source)
        self.tree.check(target)
        self.tree.rename(source, target)

    def remove(self, path: str) -> None:
        self._check(path)
        try:
            self.tree.remove(path)
        except FileNotFoundError:
            return

    def remove_tree(self, path: str) -> None:
        self._check(path)
        try:
            self.tree.remove_tree(path)
        except FileNotFoundError:
            return

    async def discard(self, path: str) -> None:
        self._check(path)
        await self.flushing()
        if self.is_directory(path):
            self.remove_tree(path)
        else:
            self.remove(path)

    def modified_ms(self, path: str) -> int:
        self._check(path)
        return self.tree.file(path).modified_ms

    def volume(self, path: str) -> Volume:
        self._check(path)
        total = VOLUME_BYTES if self.tree.capacity_bytes is None else self.tree.capacity_bytes
        return Volume(total, max(0, total - self.tree.used_bytes))

    def read_all(self, path: str) -> bytes:
        self._check(path)
        return bytes(self.tree.file(path).data)

    async def replace(self, path: str, data: bytes) -> None:
        aside = self._write_aside(path, data)
        inode = self.tree.file(aside)
        mark = inode.mark()
        await self.flushing()
        self._check(path)
        inode.flush(mark)
        self.tree.rename(aside, path)
        await self.flush_directory(path.rpartition("/")[0] or "/")

    def replace_unsynced(self, path: str, data: bytes) -> None:
        self.tree.rename(self._write_aside(path, data), path)

    def _write_aside(self, path: str, data: bytes) -> str:
        aside = f"{path}.tmp"
        file = self.open(aside, create=True)
        try:
            file.truncate(0)
            file.write(data, 0)
        finally:
            file.close()
        return aside

    async def flush_directory(self, path: str) -> None:
        self._check(path)
        directory = self.tree.directory(path)
        await self.flushing()
        self.tree.check(path)
        directory.flush()

    def lock(self, path: str) -> FileLock:
        self._check(path)
        inode = self.tree.find(path) or self.tree.create(path)
        if isinstance(inode, Directory):
            raise os_error(errno.EISDIR, path)
        if inode.lock_owner is not None:
            raise os_error(errno.EAGAIN, path)
        lock = MemoryFileLock(inode)
        self._locks.append(lock)
        return lock

    def close_all(self) -> None:
        """Close all files and release all locks, as the kernel does when a process dies."""
        for file in list(self.opened):
            file.close()
        for lock in self._locks:
            lock.release()
