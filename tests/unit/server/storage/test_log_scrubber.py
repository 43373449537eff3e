"""The scrubber on files of a real disk."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from minikafka.core.log.config import LogConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.metrics import Metrics
from minikafka.protocol.records.builder import build_batch
from minikafka.server.storage.directories.config import LogManagerConfig
from minikafka.server.storage.directories.log_manager import LogManager
from minikafka.server.storage.log.segment import LogSegment
from minikafka.server.storage.log.unified_log import UnifiedLog
from minikafka.server.storage.scrubber import LogScrubberConfig
from minikafka.world.real.files import RealFiles
from minikafka.world.real.world import RealClock
from tests.support.world.manual_workers import ManualWorkers

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=100)


def manager(path: Path, bytes_per_second: int = 1 << 30) -> LogManager:
    config = LogManagerConfig(
        (str(path),), log=SMALL, scrubber=LogScrubberConfig(bytes_per_second, 1000)
    )
    return LogManager(RealFiles(), RealClock(), ManualWorkers(), config)


def log_of(logs: LogManager, topic_partition: TopicPartition, batches: int = 60) -> UnifiedLog:
    log = logs.get_or_create(topic_partition, None, SMALL)
    for number in range(batches):
        log.append_as_leader(build_batch([(0, b"k", b"%d" % number, ())]), 0, 0)
    return log


def flip(segment: LogSegment, position: int) -> None:
    path = Path(segment.path)
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


@pytest.mark.mission("SAFE-65")
async def test_a_flipped_byte_in_a_sealed_segment_is_found(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    await logs.start()
    a, b = log_of(logs, A), log_of(logs, B)
    metrics = Metrics()
    logs.scrubber.register(metrics)
    await logs.scrubber.scrub_all()
    assert logs.scrubber.damaged() == []
    second = list(b.segments)[1]
    fourth = list(second.batches())[3]
    flip(second, fourth.position + 70)
    with structlog.testing.capture_logs() as events:
        await logs.scrubber.scrub_all()
        await logs.scrubber.scrub_all()
    (found,) = logs.scrubber.damaged()
    assert (found.log, found.segment, found.position) == (b, second, fourth.position)
    assert found.offset == fourth.batch.base_offset
    assert [event["event"] for event in events] == ["batch_damaged"]
    assert metrics.snapshot()["minikafka.log:type=Scrubber,name=DamagedLogCount"] == 1
    assert a.size_bytes > 0
    b.truncate_to(found.offset)
    assert logs.scrubber.damaged() == []
    logs.close()


async def test_the_active_segment_is_not_read(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    await logs.start()
    log = log_of(logs, A)
    assert log.segments.active is not None
    flip(log.segments.active, 70)
    await logs.scrubber.scrub_all()
    assert logs.scrubber.damaged() == []
    sealed = log.size_bytes - log.segments.active.size_bytes
    assert logs.scrubber.facts(0)["bytes_read"] == sealed
    logs.close()


@pytest.mark.mission("SAFE-65")
async def test_a_damaged_first_batch_is_found(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    await logs.start()
    log = log_of(logs, A)
    assert log.segments.first is not None
    flip(log.segments.first, 16)  # the magic
    await logs.scrubber.scrub_all()
    (found,) = logs.scrubber.damaged()
    assert found.offset == 0
    assert "magic" in found.fault
    logs.close()


async def test_a_log_that_is_deleted_during_scrubbing_is_left_alone(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    await logs.start()
    log = log_of(logs, A)
    assert log.segments.first is not None
    flip(log.segments.first, 70)
    await logs.scrubber.scrub_all()
    await logs.delete(A)
    assert logs.scrubber.damaged() == []
    await logs.scrubber.scrub_all()
    logs.close()
