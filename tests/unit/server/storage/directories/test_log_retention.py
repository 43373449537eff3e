"""Retention carried out: logs of a broker lose what their topics do not keep."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import UUID

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.server.storage.directories.log_manager import (
    NO_REPLICAS,
    LogConfig,
    LogManager,
    LogManagerConfig,
)
from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import batch, values_of
from tests.support.world.manual_clock import WALL_START_MS
from tests.support.world.manual_workers import ManualWorkers
from tests.support.world.virtual_clock import VirtualClock

A = TopicPartition("a", 0)
ID = UUID(int=5)
KEPT_MS = 100_000
SMALL = LogConfig(segment_bytes=200, retention_ms=KEPT_MS, file_delete_delay_ms=5_000)
EVERYTHING = 1 << 40


class Broker:
    def __init__(self, logs: LogManager, files: InstantFiles, clock: VirtualClock) -> None:
        self.logs, self.files, self.clock = logs, files, clock
        self.mark = EVERYTHING
        logs.connect(replace(NO_REPLICAS, high_watermark=self.high_watermark))

    def high_watermark(self, _: TopicPartition) -> int:
        return min(self.mark, self.log.log_end_offset)

    @property
    def log(self) -> UnifiedLog:
        return self.logs.get(A) or self.logs.get_or_create(A, ID, SMALL)

    def fill(self, *ages_ms: int) -> None:
        """A segment each."""
        for age_ms in ages_ms:
            at_ms = self.clock.wall_ms() - age_ms
            self.log.append_as_leader(bytearray(batch(bytes(100), at_ms=at_ms)), 0, 0)

    def names(self, suffix: str) -> list[int]:
        return [int(n.split(".")[0]) for n in self.files.list("/d/a-0") if n.endswith(suffix)]


@contextlib.asynccontextmanager
async def broker() -> AsyncIterator[Broker]:
    files, clock = InstantFiles(), VirtualClock()
    logs = LogManager(files, clock, ManualWorkers(), LogManagerConfig(log_dirs=("/d",)))
    async with asyncio.TaskGroup() as tasks:
        await logs.start(tasks)
        yield Broker(logs, files, clock)
        await logs.shutdown()


async def test_expired_segments_go_after_the_delays() -> None:
    async with broker() as node:
        node.fill(KEPT_MS + 1, KEPT_MS - 20_000, 0)
        await node.clock.advance(29_999)
        assert node.log.segments.base_offsets == [0, 1, 2]
        await node.clock.advance(1)  # log.initial.task.delay.ms
        assert node.log.segments.base_offsets == [2]
        assert node.log.log_start_offset == 2
        assert node.names(".log") == [2]
        assert node.names(".log.deleted") == [0, 1]
        assert node.names(".timeindex.deleted") == [0, 1]
        await node.clock.advance(5_000)
        assert node.names(".deleted") == []
        with pytest.raises(KafkaError) as caught:
            node.log.read(1, 1000, EVERYTHING, True)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        node.fill(KEPT_MS + 1)
        await node.clock.advance(5 * 60_000 - 5_001)
        assert node.log.log_start_offset == 2
        await node.clock.advance(1)  # log.retention.check.interval.ms
        assert node.log.log_start_offset == 4


async def test_all_of_an_idle_log_goes_and_its_offsets_go_on() -> None:
    async with broker() as node:
        node.fill(KEPT_MS + 1, KEPT_MS + 1)
        await node.logs.background_tasks.retain()
        await node.clock.settle()
        assert node.names(".log") == [2]
        assert (node.log.log_start_offset, node.log.log_end_offset) == (2, 2)
        assert await node.logs.background_tasks.retain() == 0
        node.fill(0)
        assert len(values_of(node.log)) == 1
        assert node.log.log_end_offset == 3


async def test_nothing_beyond_the_high_watermark_goes() -> None:
    async with broker() as node:
        node.fill(KEPT_MS + 1, KEPT_MS + 1, KEPT_MS + 1)
        node.mark = 1
        assert await node.logs.background_tasks.retain() == 1
        assert node.log.log_start_offset == 1


async def test_records_without_a_time_are_as_old_as_their_file() -> None:
    async with broker() as node:
        node.files.set_wall_ms(node.clock.wall_ms())
        for _ in range(2):
            node.log.append_as_leader(bytearray(batch(bytes(100), at_ms=-1)), 0, 0)
        await node.clock.advance(KEPT_MS)
        assert node.log.log_start_offset == 0
        await node.clock.advance(1)
        assert await node.logs.background_tasks.retain() == 2


async def test_new_settings_count_at_once() -> None:
    async with broker() as node:
        node.fill(0, 0, 0)
        assert await node.logs.background_tasks.retain() == 0
        node.log.config = replace(SMALL, retention_bytes=node.log.size_bytes // 3)
        assert await node.logs.background_tasks.retain() == 2


async def test_a_reader_of_a_deleted_segment_reads_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker() as node:
        node.fill(KEPT_MS + 1, 0)
        dead = node.log.segments.first
        assert dead is not None
        await node.logs.background_tasks.retain()
        await node.clock.settle()
        assert node.log.segments.first is not dead
        assert len(await dead.read_cold(1000, 0)) == dead.size_bytes
        assert dead.find(0) is not None
        await dead.flush()
        assert node.names(".index.deleted") == [0]
        assert node.names(".index") == []


async def test_renamed_segments_are_removed_at_the_next_start() -> None:
    async with broker() as node:
        node.fill(KEPT_MS + 1, 0)
        await node.logs.background_tasks.retain()
        await node.clock.settle()
        assert node.names(".log.deleted") == [0]
    again = LogManager(node.files, node.clock, ManualWorkers(), LogManagerConfig(log_dirs=("/d",)))
    await again.start()
    assert node.names(".deleted") == []
    log = again.logs()[A]
    assert (log.log_start_offset, log.log_end_offset) == (1, 2)
    again.close()


async def test_a_log_is_flushed_when_its_time_has_come() -> None:
    files, clock = InstantFiles(), VirtualClock()
    config = LogManagerConfig(
        log_dirs=("/d",), log_initial_task_delay_ms=0, log_flush_scheduler_interval_ms=1000
    )
    logs = LogManager(files, clock, ManualWorkers(), config)
    async with asyncio.TaskGroup() as tasks:
        await logs.start(tasks)
        log = logs.get_or_create(A, ID, LogConfig(flush_ms=2500))
        await clock.advance(100)
        log.append_as_leader(bytearray(batch(b"x", at_ms=WALL_START_MS)), 0, 0)
        await clock.advance(2_800)
        assert log.recovery_point == 0
        await clock.advance(100)
        assert log.recovery_point == 1
        await logs.shutdown()


async def test_flushes_of_one_log_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker() as node:
        log = node.log
        count = 0
        real = log.flush

        async def counted(before_offset: int | None = None) -> None:
            nonlocal count
            count += 1
            await real(before_offset)
            for _ in range(5):
                await asyncio.sleep(0)

        monkeypatch.setattr(log, "flush", counted)
        log.config = replace(log.config, flush_messages=1)
        node.fill(0)
        assert log.flush_due
        first = asyncio.create_task(node.logs.flush([log]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting = []
        for _ in range(5):
            node.fill(0)
            waiting.append(asyncio.create_task(node.logs.flush([log])))
        await asyncio.gather(first, *waiting)
        assert count == 2
        assert log.recovery_point == 6
        assert not log.flush_due


def test_segments_roll_at_different_ages() -> None:
    paths = [f"/d/t-{n}" for n in range(50)]
    config = LogConfig(segment_ms=1000, segment_jitter_ms=400)
    files = InstantFiles()
    jitters = set()
    for path in paths:
        files.make_directories(path)
        log = UnifiedLog(files, path, A, config)
        log.append_as_leader(bytearray(batch(b"a", at_ms=0)), 0, 0)
        active = log.segments.active
        assert active is not None
        jitter = active.roll_jitter_ms
        assert 0 <= jitter < 400
        jitters.add(jitter)
        log.append_as_leader(bytearray(batch(b"b", at_ms=1000 - jitter)), 0, 0)
        assert len(log.segments) == 1
        log.append_as_leader(bytearray(batch(b"c", at_ms=1001 - jitter)), 0, 0)
        assert len(log.segments) == 2
    assert len(jitters) > 30
