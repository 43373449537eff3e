"""The log alone, in this process: appends, reads, look-ups, recovery, many partitions."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import structlog

from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.records.builder import build_batch
from minikafka.server.storage.directories.log_manager import LogManager, LogManagerConfig
from minikafka.server.storage.log.unified_log import LogConfig, UnifiedLog
from minikafka.world.real.clock import RealClock
from minikafka.world.real.files import RealFiles
from minikafka.world.real.workers import RealWorkers
from scripts.lib.bench import compaction
from scripts.lib.bench.report import Report

KB, MB = 1024, 1024 * 1024
SIZES = ((KB, 24 * MB), (16 * KB, 192 * MB), (MB, 256 * MB))  # of a batch, of a round
ROUNDS = 5
SEGMENTS = 10_000
LOOKUPS = 20_000
PARTITIONS = 10_000
RECOVERED_BYTES = 512 * MB
NOW = 1_700_000_000_000


def run(report: Report) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    with tempfile.TemporaryDirectory(prefix="bench-log-") as home:
        report.section("log in the page cache (MB/s; probe: pwrite and pread of the same bytes)")
        for size, total in SIZES:
            append_and_read(report, Path(home), size, total)
        report.section("a log of 10,000 segments (µs)")
        lookups(report, Path(home))
        report.section("recovery after a crash (MB/s, s per GB; probe: pread and CRC-32C)")
        for size in (KB, 16 * KB, MB):
            recovery(report, Path(home), size)
        compaction.rows(report, Path(home))
        report.section("opening 10,000 idle partitions")
        for filled in (False, True):
            partitions(report, Path(home), filled)


def make_batch(size: int, **fields: Any) -> bytearray:
    """A batch of ``size`` bytes in all, with one record."""
    shell = len(build_batch([(NOW, None, bytes(size // 2), [])]))
    value = random.Random(size).randbytes(size - (shell - size // 2))
    while len(data := build_batch([(NOW, None, value, [])], **fields)) > size:
        value = value[:-1]
    return bytearray(data)


@contextmanager
def opened(home: Path, config: LogConfig | None = None, name: str = "t") -> Iterator[UnifiedLog]:
    """A new log, deleted afterwards."""
    manager = new_manager(home / name, config)
    asyncio.run(manager.start())
    try:
        yield manager.get_or_create(TopicPartition(name, 0), None, config or LogConfig())
    finally:
        manager.close()
        shutil.rmtree(home / name)


def new_manager(home: Path, config: LogConfig | None = None) -> LogManager:
    settings = LogManagerConfig((str(home),), log=config or LogConfig())
    return LogManager(RealFiles(), RealClock(), RealWorkers(), settings)


def seconds(work: Callable[[], object]) -> float:
    gc.collect()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


# ---- appends and reads


def append_and_read(report: Report, home: Path, size: int, total: int) -> None:
    """Ours and the probe take turns; of each the best round counts."""
    batch = make_batch(size)
    count = total // len(batch)
    times: dict[str, list[float]] = {"append": [], "pwrite": [], "read": [], "pread": []}
    for _ in range(ROUNDS):
        probe = home / "probe"
        fd = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        times["pwrite"].append(seconds(partial(lambda fd: write_all(fd, batch, count), fd)))
        times["pread"].append(seconds(partial(lambda fd: read_all(fd, len(batch), count), fd)))
        os.close(fd)
        probe.unlink()
        with opened(home) as log:
            times["append"].append(seconds(partial(lambda log: append_all(log, batch, count), log)))
            times["read"].append(seconds(partial(lambda log: consume(log, len(batch)), log)))
    speed = {name: count * len(batch) / 1e6 / min(taken) for name, taken in times.items()}
    label = f"{size // KB} KB" if size < MB else f"{size // MB} MB"
    aim = 0.7 if size == 16 * KB else None
    report.row(f"append, {label} batches", "MB/s", speed["append"], speed["pwrite"], aim)
    report.row(f"read, {label} at a time", "MB/s", speed["read"], speed["pread"])


def write_all(fd: int, batch: bytearray, count: int) -> None:
    size = len(batch)
    for number in range(count):
        os.pwrite(fd, batch, number * size)


def read_all(fd: int, size: int, count: int) -> None:
    for number in range(count):
        os.pread(fd, size, number * size)


def append_all(log: UnifiedLog, batch: bytearray, count: int) -> None:
    unstamped = bytes(8)
    for _ in range(count):
        batch[:8] = unstamped
        log.append_as_leader(batch, 0, NOW)


def consume(log: UnifiedLog, size: int) -> None:
    end, offset = log.log_end_offset, 0
    while offset < end:
        log.read(offset, size, end, True)
        offset += 1  # every batch holds one record


# ---- look-ups


def lookups(report: Report, home: Path) -> None:
    """Random offsets and times in many segments, the first touch of each index apart."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * SEGMENTS
    if hard < wanted:
        print(f"  left out: {wanted} open files wanted, {hard} allowed")
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    batch = make_batch(256)
    config = LogConfig(segment_bytes=16 * len(batch), index_interval_bytes=len(batch))
    dice = random.Random(1)
    with opened(home, config) as log:
        append_all(log, batch, SEGMENTS * 16)
        assert len(log.segments) == SEGMENTS
        report.row("open files", "each segment", open_files() / SEGMENTS)
        offsets = [dice.randrange(log.log_end_offset) for _ in range(LOOKUPS)]
        for name in ("first touch", "again"):
            taken = seconds(lambda: [log.read(o, 1, log.log_end_offset, True) for o in offsets])
            report.row(f"read one batch at a random offset, {name}", "µs", taken / LOOKUPS * 1e6)
        places = [(s, s.base_offset + dice.randrange(16)) for s in log.segments]
        taken = seconds(lambda: [s.offset_index.lookup(o) for s, o in places])
        report.row("offset index", "µs", taken / len(places) * 1e6)
        taken = seconds(lambda: [log.offset_by_timestamp(NOW, o + 1) for o in offsets[:200]])
        report.row("offset by time, the oldest", "µs", taken / 200 * 1e6)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


