"""The real Files: pread and pwrite on the page cache, fsync off the loop."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

from minikafka.kernel.ports import Buffer, File, FileLock

_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_NO_CACHE_PROBE = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}


class RealFile:
    """See ``kernel.ports.File``."""

    __slots__ = ("_fd", "_path", "_threads")

    def __init__(self, path: str, fd: int, threads: ThreadPoolExecutor) -> None:
        self._path = path
        self._fd = fd
        self._threads = threads

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def write(self, data: Buffer, offset: int) -> None:
        written = os.pwrite(self._fd, data, offset)
        total = memoryview(data).nbytes
        while written < total:  # a signal, or the last bytes of a full disk
            written += os.pwrite(self._fd, memoryview(data)[written:], offset + written)

    def read(self, length: int, offset: int) -> bytes:
        data = os.pread(self._fd, length, offset)
        if len(data) == length:
            return data
        parts = [data]
        while data and (missing := length - sum(map(len, parts))) > 0:
            data = os.pread(self._fd, missing, offset + length - missing)
            parts.append(data)
        return b"".join(parts)

    async def read_cold(self, length: int, offset: int) -> bytes:
        buffer = bytearray(length)
        try:
            count = os.preadv(self._fd, [buffer], offset, _NOWAIT)
        except BlockingIOError:
            count = 0
        except OSError as error:
            if error.errno not in _NO_CACHE_PROBE:
                raise
            count = 0
        if count == length:
            return bytes(buffer)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.read, length, offset)

    def truncate(self, length: int) -> None:
        os.ftruncate(self._fd, length)

    async def flush(self) -> None:
        # A file closed meanwhile (its partition was deleted) must not lend its number to another.
        fd = os.dup(self._fd)
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, os.fdatasync, fd)
        finally:
            os.close(fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class RealFileLock:
    """An exclusive flock, gone with the process."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class RealFiles:
    """See ``kernel.ports.Files``. ``max_threads`` bounds fsyncs and cold reads under way."""

    def __init__(self, max_threads: int = 4) -> None:
        self._threads = ThreadPoolExecutor(max_threads, thread_name_prefix="minikafka-files")

    def open(self, path: str, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return RealFile(path, os.open(path, flags, 0o644), self._threads)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_directories(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_tree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return

    def read_all(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    async def replace(self, path: str, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, _write_aside, path, data, True)
        await self.flush_directory(os.path.dirname(path))

    def replace_unsynced(self, path: str, data: bytes) -> None:
        _write_aside(path, data, False)

    async def flush_directory(self, path: str) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, _sync_directory, path)

    def lock(self, path: str) -> FileLock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return RealFileLock(fd)


def _write_aside(path: str, data: bytes, sync: bool) -> None:
    aside = f"{path}.tmp"
    with open(aside, "wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.replace(aside, path)


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
