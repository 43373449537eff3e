"""Log directories that fail: at the start, under a log, one after the other; and full ones."""

from __future__ import annotations

import asyncio
import errno
import re
from dataclasses import replace
from uuid import UUID

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import File, FileLock
from minikafka.server.storage.directories.log_manager import (
    NO_REPLICAS,
    LogConfig,
    LogManager,
    LogManagerConfig,
)
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import batch
from tests.support.world.manual_workers import ManualWorkers
from tests.support.world.virtual_clock import VirtualClock

A, B, C = (TopicPartition(name, 0) for name in "abc")
ID = UUID(int=5)
BROKEN = OSError(errno.EIO, "broken")


def manager(files: InstantFiles, *dirs: str) -> LogManager:
    return LogManager(
        files, VirtualClock(), ManualWorkers(), LogManagerConfig(log_dirs=dirs or ("/d", "/e"))
    )


async def test_the_replicas_are_connected_once() -> None:
    logs = manager(InstantFiles())
    logs.connect(replace(NO_REPLICAS))
    with pytest.raises(AssertionError, match="connected already"):
        logs.connect(replace(NO_REPLICAS))


async def started(files: InstantFiles, *dirs: str) -> LogManager:
    logs = manager(files, *dirs)
    await logs.broker_id()
    await logs.claim(1, "cluster")
    await logs.start()
    return logs


async def test_its_logs_go_and_the_others_stay() -> None:
    files = InstantFiles()
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
    await logs.write_high_watermarks({B: 0})
    assert logs.storage_failed(B, BROKEN)
    assert told[1] == ("/e", [B])
    assert "all log directories have failed (/d, /e): broken" in told[2][0]
    await logs.shutdown()
    assert not files.exists("/d/.kafka_cleanshutdown")


async def test_new_logs_go_where_it_works_and_others_may_be_lost_ones() -> None:
    files = InstantFiles()
    logs = await started(files)
    files.break_below("/d")
    assert logs.get_or_create(A, ID, LogConfig()).directory == "/e/a-0"
    assert list(logs.directories.offline) == ["/d"]
    with pytest.raises(KafkaError) as caught:
        logs.get_or_create(B, ID, LogConfig(), is_new=False)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.get_or_create(A, ID, LogConfig(), is_new=False).directory == "/e/a-0"


async def test_a_full_directory_stays() -> None:
    files = InstantFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, LogConfig())
    assert not logs.storage_failed(A, OSError(errno.ENOSPC, "full"))
    assert logs.get(A) is log
    files.leave_room(10)
    with pytest.raises(KafkaError) as caught:
        logs.get_or_create(B, ID, LogConfig())
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert files.list("/e") == [".lock", "meta.properties"] or "b-0" not in files.list("/e")
    files.leave_room(10**6)
    assert logs.get_or_create(B, ID, LogConfig()).directory == "/e/b-0"


@pytest.mark.mission("SAFE-28")
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_a_directory_stays_when_no_file_can_be_opened(number: int) -> None:
    logs = await started(InstantFiles())
    log = logs.get_or_create(A, ID, LogConfig())
    assert not logs.storage_failed(A, OSError(number, "too many open files"))
    assert logs.get(A) is log
    assert logs.directories.offline == {}


class NoDescriptors(InstantFiles):
    """Files that cannot be opened while ``error`` is set, although those that are open can be
    used."""

    error: int | None = None

    def open(self, path: str, create: bool = False) -> File:
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


async def test_a_flush_without_room_for_indexes_and_checkpoints_waits_for_it() -> None:
    files, clock = InstantFiles(), VirtualClock()
    logs = LogManager(files, clock, ManualWorkers(), LogManagerConfig(log_dirs=("/d",)))
    await logs.start()
    log = logs.get_or_create(A, ID, LogConfig())
    log.append_as_leader(bytearray(batch(b"x", at_ms=1)), 0, 0)
    for room in (0, 4):  # for nothing; for the index, but not for the checkpoint
        log.append_as_leader(bytearray(batch(b"x", at_ms=2)), 0, 0)
        await logs.flush([log])
        log.truncate_to(1)
        files.leave_room(room)
        flush = asyncio.create_task(logs.flush([log]))
        await clock.advance(1_000)
        assert not flush.done()
        assert logs.get(A) is log
        assert log.cut_unflushed
        files.leave_room(10**6)
        await clock.advance(1_000)
        assert flush.done()
        assert not log.cut_unflushed
    assert logs.directories.offline == {}


