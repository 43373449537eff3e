"""Compaction of one log in this process: MB of it a second, and how long the loop is kept busy."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.records.builder import build_batch
from minikafka.server.storage.directories.log_manager import (
    NO_REPLICAS,
    LogManager,
    LogManagerConfig,
)
from minikafka.server.storage.log.unified_log import LogConfig
from minikafka.world.real.clock import RealClock
from minikafka.world.real.files import RealFiles
from minikafka.world.real.loop import run
from minikafka.world.real.workers import RealWorkers
from scripts.lib.bench.report import Report

MB = 1024 * 1024
NOW = 1_700_000_000_000
TP = TopicPartition("compacted", 0)
CONFIG = LogConfig(cleanup_policy="compact", segment_bytes=16 * MB)


class CompactionFigures(NamedTuple):
    """``mb_per_second``: dirty log cleaned, from its first byte read for the map of keys to the
    last segment in its place. ``longest_ms``: for how long at most nobody else had a turn on the
    loop, in CPU time; ``p99_ms``: of 99 % of the turns."""

    mb_per_second: float
    records_per_second: float
    longest_ms: float
    p99_ms: float


def rows(report: Report, home: Path) -> None:
    report.section("compaction (dirty MB/s, in slices on the loop)")
    for label, value_bytes, in_batch in (
        ("1 KB records, one a batch", 1000, 1),
        ("1 KB records, 100 a batch", 1000, 100),
        ("100 B records, 1,000 a batch", 100, 1000),
    ):
        total = 16 * MB if value_bytes < 1000 else 64 * MB
        found = run(compaction(home / label.replace(" ", "-"), total, value_bytes, in_batch))
        report.row(label, "MB/s", found.mb_per_second)
        report.row(label, "records/s", found.records_per_second)
        report.row(f"{label}, 99 % of slices", "CPU ms", found.p99_ms)
        report.row(f"{label}, longest", "CPU ms", found.longest_ms)


async def compaction(
    home: Path,
    total_bytes: int = 64 * MB,
    value_bytes: int = 1000,
    records_in_batch: int = 100,
    keys: int = 5000,
) -> CompactionFigures:
    """Fill a log in ``home`` with ``keys`` written over and over, and clean it once."""
    settings = LogManagerConfig((str(home),), log=CONFIG)
    manager = LogManager(RealFiles(), RealClock(), RealWorkers(), settings)
    await manager.start()
    try:
        log = manager.get_or_create(TP, None, CONFIG)
        dice = random.Random(1)
        value = dice.randbytes(value_bytes)
        while log.size_bytes < total_bytes:
            names = [b"key-%d" % dice.randrange(keys) for _ in range(records_in_batch)]
            data = build_batch([(NOW, name, value, []) for name in names])
            log.append_as_leader(data, 0, NOW)
        await log.flush()
        manager.connect(replace(NO_REPLICAS, stable_offset=lambda _: log.log_end_offset))
        turns: list[float] = []
        watching = asyncio.create_task(_watch(turns))
        await asyncio.sleep(0)
        started = time.perf_counter()
        await manager.cleaner.clean_filthiest()
        seconds = time.perf_counter() - started
        watching.cancel()
        stats = manager.cleaner.stats
        turns.sort()
        return CompactionFigures(
            stats.map_bytes_read / MB / seconds,
            stats.map_records_read / seconds,
            turns[-1] * 1000,
            turns[len(turns) * 99 // 100] * 1000,
        )
    finally:
        manager.close()


async def _watch(turns: list[float]) -> None:
    last = time.process_time()
    while True:
        await asyncio.sleep(0)
        now = time.process_time()
        turns.append(now - last)
        last = now
