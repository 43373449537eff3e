"""Real files: reads past the page cache, descriptors in threads, locks of other processes."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minikafka.world.real.files import OffLoop, RealFiles
from minikafka.world.real.loop import run
from minikafka.world.real.read_memory import MOST_BYTES

CONTENT = bytes(i % 251 for i in range(300_000))


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "log").write_bytes(CONTENT)
    return str(tmp_path / "log")


def cache_holds(monkeypatch: pytest.MonkeyPatch, cached_bytes: int, error: int) -> list[int]:
    """Let ``preadv`` find only the first bytes of the file; returns where threads had to read."""
    real_preadv, real_pread = os.preadv, os.pread
    asked: list[int] = []

    def preadv(fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        room = cached_bytes - offset
        if not flags:
            return real_preadv(fd, buffers, offset)
        if room <= 0:
            raise OSError(error, os.strerror(error))
        return real_preadv(fd, [memoryview(buffers[0])[:room]], offset)

    def pread(fd: int, length: int, offset: int) -> bytes:
        assert threading.current_thread() is not threading.main_thread()
        asked.append(offset)
        return real_pread(fd, length, offset)

    monkeypatch.setattr(os, "preadv", preadv)
    monkeypatch.setattr(os, "pread", pread)
    return asked


@pytest.mark.parametrize(
    ("cached_bytes", "error"),
    [(0, errno.EAGAIN), (100_000, errno.EAGAIN), (0, errno.EOPNOTSUPP), (0, errno.EINVAL)],
)
def test_uncached_bytes_are_read_by_a_thread(
    path: str, monkeypatch: pytest.MonkeyPatch, cached_bytes: int, error: int
) -> None:
    asked = cache_holds(monkeypatch, cached_bytes, error)

    async def main() -> None:
        file = RealFiles().open(path)
        assert await file.read_cold(200_000, 50_000) == CONTENT[50_000:250_000]
        assert asked == [max(50_000, cached_bytes)]

    run(main())


def test_cached_bytes_are_read_without_a_thread(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = cache_holds(monkeypatch, 1 << 40, errno.EAGAIN)

    async def main() -> None:
        file = RealFiles().open(path)
        assert await file.read_cold(1 << 22, 0) == CONTENT
        assert asked == []

    run(main())


def test_other_errors_of_a_cold_read_are_raised(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_holds(monkeypatch, 0, errno.EIO)

    async def main() -> None:
        with pytest.raises(OSError) as caught:
            await RealFiles().open(path).read_cold(10, 0)
        assert caught.value.errno == errno.EIO

    run(main())


@pytest.mark.parametrize("length", [10_000, 200_000, MOST_BYTES + 1])
@pytest.mark.parametrize(
    ("cached_bytes", "error", "is_cached"),
    [
        (0, errno.EAGAIN, False),
        (50_001, errno.EAGAIN, False),
        (-1, errno.EAGAIN, False),
        (0, errno.EOPNOTSUPP, True),
        (1 << 40, errno.EAGAIN, True),
    ],
)
def test_a_view_of_the_page_cache_has_all_bytes_or_is_none(
    path: str,
    monkeypatch: pytest.MonkeyPatch,
    length: int,
    cached_bytes: int,
    error: int,
    is_cached: bool,
) -> None:
    """-1 stands for all but the last byte."""
    end = min(len(CONTENT), 50_000 + length)
    held = end - 1 if cached_bytes < 0 else cached_bytes
    cache_holds(monkeypatch, held, error)

    async def main() -> None:
        found = RealFiles().open(path).view_cached(length, 50_000)
        assert found == (CONTENT[50_000:end] if is_cached else None)

    run(main())


def test_views_end_with_the_file(path: str) -> None:
    async def main() -> None:
        file = RealFiles().open(path)
        start = len(CONTENT) - 40_000
        for view in (file.view(100_000, start), file.view_cached(100_000, start)):
            assert view == CONTENT[start:]
            assert memoryview(view).readonly

    run(main())


def evict(path: str) -> None:
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_evicted_pages_are_read_all_the_same(path: str) -> None:
    async def main() -> None:
        file = RealFiles().open(path)
        await file.flush()
        evict(path)
        assert await file.read_cold(len(CONTENT), 0) == CONTENT

    run(main())


class HeldFsync:
    """An fdatasync that waits for ``release`` and then does as told."""

    def __init__(self, outcome: Callable[[int], None]) -> None:
        self._outcome = outcome
        self._started = threading.Semaphore(0)
        self.release = threading.Event()
        self.under_way = 0

    def __call__(self, fd: int) -> None:
        self.under_way += 1
        self._started.release()
        assert self.release.wait(20)
        self._outcome(fd)

    def wait_for_start(self) -> None:
        assert self._started.acquire(timeout=20)


def test_a_descriptor_stays_valid_for_its_thread(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    held = HeldFsync(lambda fd: seen.append(os.fstat(fd).st_ino))
    monkeypatch.setattr(os, "fdatasync", held)

    async def main() -> None:
        inode = os.stat(path).st_ino
        files = RealFiles()
        file = files.open(path)
        before = open_descriptors()
        flushing = asyncio.ensure_future(file.flush())
        await asyncio.to_thread(held.wait_for_start)
        file.close()
        files.open(f"{path}.other", create=True)  # gets the number just freed
        held.release.set()
        await flushing
        assert seen == [inode]
        assert open_descriptors() == before

    run(main())


def test_a_read_that_waits_for_a_thread_keeps_its_file(path: str, tmp_path: Path) -> None:
    """Its descriptor used to be copied after the wait, when the number might belong to another
    file."""
    (tmp_path / "other").write_bytes(b"other" * 10)
    free = threading.Event()

    async def scenario() -> None:
        off_loop = OffLoop(max_threads=1, max_waiting=1)
        before = open_descriptors()
        blocking = asyncio.create_task(off_loop.run(free.wait))
        fd = os.open(path, os.O_RDONLY)
        reading = asyncio.create_task(off_loop.with_file(fd, os.pread, 5, 0))
        cancelled = asyncio.create_task(off_loop.with_file(fd, os.pread, 5, 0))
        await asyncio.sleep(0)
        os.close(fd)
        other = os.open(tmp_path / "other", os.O_RDONLY)
        assert other == fd, "the system gives the number to the next file"
        cancelled.cancel()
        await asyncio.wait([cancelled])
        free.set()
        assert await reading == CONTENT[:5]
        await blocking
        os.close(other)
        await off_loop.run(len, "")  # after the callback that closes the copy
        assert open_descriptors() == before

    run(scenario())


def test_a_cancelled_flush_leaks_no_descriptor(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = HeldFsync(lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", held)

    async def main() -> None:
        files = RealFiles(max_threads=1, max_waiting=4)
        file = files.open(path)
        await files.flush_directory(os.path.dirname(path))  # the thread is there
        await asyncio.to_thread(len, "")
        before = open_descriptors()
        flushes = [asyncio.ensure_future(file.flush()) for _ in range(10)]
        await asyncio.to_thread(held.wait_for_start)
        assert open_descriptors() == before + 10  # one runs, nine wait with a copy each
        for flush in flushes:
            flush.cancel()
        await asyncio.wait(flushes)
        held.release.set()
        await files.flush_directory(os.path.dirname(path))  # after the running one
        assert held.under_way == 1
        assert open_descriptors() == before

    run(main())


@pytest.mark.mission("SAFE-28")
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_flush_needs_no_further_descriptor(
    path: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fdatasync", flushed.append)

    def fail(fd: int) -> int:
        raise OSError(number, "too many open files")

    monkeypatch.setattr(os, "dup", fail)

    async def main() -> None:
        await RealFiles().open(path).flush()
        assert len(flushed) == 1

    run(main())


def test_a_failed_flush_is_raised(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)

    async def main() -> None:
        with pytest.raises(OSError, match="Input/output"):
            await RealFiles().open(path).flush()

    run(main())


def test_replace_is_synced_before_and_after_the_rename(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(fd: int) -> None:
        told.append(f"fsync {os.path.basename(os.readlink(f'/proc/self/fd/{fd}'))}")
        real_fsync(fd)

    def replace(source: str, target: str) -> None:
        told.append("rename")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    run(RealFiles().replace(path, b"new"))
    assert told == ["fsync log.tmp", "rename", f"fsync {os.path.basename(os.path.dirname(path))}"]


def test_a_lock_of_another_process_goes_with_it(tmp_path: Path) -> None:
    lock = str(tmp_path / ".lock")
    hold = f"""
from minikafka.world.real.files import OffLoop, RealFiles
from minikafka.world.real.read_memory import MOST_BYTES
held = RealFiles().lock({lock!r})
print("held", flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError):
            RealFiles().lock(lock)
        holder.kill()
    RealFiles().lock(lock).release()


def test_parts_are_written_whole_although_the_system_takes_some_of_them(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.pwritev

    def half(fd: int, parts: Any, offset: int) -> int:
        return write(fd, [b"".join(parts)[:4]], offset)

    async def body() -> None:
        file = RealFiles().open(path)
        monkeypatch.setattr(os, "pwritev", half)
        file.write_parts([b"abc", b"def", b"g"], 1)
        assert file.read(9, 0) == CONTENT[:1] + b"abcdefg" + CONTENT[8:9]
        file.close()

    asyncio.run(body())
