"""The simulated Files: one process's view of its host's disk."""

from __future__ import annotations

import asyncio
import builtins
import errno

from minikafka.kernel.ports import Buffer, File, FileLock, Volume
from minikafka.world.sim.clock import universal_ms
from minikafka.world.sim.disk import Directory, Disk, Inode, os_error
from minikafka.world.sim.process import Process

FLUSH_US = (100, 3000)
COLD_READ_US = (50, 500)
COLD_PROBABILITY = 0.25
VOLUME_BYTES = 1 << 40  # total size of a disk without ``capacity_bytes``


class SimFile:
    """See ``kernel.ports.File``."""

    def __init__(self, files: SimFiles, path: str, inode: Inode) -> None:
        self._files = files
        self._path = path
        self._inode = inode
        self._open = True
        inode.holders += 1
        files.opened[self] = None

    def size(self) -> int:
        return len(self._checked().data)

    def write(self, data: Buffer, offset: int) -> None:
        inode = self._checked()
        self._files.disk.write(inode, data, offset, self._path)
        inode.modified_ms = universal_ms(self._files.process.loop.now_us)

    def read(self, length: int, offset: int) -> bytes:
        return bytes(self._checked().data[offset : offset + length])

    async def read_cold(self, length: int, offset: int) -> bytes:
        self._checked()
        if self._files.disk.entropy.random() < COLD_PROBABILITY:
            await self._files.pause(COLD_READ_US)
        # No check: a real thread reads its open descriptor, even if the file was closed meanwhile.
        return bytes(self._inode.data[offset : offset + length])

    def is_cached(self, length: int, offset: int) -> bool:
        self._checked()
        return self._files.disk.entropy.random() >= COLD_PROBABILITY

    def truncate(self, length: int) -> None:
        self._files.disk.truncate(self._checked(), length, self._path)

    async def flush(self) -> None:
        inode = self._checked()
        mark = inode.mark()
        await self._files.pause(FLUSH_US)
        self._files.disk.check(self._path)
        inode.flush(mark)

    def close(self) -> None:
        if self._open:
            self._open = False
            del self._files.opened[self]
            self._files.disk.release(self._inode)

    def _checked(self) -> Inode:
        self._files.process.check()
        if not self._open:
            raise os_error(errno.EBADF, self._path)
        self._files.disk.check(self._path)
        return self._inode


class SimFileLock:
    """Held until it is released or the process dies."""

    def __init__(self, inode: Inode) -> None:
        self._inode = inode
        inode.lock_owner = self

    def release(self) -> None:
        if self._inode.lock_owner is self:
            self._inode.lock_owner = None


class SimFiles:
    """See ``kernel.ports.Files``. Only flushes and cold reads take simulated time."""

    def __init__(self, process: Process, disk: Disk) -> None:
        self.process = process
        self.disk = disk
        self.opened: dict[SimFile, None] = {}
        self._locks: list[SimFileLock] = []
        process.at_death(self._close_all)

    async def pause(self, bounds_us: tuple[int, int]) -> None:
        await asyncio.sleep(self.disk.entropy.between(*bounds_us) / 1_000_000)
        self.process.check()

    def _check(self, path: str) -> None:
        self.process.check()
        self.disk.check(path)

    def open(self, path: str, create: bool = False) -> File:
        self._check(path)
        if create and self.disk.find(path) is None:
            return SimFile(self, path, self.disk.create(path))
        return SimFile(self, path, self.disk.file(path))

    def exists(self, path: str) -> bool:
        self.process.check()
        return self.disk.find(path) is not None

    def size(self, path: str) -> int:
        self._check(path)
        return len(self.disk.file(path).data)

    def list(self, path: str) -> builtins.list[str]:
        self._check(path)
        return sorted(self.disk.directory(path).entries)

    def is_directory(self, path: str) -> bool:
        self.process.check()
        return isinstance(self.disk.find(path), Directory)

    def make_directories(self, path: str) -> None:
        self._check(path)
        self.disk.make_directories(path)

    def rename(self, source: str, target: str) -> None:
        self._check(source)
        self.disk.check(target)
        self.disk.rename(source, target)

    def remove(self, path: str) -> None:
        self._check(path)
        try:
            self.disk.remove(path)
        except FileNotFoundError:
            return

    def remove_tree(self, path: str) -> None:
        self._check(path)
        try:
            self.disk.remove_tree(path)
        except FileNotFoundError:
            return

    async def discard(self, path: str) -> None:
        self._check(path)
        await self.pause(FLUSH_US)
        if self.is_directory(path):
            self.remove_tree(path)
        else:
            self.remove(path)

    def modified_ms(self, path: str) -> int:
        self._check(path)
        return self.disk.file(path).modified_ms

    def volume(self, path: str) -> Volume:
        self._check(path)
        total = VOLUME_BYTES if self.disk.capacity_bytes is None else self.disk.capacity_bytes
        return Volume(total, max(0, total - self.disk.used_bytes))

    def read_all(self, path: str) -> bytes:
        self._check(path)
        return bytes(self.disk.file(path).data)

    async def replace(self, path: str, data: bytes) -> None:
        aside = self._write_aside(path, data)
        inode = self.disk.file(aside)
        mark = inode.mark()
        await self.pause(FLUSH_US)
        self._check(path)
        inode.flush(mark)
        self.disk.rename(aside, path)
        await self.flush_directory(path.rpartition("/")[0] or "/")

    def replace_unsynced(self, path: str, data: bytes) -> None:
        self.disk.rename(self._write_aside(path, data), path)

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
        directory = self.disk.directory(path)
        await self.pause(FLUSH_US)
        self.disk.check(path)
        directory.flush()

    def lock(self, path: str) -> FileLock:
        self._check(path)
        inode = self.disk.find(path) or self.disk.create(path)
        if isinstance(inode, Directory):
            raise os_error(errno.EISDIR, path)
        if inode.lock_owner is not None:
            raise os_error(errno.EAGAIN, path)
        lock = SimFileLock(inode)
        self._locks.append(lock)
        return lock

    def _close_all(self) -> None:
        """Close all files and release all locks, as the kernel does when a process dies."""
        for file in list(self.opened):
            file.close()
        for lock in self._locks:
            lock.release()
