"""Log directories that fail: at the start, under a log, one after the other; and full ones."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace
from uuid import UUID

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.storage.directories.log_manager import (
    NO_REPLICAS,
    LogConfig,
    LogManager,
    LogManagerConfig,
)
from tests.support.storage.logs import batch
from tests.support.storage.memory_files import MemoryFile, MemoryFiles
from tests.support.world.manual_workers import ManualWorkers
from tests.support.world.virtual_clock import VirtualClock

A, B, C = (TopicPartition(name, 0) for name in "abc")
ID = UUID(int=5)
BROKEN = OSError(errno.EIO, "broken")


def manager(files: MemoryFiles, *dirs: str) -> LogManager:
    return LogManager(
        files, VirtualClock(), ManualWorkers(), LogManagerConfig(log_dirs=dirs or ("/d", "/e"))
    )


async def test_the_replicas_are_connected_once() -> None:
    logs = manager(MemoryFiles())
    logs.connect(replace(NO_REPLICAS))
    with pytest.raises(AssertionError, match="connected already"):
        logs.connect(replace(NO_REPLICAS))


async def started(files: MemoryFiles, *dirs: str) -> LogManager:
    logs = manager(files, *dirs)
    await logs.broker_id()
    await logs.claim(1, "cluster")
    await logs.start()
    return logs


def breaks(files: MemoryFiles, path: str) -> None:
    files.broken, files.broken_below = True, path


async def test_its_logs_go_and_the_others_stay() -> None:
    files = MemoryFiles()
    told: list[tuple[str, list[TopicPartition]]] = []
    logs = LogManager(
        files,
        VirtualClock(),
        ManualWorkers(),
        LogManagerConfig(log_dirs=("/d", "/e")),
        all_failed=lambda error: told.append((str(error), [])),
    )
    await logs.start()
    logs.connect(
        replace(
            NO_REPLICAS, directory_failed=lambda path, partitions: told.append((path, partitions))
        )
    )
    for partition in (A, B, C):
        logs.get_or_create(partition, ID, LogConfig())
    lost = logs.logs()[A]
    assert logs.storage_failed(A, BROKEN)
    assert logs.storage_failed(A, BROKEN)
    assert told == [("/d", [A, C])]
    assert list(logs.logs()) == [B]
    assert lost.closed
    await logs.checkpoint()
    logs.write_high_watermarks({B: 0})
    assert logs.storage_failed(B, BROKEN)
    assert told[1] == ("/e", [B])
    assert "all log directories have failed (/d, /e): broken" in told[2][0]
    await logs.shutdown()
    assert not files.exists("/d/.kafka_cleanshutdown")


async def test_new_logs_go_where_it_works_and_others_may_be_lost_ones() -> None:
    files = MemoryFiles()
    logs = await started(files)
    breaks(files, "/d")
    assert logs.get_or_create(A, ID, LogConfig()).directory == "/e/a-0"
    assert list(logs.directories.offline) == ["/d"]
    with pytest.raises(KafkaError) as caught:
        logs.get_or_create(B, ID, LogConfig(), is_new=False)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.get_or_create(A, ID, LogConfig(), is_new=False).directory == "/e/a-0"


async def test_a_full_directory_stays() -> None:
    files = MemoryFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, LogConfig())
    assert not logs.storage_failed(A, OSError(errno.ENOSPC, "full"))
    assert logs.get(A) is log
    files.room_bytes = 10
    with pytest.raises(KafkaError) as caught:
        logs.get_or_create(B, ID, LogConfig())
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert files.list("/e") == [".lock", "meta.properties"] or "b-0" not in files.list("/e")
    files.room_bytes = 10**6
    assert logs.get_or_create(B, ID, LogConfig()).directory == "/e/b-0"


@pytest.mark.mission("SAFE-28")
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_a_directory_stays_when_no_file_can_be_opened(number: int) -> None:
    logs = await started(MemoryFiles())
    log = logs.get_or_create(A, ID, LogConfig())
    assert not logs.storage_failed(A, OSError(number, "too many open files"))
    assert logs.get(A) is log
    assert logs.directories.offline == {}


class NoDescriptors(MemoryFiles):
    """Files that cannot be opened while ``error`` is set, although those that are open can be
    used."""

    error: int | None = None

    def open(self, path: str, create: bool = False) -> MemoryFile:
        if self.error is not None:
            raise OSError(self.error, "too many open files", path)
        return super().open(path, create)


@pytest.mark.mission("SAFE-28")
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_a_roll_without_descriptors_loses_nothing_and_is_repeated(number: int) -> None:
    files = NoDescriptors()
    logs = await started(files)
    log = logs.get_or_create(A, ID, LogConfig(segment_bytes=len(batch(b"x"))))
    log.append_as_leader(bytearray(batch(b"x")), 0, 0)
    files.error = number
    with pytest.raises(OSError, match="too many") as caught:
        log.append_as_leader(bytearray(batch(b"x")), 0, 0)
    assert not logs.storage_failed(A, caught.value)
    assert log.log_end_offset == len(log.segments) == 1
    files.error = None
    log.append_as_leader(bytearray(batch(b"x")), 0, 0)
    assert log.log_end_offset == len(log.segments) == 2
    assert logs.get(A) is log


@pytest.mark.mission("SAFE-28")
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_a_flush_without_descriptors_waits_for_them(number: int) -> None:
    files, clock = NoDescriptors(), VirtualClock()
    logs = LogManager(files, clock, ManualWorkers(), LogManagerConfig(log_dirs=("/d",)))
    await logs.start()
    log = logs.get_or_create(A, ID, LogConfig())
    log.append_as_leader(bytearray(batch(b"x")), 0, 0)
    files.error = number
    flush = asyncio.create_task(logs.flush([log]))
    await clock.advance(1_000)
    assert not flush.done()
    assert logs.get(A) is log
    assert log.recovery_point == 0
    files.error = None
    await clock.advance(1_000)
    assert flush.done()
    assert log.recovery_point == 1


async def test_a_flush_that_fails_on_a_full_disk_is_no_small_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = MemoryFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, LogConfig())
    log.append_as_leader(bytearray(batch(b"x")), 0, 0)

    async def full(before_offset: int | None = None) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(log, "flush", full)
    await logs.flush([log])
    assert logs.get(A) is None


async def test_one_that_cannot_be_used_at_the_start_counts_as_failed() -> None:
    files = MemoryFiles()
    (await started(files)).close()
    again = manager(files)
    breaks(files, "/e/")

    def unreadable(path: str) -> bytes:
        if path.startswith("/e/"):
            raise OSError(errno.EIO, "broken", path)
        return MemoryFiles.read_all(files, path)

    files.read_all = unreadable  # type: ignore[method-assign]
    assert await again.broker_id() == 1
    await again.claim(1, "cluster")
    await again.start()
    assert list(again.directories.offline) == ["/e"]
    again.close()


async def test_the_last_one_ends_the_start_with_one_clear_line() -> None:
    files = MemoryFiles()
    logs = manager(files)
    breaks(files, "/")

    def refuse(path: str) -> None:
        raise OSError(errno.EACCES, "permission denied", path)

    files.make_directories = refuse  # type: ignore[method-assign]
    with pytest.raises(ConfigError) as caught:
        await logs.broker_id()
    assert str(caught.value) == (
        "none of the log directories /d, /e can be used: /d: permission denied"
    )


async def test_it_is_back_after_a_restart() -> None:
    files = MemoryFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, LogConfig())
    log.append_as_leader(bytearray(batch(b"x")), 0, 0)
    logs.storage_failed(A, BROKEN)
    await logs.shutdown()
    again = await started(files)
    assert again.logs()[A].log_end_offset == 1