# ---- recovery


def recovery(report: Report, home: Path, size: int) -> None:
    """A log as a killed broker leaves it: read again from its start, indexes rebuilt."""
    from crc32c import crc32c

    directory = home / "t"
    config = LogConfig(segment_bytes=128 * MB)
    manager = new_manager(directory, config)
    asyncio.run(manager.start())
    log = manager.get_or_create(TopicPartition("t", 0), None, config)
    batch = make_batch(size)
    append_all(log, batch, RECOVERED_BYTES // len(batch))
    end, total = log.log_end_offset, log.size_bytes
    paths = [segment.path for segment in log.segments]
    manager.close()
    ours, bare = [], []
    for _ in range(2):
        again = new_manager(directory, config)
        ours.append(seconds(partial(lambda again: asyncio.run(again.start()), again)))
        recovered = again.get(TopicPartition("t", 0))
        assert recovered is not None
        assert recovered.log_end_offset == end
        again.close()
        bare.append(seconds(lambda: checksum_all(paths, crc32c)))
    shutil.rmtree(directory)
    label = f"{size // KB} KB" if size < MB else f"{size // MB} MB"
    speed = total / 1e6 / min(ours)
    report.row(f"recovery, {label} batches", "MB/s", speed, total / 1e6 / min(bare))
    report.row(f"recovery, {label} batches", "s per GB", min(ours) / total * 1e9)


def checksum_all(paths: Iterable[str], crc32c: Callable[[bytes], int]) -> None:
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while data := file.read(MB):
                crc32c(data)


# ---- many partitions


def partitions(report: Report, home: Path, filled: bool) -> None:
    """Logs that were shut down in order: without any record, and with one segment."""
    directory = home / "many"
    manager = new_manager(directory)
    asyncio.run(manager.start())
    batch = make_batch(KB)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    for number in range(PARTITIONS):
        log = manager.get_or_create(TopicPartition("t", number), None, LogConfig())
        if filled:
            append_all(log, batch, 1)
    asyncio.run(manager.shutdown())
    del manager, log
    gc.collect()
    again = new_manager(directory)
    files, memory = open_files(), psutil.Process().memory_info().rss
    taken = seconds(lambda: asyncio.run(again.start()))
    assert len(again.logs()) == PARTITIONS
    kind = "one segment each" if filled else "never written to"
    report.row(f"{kind}, start", "s", taken, aim=5, smaller_is_better=True)
    report.row(f"{kind}, open files", "each", (open_files() - files) / PARTITIONS)
    grown = psutil.Process().memory_info().rss - memory
    report.row(f"{kind}, memory", "bytes each", grown / PARTITIONS)
    again.close()
    shutil.rmtree(directory)
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