async def test_a_flush_that_fails_on_a_full_disk_is_no_small_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = InstantFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, LogConfig())
    log.append_as_leader(bytearray(batch(b"x")), 0, 0)

    async def full(before_offset: int | None = None) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(log, "flush", full)
    await logs.flush([log])
    assert logs.get(A) is None


async def test_one_that_cannot_be_used_at_the_start_counts_as_failed() -> None:
    files = InstantFiles()
    (await started(files)).close()
    again = manager(files)
    files.break_below("/e/")
    assert await again.broker_id() == 1
    await again.claim(1, "cluster")
    await again.start()
    assert list(again.directories.offline) == ["/e"]
    again.close()


async def test_the_last_one_ends_the_start_with_one_clear_line() -> None:
    files = InstantFiles()
    logs = manager(files)
    files.break_below("/")

    def refuse(path: str) -> None:
        raise OSError(errno.EACCES, "permission denied", path)

    files.make_directories = refuse  # type: ignore[method-assign]
    with pytest.raises(ConfigError) as caught:
        await logs.broker_id()
    assert str(caught.value) == (
        "none of the log directories /d, /e can be used: /d: permission denied"
    )


class FewDescriptors(InstantFiles):
    """Files of which the call number ``failing`` that needs a descriptor fails."""

    calls = 0
    failing = 0
    error = errno.EMFILE

    def _take_descriptor(self, path: str) -> None:
        self.calls += 1
        if self.calls == self.failing:
            raise OSError(self.error, "too many open files", path)

    def open(self, path: str, create: bool = False) -> File:
        self._take_descriptor(path)
        return super().open(path, create)

    def list(self, path: str) -> list[str]:
        self._take_descriptor(path)
        return super().list(path)

    def read_all(self, path: str) -> bytes:
        self._take_descriptor(path)
        return super().read_all(path)

    def lock(self, path: str) -> FileLock:
        self._take_descriptor(path)
        return super().lock(path)

    def replace_unsynced(self, path: str, data: bytes) -> None:
        self._take_descriptor(path)
        super().replace_unsynced(path, data)

    async def flush_directory(self, path: str) -> None:
        self._take_descriptor(path)
        await super().flush_directory(path)


async def two_logs(files: InstantFiles, clean: bool) -> None:
    logs = await started(files)
    for partition in (A, B):
        log = logs.get_or_create(partition, ID, LogConfig(segment_bytes=len(batch(b"x"))))
        for _ in range(3):
            log.append_as_leader(bytearray(batch(b"x")), 0, 0)
    await logs.write_high_watermarks({A: 3, B: 3})
    if clean:
        await logs.shutdown()
    else:
        logs.close()
        for name in files.list("/d/a-0"):
            if name.endswith(("index", "snapshot")):
                files.remove(f"/d/a-0/{name}")


@pytest.mark.mission("SAFE-28")
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
async def test_a_start_without_descriptors_ends_and_takes_no_directory_offline(
    number: int, clean: bool
) -> None:
    files = FewDescriptors()
    await two_logs(files, clean)
    files.error = number
    ends: list[str] = []
    files.calls = files.failing = 0
    while files.calls >= files.failing:
        files.calls, files.failing = 0, files.failing + 1
        logs = manager(files)
        try:
            await logs.broker_id()
            await logs.claim(1, "cluster")
            assert logs.directories.topics() == {"a", "b"}
            await logs.start()
            assert logs.read_high_watermarks() == {A: 3, B: 3}
        except ConfigError as error:
            ends.append(str(error))
        finally:
            logs.close()
        assert logs.directories.offline == {}
    # The other calls open segments: they close the file of another one, and try again.
    assert len(ends) > 20
    assert all(re.match(r"log directory /[de] cannot be used: too many", end) for end in ends)
    files.failing = 0
    again = await started(files)
    assert {tp: log.log_end_offset for tp, log in again.logs().items()} == {A: 3, B: 3}


async def test_it_is_back_after_a_restart() -> None:
    files = InstantFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, LogConfig())
    log.append_as_leader(bytearray(batch(b"x")), 0, 0)
    logs.storage_failed(A, BROKEN)
    await logs.shutdown()
    again = await started(files)
    assert again.logs()[A].log_end_offset == 1
