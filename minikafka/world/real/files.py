"""The real Files: reads and writes in the page cache; fsync and cold reads in threads."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import mmap
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from minikafka.kernel.disk_errors import is_out_of_descriptors
from minikafka.kernel.lazy_module import LazyModule
from minikafka.kernel.ports import Buffer, File, FileLock, Volume
from minikafka.world.real.errors import LIBRARY_ERRORS, as_os_error, raising_os_errors
from minikafka.world.real.read_memory import LEAST_BYTES, MOST_BYTES, ReadMemory

if TYPE_CHECKING:
    import shutil
else:
    shutil = LazyModule("shutil")  # which brings bz2 and lzma

_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
SCRATCH_BYTES = 1 << 20
_NO_CACHE_PROBE = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}

T = TypeVar("T")


class OffLoop:
    """Runs calls that may wait for the disk in a bounded number of threads; further calls queue.

    ``scratch`` is the buffer of reads on the event loop, which copy the bytes out of it at once.
    Reusing it costs a ninth of allocating and clearing a buffer for each read. It is mapped, so
    that its pages take memory when a read first needs them: many brokers never read so much.
    ``memory`` is for results of reads that are not copied.
    """

    def __init__(self, max_threads: int, max_waiting: int) -> None:
        self.scratch = memoryview(mmap.mmap(-1, SCRATCH_BYTES))
        self.memory = ReadMemory()
        self._threads = ThreadPoolExecutor(max_threads, thread_name_prefix="minikafka-files")
        self._room = asyncio.Semaphore(max_waiting)

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        async with self._room:
            return await asyncio.wrap_future(self._submit(work, *args))

    def _submit(self, work: Callable[..., T], *args: Any) -> Future[T]:
        try:
            return self._threads.submit(work, *args)
        except RuntimeError as error:  # the system has no thread left for this process
            raise OSError(errno.EAGAIN, str(error)) from error

    async def with_file(self, fd: int, work: Callable[..., T], *args: Any) -> T:
        """Run ``work(copy of fd, *args)`` in a thread. The copy is made at once: if the file is
        closed before the work is done, because its partition was deleted, the system may give the
        number to another file. The copy is closed when the work is done or was cancelled.

        Without a descriptor for the copy the work is done on the event loop: it is not the disk
        that has failed."""
        try:
            own = os.dup(fd)
        except OSError as error:
            if not is_out_of_descriptors(error):
                raise
            return work(fd, *args)
        try:
            await self._room.acquire()
        except BaseException:
            os.close(own)
            raise
        try:
            future = self._submit(work, own, *args)
        except OSError:
            os.close(own)
            raise
        else:
            future.add_done_callback(lambda _: os.close(own))
            return await asyncio.wrap_future(future)
        finally:
            self._room.release()


def _read(fd: int, length: int, offset: int) -> bytes:
    try:
        data = os.pread(fd, length, offset)
    except LIBRARY_ERRORS as error:
        raise as_os_error(error, offset) from error
    if len(data) == length:
        return data
    parts = [data]
    while data and (missing := length - sum(map(len, parts))) > 0:
        data = os.pread(fd, missing, offset + length - missing)
        parts.append(data)
    return b"".join(parts)


class RealFile:
    """See ``kernel.ports.File``."""

    __slots__ = ("_fd", "_off_loop")

    def __init__(self, fd: int, off_loop: OffLoop) -> None:
        self._fd = fd
        self._off_loop = off_loop

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def write(self, data: Buffer, offset: int) -> None:
        try:
            written = os.pwrite(self._fd, data, offset)
        except LIBRARY_ERRORS as error:
            raise as_os_error(error, offset) from error
        total = len(data)
        while written < total:  # interrupted by a signal, or the disk is almost full
            written += os.pwrite(self._fd, memoryview(data)[written:], offset + written)

    def write_parts(self, parts: Sequence[Buffer], offset: int) -> None:
        try:
            written = os.pwritev(self._fd, parts, offset)
        except LIBRARY_ERRORS as error:
            raise as_os_error(error, offset) from error
        if written < sum(map(len, parts)):
            self.write(b"".join(parts)[written:], offset + written)

    def read(self, length: int, offset: int) -> bytes:
        return _read(self._fd, length, offset)

    async def read_cold(self, length: int, offset: int) -> bytes:
        """Read on the event loop what is in the page cache. From the first missing byte on, read in
        a thread; also everything on file systems without RWF_NOWAIT."""
        scratch = self._off_loop.scratch
        parts: list[bytes] = []
        missing = length
        try:
            while missing > 0:
                room = scratch[:missing]
                count = os.preadv(self._fd, [room], offset + length - missing, _NOWAIT)
                if not count:
                    return b"".join(parts)  # the end of the file
                parts.append(bytes(room[:count]))
                missing -= count
        except BlockingIOError:
            pass
        except LIBRARY_ERRORS as error:
            raise as_os_error(error, offset) from error
        except OSError as error:
            if error.errno not in _NO_CACHE_PROBE:
                raise
        if missing > 0:
            start = offset + length - missing
            parts.append(await self._off_loop.with_file(self._fd, _read, missing, start))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def view(self, length: int, offset: int) -> Buffer:
        if not LEAST_BYTES <= length <= MOST_BYTES:
            return _read(self._fd, length, offset)
        memory = self._off_loop.memory.take(length)
        return memory[: self._fill(memory, offset, 0)].toreadonly()

    def view_cached(self, length: int, offset: int) -> Buffer | None:
        off_loop = self._off_loop
        if length > MOST_BYTES:
            memory = memoryview(bytearray(length))
        elif length >= LEAST_BYTES:
            memory = off_loop.memory.take(length)
        else:
            memory = off_loop.scratch[:length]
        try:
            count = self._fill(memory, offset, _NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _NO_CACHE_PROBE:
                raise
            count = self._fill(memory, offset, 0)
        return memory[:count].toreadonly() if length >= LEAST_BYTES else bytes(memory[:count])

    def _fill(self, memory: memoryview, offset: int, flags: int) -> int:
        """Read into all of ``memory``, or up to the end of the file. Return how many bytes were
        read. Raises BlockingIOError, with ``_NOWAIT`` in ``flags`` alone."""
        try:
            count = done = os.preadv(self._fd, [memory], offset, flags)
            while count and done < len(memory):
                count = os.preadv(self._fd, [memory[done:]], offset + done, flags)
                done += count
        except LIBRARY_ERRORS as error:
            raise as_os_error(error, offset) from error
        return done

    @raising_os_errors
    def truncate(self, length: int) -> None:
        os.ftruncate(self._fd, length)

    async def flush(self) -> None:
        await self._off_loop.with_file(self._fd, os.fdatasync)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class RealFileLock:
    """An exclusive flock; the system releases it when the process ends."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class RealFiles:
    """See ``kernel.ports.Files``. At most ``max_threads`` fsyncs and cold reads run at a time. At
    most ``max_waiting`` run or are queued for a thread; further callers wait."""

    def __init__(self, max_threads: int = 8, max_waiting: int = 64) -> None:
        self._off_loop = OffLoop(max_threads, max_waiting)

    @raising_os_errors
    def open(self, path: str, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return RealFile(os.open(path, flags, 0o644), self._off_loop)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    @raising_os_errors
    def size(self, path: str) -> int:
        return os.stat(path).st_size

    @raising_os_errors
    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    @raising_os_errors
    def make_directories(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    @raising_os_errors
    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    @raising_os_errors
    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    @raising_os_errors
    def remove_tree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return

    async def discard(self, path: str) -> None:
        await self._off_loop.run(_discard, path)

    @raising_os_errors
    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    @raising_os_errors
    def volume(self, path: str) -> Volume:
        found = os.statvfs(path)
        return Volume(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    @raising_os_errors
    def read_all(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    async def replace(self, path: str, data: bytes) -> None:
        """Write a file atomically. Calls for one path run one after the other, since all use the
        same temporary name."""
        await self._off_loop.run(_replace, path, data)

    @raising_os_errors
    def replace_unsynced(self, path: str, data: bytes) -> None:
        _write_aside(path, data, False)

    async def flush_directory(self, path: str) -> None:
        await self._off_loop.run(_sync_directory, path)

    @raising_os_errors
    def lock(self, path: str) -> FileLock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return RealFileLock(fd)


@raising_os_errors
def _discard(path: str) -> None:
    try:
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        return


@raising_os_errors
def _replace(path: str, data: bytes) -> None:
    _write_aside(path, data, True)
    _sync_directory(os.path.dirname(path))


def _write_aside(path: str, data: bytes, sync: bool) -> None:
    aside = f"{path}.tmp"
    with open(aside, "wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.replace(aside, path)


@raising_os_errors
def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
