"""A log start that has moved stays where it is, and what lies below it goes."""

from __future__ import annotations

import asyncio
import errno
from uuid import UUID

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.metrics import Metrics
from minikafka.server.storage.directories.log_manager import (
    FLUSHES,
    LogConfig,
    LogManager,
    LogManagerConfig,
)
from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import batch, batches_of, load, new_log, values_of
from tests.support.storage.searches import run_search
from tests.support.world.manual_workers import ManualWorkers
from tests.support.world.virtual_clock import VirtualClock

A = TopicPartition("a", 0)
ID = UUID(int=5)
PATH = "/d/log-start-offset-checkpoint"
TWO_A_SEGMENT = LogConfig(segment_bytes=400)


async def started(files: InstantFiles, tasks: asyncio.TaskGroup | None = None) -> LogManager:
    logs = LogManager(files, VirtualClock(), ManualWorkers(), LogManagerConfig(log_dirs=("/d",)))
    await logs.start(tasks)
    return logs


def fill(log: UnifiedLog, count: int) -> None:
    for _ in range(count):
        log.append_as_leader(bytearray(batch(bytes(100))), 0, 0)


def segments(files: InstantFiles) -> list[int]:
    return [int(name[:-4]) for name in files.list("/d/a-0") if name.endswith(".log")]


async def test_a_checkpointed_log_start_offset_survives_a_kill() -> None:
    files = InstantFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, LogConfig())
    fill(log, 5)
    assert log.increment_log_start_offset(3)
    assert not log.increment_log_start_offset(2)
    assert not files.exists(PATH)
    logs.starts.write()
    assert files.read_all(PATH) == b"0\n1\na 0 3\n"
    logs.close()  # killed
    again = (await started(files)).get(A)
    assert again is not None
    assert (again.log_start_offset, again.log_end_offset) == (3, 5)
    assert len(values_of(again)) == 2


async def test_flushed_soon_and_dead_segments_go() -> None:
    files = InstantFiles()
    async with asyncio.TaskGroup() as tasks:
        logs = await started(files, tasks)
        log = logs.get_or_create(A, ID, TWO_A_SEGMENT)
        fill(log, 9)
        assert segments(files) == [0, 2, 4, 6, 8]
        log.increment_log_start_offset(5)
        for _ in range(20):
            await asyncio.sleep(0)
        assert segments(files) == [4, 6, 8]
        assert log.segments.base_offsets == [4, 6, 8]
        first = [name for name in files.list("/d/a-0") if name.startswith("0" * 20)]
        assert first == [f"{0:020d}{suffix}.deleted" for suffix in (".index", ".log", ".timeindex")]
        assert [b.base_offset for b in batches_of(log)] == [5, 6, 7, 8]
        files.crash()  # the power fails: what was removed and not flushed may be back
        assert files.read_all(PATH) == b"0\n1\na 0 5\n"
        logs.close()
        for task in logs._background:
            task.cancel()


async def test_the_active_segment_stays_though_all_is_deleted() -> None:
    files = InstantFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, TWO_A_SEGMENT)
    fill(log, 4)
    log.increment_log_start_offset(4)
    while log.remove_dead_segment():
        pass
    assert log.segments.base_offsets == [2]
    fill(log, 1)
    assert [b.base_offset for b in batches_of(log)] == [4]


async def test_an_orderly_stop_and_a_start_keep_it() -> None:
    files = InstantFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, TWO_A_SEGMENT)
    fill(log, 9)
    log.increment_log_start_offset(4)  # the very base of a segment
    while log.remove_dead_segment():
        pass
    logs.starts.write()
    assert files.read_all(PATH) == b"0\n1\na 0 4\n"  # as long as the removal is not flushed
    await logs.shutdown()
    assert files.read_all(PATH) == b"0\n0\n"  # the name of the first segment tells it
    again = (await started(files)).get(A)
    assert again is not None
    assert again.log_start_offset == 4


