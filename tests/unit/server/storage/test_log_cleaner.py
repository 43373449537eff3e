"""The log cleaner: its choice among logs, and what may happen while it is at work."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import structlog

from minikafka.core.log.small_files import CLEANER_OFFSET, decode_offsets
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.metrics import Metrics
from minikafka.protocol.records.builder import build_batch
from minikafka.server.storage.directories.log_manager import (
    NO_REPLICAS,
    LogManager,
    LogManagerConfig,
)
from minikafka.server.storage.log.segment import LogSegment
from minikafka.server.storage.log.unified_log import LogConfig, UnifiedLog
from minikafka.server.storage.log_cleaner import LogCleanerConfig
from tests.support.metric_names import figures
from tests.support.storage.compaction import committed_records, latest
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import NOW
from tests.support.storage.stored_batches import garbage, large_record, stored_batch
from tests.support.world.manual_clock import ManualClock
from tests.support.world.manual_workers import ManualWorkers

COMPACT = LogConfig(cleanup_policy="compact", segment_bytes=400, index_interval_bytes=100)
A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Lab:
    """A log manager whose cleaner the test runs. Reads wait for ``turn`` when there is one."""

    def __init__(self, **cleaner: Any) -> None:
        self.files = InstantFiles()
        self.clock = ManualClock()
        self.cleaner_config = LogCleanerConfig(**cleaner)
        self.stable_offsets: dict[TopicPartition, int | None] = {}  # others: the log end offset
        self.boot()

    def boot(self) -> None:
        config = LogManagerConfig(("/data",), log=COMPACT, cleaner=self.cleaner_config)
        self.workers = ManualWorkers()
        self.manager = LogManager(self.files, self.clock, self.workers, config)
        self.cleaner = self.manager.cleaner
        self.manager.connect(replace(NO_REPLICAS, stable_offset=self.stable_offset))

    def stable_offset(self, topic_partition: TopicPartition) -> int | None:
        if topic_partition in self.stable_offsets:
            return self.stable_offsets[topic_partition]
        log = self.manager.get(topic_partition)
        return None if log is None else log.log_end_offset

    async def log(
        self, topic_partition: TopicPartition, records: int = 40, config: LogConfig = COMPACT
    ) -> UnifiedLog:
        log = self.manager.get_or_create(topic_partition, None, config)
        write(log, records)
        return log

    def offsets(self) -> dict[TopicPartition, int]:
        return decode_offsets(self.files.read_all(f"/data/{CLEANER_OFFSET}"))


def write(log: UnifiedLog, records: int, at_ms: int = NOW) -> None:
    for number in range(records):
        data = build_batch([(at_ms, b"k%d" % (number % 3), b"%d" % number, [])])
        log.append_as_leader(data, 0, NOW)


@pytest.fixture
async def lab() -> Lab:
    lab = Lab()
    await lab.manager.start()
    return lab


def table(log: UnifiedLog) -> dict[bytes | None, bytes]:
    return latest(committed_records(log, log.log_end_offset))


async def test_it_cleans_the_dirtiest_first_and_then_has_done_enough(lab: Lab) -> None:
    a, b = await lab.log(A), await lab.log(B, 30)
    await lab.log(TopicPartition("plain", 0), config=LogConfig(segment_bytes=400))
    before = table(a), table(b)
    assert await lab.cleaner.clean_filthiest()
    assert await lab.cleaner.clean_filthiest()
    assert not await lab.cleaner.clean_filthiest()
    for log in (a, b):
        active = log.segments.active
        assert active is not None
        assert log.cleaned_offset == active.base_offset
        filled = [segment for segment in log.segments if segment.size_bytes]
        assert len(filled) == 2  # the last of the clean ones, and the active one
    assert (table(a), table(b)) == before
    assert lab.offsets() == {A: a.cleaned_offset, B: b.cleaned_offset}
    write(a, 30)
    assert await lab.cleaner.clean_filthiest()
    assert a.cleaned_offset == a.segments.base_offsets[-1]
    assert not await lab.cleaner.clean_filthiest()


async def test_how_far_it_came_survives_a_restart(lab: Lab) -> None:
    log = await lab.log(A)
    await lab.cleaner.clean_filthiest()
    cleaned = log.cleaned_offset
    await lab.manager.shutdown()
    lab.boot()
    await lab.manager.start(configs={"a": COMPACT})
    again = lab.manager.get(A)
    assert again is not None
    assert again.cleaned_offset == cleaned
    assert not await lab.cleaner.clean_filthiest()
    await lab.manager.delete(A)
    assert lab.offsets() == {}


async def test_a_partition_that_is_not_hosted_is_left_alone(lab: Lab) -> None:
    await lab.log(A)
    lab.stable_offsets[A] = None
    assert not await lab.cleaner.clean_filthiest()
    lab.stable_offsets[A] = 0
    assert not await lab.cleaner.clean_filthiest()


async def test_one_damaged_log_does_not_stop_the_others(lab: Lab) -> None:
    a, b = await lab.log(A, 60), await lab.log(B)
    metrics = Metrics()
    lab.cleaner.register(metrics)
    assert a.segments.first is not None
    file = lab.files.open(a.segments.first.path)
    file.write(b"\xff", 200)
    while await lab.cleaner.clean_filthiest():
        pass
    assert lab.cleaner.uncleanable == {a}
    assert a.cleaned_offset is None
    assert b.cleaned_offset == b.segments.base_offsets[-1]
    found = figures(metrics, "kafka.log")
    assert found["uncleanable-partitions-count,logDirectory=/data"] == 1
    assert found["uncleanable-bytes,logDirectory=/data"] == a.size_bytes
    assert found["max-dirty-percent"] < 100
    assert not [n for n in lab.files.list("/data/a-0") if n.endswith((".cleaned", ".swap"))]
    await lab.manager.delete(A)
    assert not await lab.cleaner.clean_filthiest()
    assert figures(metrics, "kafka.log")["uncleanable-partitions-count,logDirectory=/data"] == 0


@pytest.mark.mission("SAFE-62")
@pytest.mark.parametrize("base_offset", [0, 2**40])
async def test_a_base_offset_that_cannot_be_is_damage(lab: Lab, base_offset: int) -> None:
    """The CRC does not cover it."""
    a, b = await lab.log(A, 60), await lab.log(B)
    assert a.segments.first is not None
    _, second, *_ = a.segments.first.batches()
    file = lab.files.open(a.segments.first.path)
    file.write(base_offset.to_bytes(8, "big"), second.position)
    while await lab.cleaner.clean_filthiest():
        pass
    assert lab.cleaner.uncleanable == {a}
    assert b.cleaned_offset == b.segments.base_offsets[-1]


@pytest.mark.mission("SAFE-62")
@pytest.mark.parametrize(
    "stray",
    [garbage(), stored_batch(b"", 2**20), large_record(101 << 20)],
    ids=["garbage", "no records", "too large"],
)
async def test_a_stray_batch_in_an_old_log_stops_the_cleaning_of_this_log_only(
    lab: Lab, stray: bytes
) -> None:
    a = lab.manager.get_or_create(A, None, COMPACT)
    a.append_as_follower(stray)
    write(a, 60)
    b = await lab.log(B)
    with structlog.testing.capture_logs() as events:
        while await lab.cleaner.clean_filthiest():
            pass
    assert lab.cleaner.uncleanable == {a}
    assert [event["event"] for event in events].count("log_marked_uncleanable") == 1
    assert b.cleaned_offset == b.segments.base_offsets[-1]


@pytest.mark.mission("SAFE-62")
async def test_a_cleaning_ends_if_the_log_is_truncated_while_a_worker_opens_a_batch(
    lab: Lab,
) -> None:
    a = lab.manager.get_or_create(A, None, COMPACT)
    a.append_as_follower(large_record(1 << 20))
    write(a, 60)
    lab.workers.hold()
    cleaning = asyncio.ensure_future(lab.cleaner.clean_filthiest())
    for _ in range(50):
        await asyncio.sleep(0)
    assert lab.workers.calls == 1
    a.truncate_to(30)
    lab.workers.release()
    assert await cleaning
    assert (a.cleaned_offset, lab.cleaner.uncleanable) == (None, set())
    assert [n for n in lab.files.list("/data/a-0") if n.endswith(".cleaned")] == []
    await a.flush()
    while await lab.cleaner.clean_filthiest():
        pass
    assert lab.workers.calls > 1
    assert lab.cleaner.uncleanable == set()


async def test_a_full_disk_costs_nothing_and_the_next_log_has_its_turn(lab: Lab) -> None:
    a = await lab.log(A)
    before = table(a)
    lab.files.leave_room(40)
    assert await lab.cleaner.clean_filthiest()
    assert table(a) == before
    assert a.cleaned_offset is None
    assert lab.manager.directories.live
    assert not [n for n in lab.files.list("/data/a-0") if n.endswith((".cleaned", ".swap"))]
    lab.files.leave_room(2**40)
    b = await lab.log(B, 30)
    assert await lab.cleaner.clean_filthiest()
    assert b.cleaned_offset is not None
    assert not await lab.cleaner.clean_filthiest()
    lab.clock.advance(60_000)
    assert await lab.cleaner.clean_filthiest()
    assert a.cleaned_offset is not None


@pytest.mark.mission("SCALE-11")
async def test_a_cleaning_that_finds_no_descriptor_for_its_import_is_tried_later(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptor(*_: Any) -> Any:
        raise OSError(errno.EMFILE, "no descriptor")

    log = await lab.log(A)
    with monkeypatch.context() as patch:
        patch.setattr("minikafka.server.storage.log_cleaner.cleaning.CleaningMeans", no_descriptor)
        assert await lab.cleaner.clean_filthiest()
        assert not await lab.cleaner.clean_filthiest()  # the others have their turn
    assert lab.manager.get(A) is log
    assert log.cleaned_offset is None
    lab.clock.advance(60_000)
    assert await lab.cleaner.clean_filthiest()
    assert log.cleaned_offset is not None


async def test_a_broken_disk_takes_its_directory_offline(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lab.log(A)

    def broken(source: str, target: str) -> None:
        raise OSError(errno.EIO, "broken", source)

    monkeypatch.setattr(lab.files, "rename", broken)
    assert await lab.cleaner.clean_filthiest()
    assert not lab.manager.directories.live


# ---- meanwhile


def when_reading(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, log: UnifiedLog, nth: int, act: Callable[[], Any]
) -> None:
    """Call ``act`` while the cleaner waits for its ``nth`` read of a segment."""
    count = 0
    read = LogSegment.read_cold

    async def slow(segment: Any, length: int, position: int) -> bytes:
        nonlocal count
        count += 1
        data = await read(segment, length, position)
        if count == nth:
            result = act()
            if asyncio.iscoroutine(result):
                await result
        return data

    monkeypatch.setattr(type(log.segments.first), "read_cold", slow)


@pytest.mark.parametrize("nth", [1, 4, 8])
async def test_a_truncation_ends_it(lab: Lab, monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    log = await lab.log(A)
    when_reading(lab, monkeypatch, log, nth, lambda: log.truncate_to(7))
    await lab.cleaner.clean_filthiest()
    assert log.cleaned_offset is None
    assert log.log_end_offset == 7
    assert [r.offset for r in committed_records(log, 7)] == list(range(7))
    await log.flush()
    write(log, 40)
    assert [r.offset for r in committed_records(log, 47)] == list(range(47))
    assert not [n for n in lab.files.list("/data/a-0") if n.endswith((".cleaned", ".swap"))]
    assert await lab.cleaner.clean_filthiest()


@pytest.mark.parametrize("nth", [1, 8])
async def test_a_deletion_ends_it(lab: Lab, monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    log = await lab.log(A)
    b = await lab.log(B, 10)
    when_reading(lab, monkeypatch, log, nth, lambda: lab.manager.delete(A))
    await lab.cleaner.clean_filthiest()
    assert not lab.files.exists("/data/a-0")
    assert lab.manager.directories.live
    assert await lab.cleaner.clean_filthiest()
    assert lab.offsets() == {B: b.cleaned_offset}


@pytest.mark.parametrize("nth", [1, 8])
async def test_segments_that_go_end_it(lab: Lab, monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    log = await lab.log(A)

    def remove_first() -> None:
        log.increment_log_start_offset(log.segments.base_offsets[1])
        assert log.remove_dead_segment()

    when_reading(lab, monkeypatch, log, nth, remove_first)
    await lab.cleaner.clean_filthiest()
    start = log.log_start_offset
    assert [r.offset for r in committed_records(log, 40)] == list(range(start, 40))
    assert await lab.cleaner.clean_filthiest()
    assert log.cleaned_offset == log.segments.base_offsets[-1]


async def test_appends_and_reads_go_on(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await lab.log(A)
    when_reading(lab, monkeypatch, log, 7, lambda: write(log, 20))
    assert await lab.cleaner.clean_filthiest()
    assert log.log_end_offset == 60
    assert log.cleaned_offset is not None
    assert table(log) == {b"k0": b"18", b"k1": b"19", b"k2": b"17"}


async def test_a_read_is_repeated_when_its_segment_is_replaced(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await lab.log(A)
    first = log.segments.first
    assert first is not None
    read = type(first).read_cold
    cleaned = False

    async def slow(segment: Any, length: int, position: int) -> bytes:
        nonlocal cleaned
        data = await read(segment, length, position)
        if not cleaned:
            cleaned = True
            assert await lab.cleaner.clean_filthiest()
        return data

    monkeypatch.setattr(type(first), "read_cold", slow)
    found = await log.read_cold(1, 10_000, log.log_end_offset, True)
    assert found == log.read(1, 10_000, log.log_end_offset, True)
    assert found.first_offset > 1  # what was there at first is superseded
    assert first.path.endswith(".deleted")


async def test_pausing_ends_it_and_keeps_it_away(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await lab.log(A)
    async with asyncio.TaskGroup() as tasks:
        pauses: list[asyncio.Task[None]] = []

        async def pause() -> None:
            pauses.append(tasks.create_task(lab.cleaner.pause(A)))

        when_reading(lab, monkeypatch, log, 2, pause)
        await lab.cleaner.clean_filthiest()
    assert log.cleaned_offset is None
    assert not await lab.cleaner.clean_filthiest()
    await lab.cleaner.pause(A)
    lab.cleaner.resume(A)
    assert not await lab.cleaner.clean_filthiest()
    lab.cleaner.resume(A)
    assert await lab.cleaner.clean_filthiest()


async def test_max_compaction_lag_overrules_the_dirty_ratio(lab: Lab) -> None:
    config = LogConfig(
        cleanup_policy="compact",
        segment_bytes=400,
        min_cleanable_dirty_ratio=1.0,
        max_compaction_lag_ms=1000,
    )
    log = await lab.log(A, config=config)
    assert not await lab.cleaner.clean_filthiest()
    lab.clock.advance(1001)
    assert await lab.cleaner.clean_filthiest()
    assert log.cleaned_offset is not None


async def test_throttled_by_bytes_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(io_max_bytes_per_second=1000.0)
    await lab.manager.start()
    log = await lab.log(A)
    read = LogSegment.read_cold

    async def slow(segment: Any, length: int, position: int) -> bytes:
        lab.clock.now_ms += 100
        return await read(segment, length, position)

    monkeypatch.setattr(type(log.segments.first), "read_cold", slow)
    cleaning = asyncio.create_task(lab.cleaner.clean_filthiest())
    while not cleaning.done():
        await asyncio.sleep(0)
        lab.clock.advance(10)
    stats = lab.cleaner.stats
    moved = stats.map_bytes_read + stats.bytes_read + stats.bytes_written
    assert lab.clock.now_ms >= moved - 1000  # but for what came after the last look


async def test_as_many_tasks_as_threads_and_none_when_switched_off() -> None:
    for config, count in (({"threads": 3}, 3), ({"enable": False}, 0), ({}, 1)):
        lab = Lab(**config)
        async with asyncio.TaskGroup() as tasks:
            started = lab.cleaner.start(tasks)
            assert len(started) == count
            await asyncio.sleep(0)
            for task in started:
                task.cancel()


async def test_it_looks_again_after_its_backoff() -> None:
    lab = Lab(backoff_ms=50)
    async with asyncio.TaskGroup() as tasks:
        await lab.manager.start(tasks)
        log = await lab.log(A)
        for _ in range(100):
            await asyncio.sleep(0)
            lab.clock.advance(10)
        assert log.cleaned_offset is not None
        await lab.manager.shutdown()
