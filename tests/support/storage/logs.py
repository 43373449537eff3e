"""Creates, damages and reloads single logs in memory."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.records.batch import RecordBatch, crc_is_valid, parse_batches
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.record import decode_records
from minikafka.server.storage.log.loader import Checkpointed, LogLoader, create_log
from minikafka.server.storage.log.unified_log import LogConfig, LogHome, UnifiedLog
from tests.support.storage.instant_files import InstantFiles
from tests.support.world.recording_log import RecordingLog
from tests.support.world.standing_clock import standing_clock

TP = TopicPartition("t", 0)
DIRECTORY = "/logs/t-0"
NOW = 1_700_000_000_000


def batch(*values: bytes, at_ms: int = NOW, **fields: Any) -> bytes:
    return build_batch([(at_ms, None, value, []) for value in values], **fields)


def new_log(
    files: InstantFiles | None = None, home: LogHome | None = None, **config: Any
) -> UnifiedLog:
    return create_log(files or InstantFiles(), DIRECTORY, TP, None, LogConfig(**config), home)


def load(
    files: InstantFiles,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    **config: Any,
) -> UnifiedLog:
    log = UnifiedLog(files, DIRECTORY, TP, LogConfig(**config))
    found = Checkpointed(clean, recovery_point, log_start_offset)
    run_now(LogLoader(files, log, found, RecordingLog()).load())
    if log.cut_unflushed:
        run_now(log.flush())
    return log


def cut(log: UnifiedLog, offset: int) -> None:
    """Truncate the log and flush, so that the next append is allowed."""
    log.truncate_to(offset)
    run_now(log.flush())


def run_now(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never waits to its end, with or without a running loop."""
    with standing_clock():
        while True:
            try:
                waited_for = work.send(None)
            except StopIteration:
                return
            assert waited_for is None, "this waits for something"


def batches_of(log: UnifiedLog) -> list[RecordBatch]:
    """Return all batches, read as a consumer does. Each must be whole and valid."""
    found: list[RecordBatch] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        records = log.read(offset, 10_000, log.log_end_offset, True).records
        new = parse_batches(records)
        assert new, f"nothing at {offset} of {log.log_end_offset}"
        assert all(crc_is_valid(b) for b in new)
        assert sum(b.size_bytes for b in new) == len(records)
        found += new
        offset = new[-1].next_offset
    return found


def values_of(log: UnifiedLog) -> list[bytes | None]:
    return [r.value for b in batches_of(log) for r in decode_records(bytes(b.view()))]