async def test_dead_segments_of_a_killed_broker_go_when_it_is_back() -> None:
    files = InstantFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, TWO_A_SEGMENT)
    fill(log, 9)
    log.increment_log_start_offset(6)
    logs.starts.write()
    logs.close()
    async with asyncio.TaskGroup() as tasks:
        logs = await started(files, tasks)
        for _ in range(20):
            await asyncio.sleep(0)
        assert segments(files) == [6, 8]
        await logs.shutdown()


async def test_a_start_of_a_log_that_is_gone_is_forgotten() -> None:
    files = InstantFiles()
    files.make_directories("/d")
    files.replace_unsynced(PATH, b"0\n1\na 0 7\n")
    logs = await started(files)
    assert files.read_all(PATH) == b"0\n0\n"
    assert logs.get_or_create(A, ID, LogConfig()).log_start_offset == 0


async def test_segments_stay_until_the_log_start_offset_is_checkpointed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = InstantFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, TWO_A_SEGMENT)
    fill(log, 9)
    log.increment_log_start_offset(4)
    with monkeypatch.context() as patch:
        patch.setattr(files, "replace_unsynced", _refuse)
        logs.starts.write()
        await logs.starts.settle()
        assert segments(files) == [0, 2, 4, 6, 8]  # nothing goes that might be asked for again
    log.increment_log_start_offset(5)
    await logs.starts.settle()
    assert segments(files) == [4, 6, 8]


def _refuse(path: str, data: bytes) -> None:
    raise OSError(errno.ENOSPC, "no space")


def test_a_segment_that_cannot_be_put_aside_stays_readable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = InstantFiles()
    log = new_log(files, segment_bytes=400)
    fill(log, 5)
    log.increment_log_start_offset(3)
    with monkeypatch.context() as patch:
        patch.setattr(files, "rename", _refuse)
        with pytest.raises(OSError, match="no space"):
            log.remove_dead_segment()
    assert run_search(log.offset_by_timestamp(0, 5)) is not None
    assert log.remove_dead_segment()


@pytest.mark.parametrize("start", range(7))
def test_the_latest_record_is_one_that_is_still_there(start: int) -> None:
    log = new_log(segment_bytes=400)
    times = [50, 70, 90, 60, 80, 80, 10]
    log.append_as_leader(bytearray(batch(b"x", b"y", at_ms=50)), 0, 0)  # one batch of two
    for time in times[2:]:
        log.append_as_leader(bytearray(batch(bytes(100), at_ms=time)), 0, 0)
    times[1] = 50
    log.increment_log_start_offset(start)
    found = run_search(log.offset_of_max_timestamp(log.log_end_offset))
    assert found is not None
    latest = max(range(start, len(times)), key=lambda offset: (times[offset], -offset))
    assert (found.offset, found.timestamp) == (latest, times[latest])


def test_a_removed_segments_producer_snapshot_goes_with_it() -> None:
    files = InstantFiles()
    log = new_log(files, segment_bytes=400)
    fill(log, 9)
    assert log.producers.snapshots() == [2, 4, 6, 8]
    log.increment_log_start_offset(6)
    while log.remove_dead_segment():
        pass
    assert log.producers.snapshots() == [6, 8]
    log.close()
    assert load(files, log_start_offset=6).log_start_offset == 6


@pytest.mark.mission("GLASS-58")
async def test_the_times_of_flushes_are_measured() -> None:
    metrics = Metrics()
    logs = LogManager(
        InstantFiles(),
        VirtualClock(),
        ManualWorkers(),
        LogManagerConfig(log_dirs=("/d",)),
        metrics=metrics,
    )
    await logs.start(None)
    log = logs.get_or_create(A, ID, LogConfig())
    times = metrics.histogram(FLUSHES)
    await logs.flush([log])
    before = times.count
    fill(log, 2)
    await logs.flush([log])
    assert (before, times.count) == (0, 1)
