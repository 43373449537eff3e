"""A compacted log as its readers see it, and a cleaner of one log in memory."""

from __future__ import annotations

from typing import Any

from minikafka.core.log.compaction import Throttle, dirt_of
from minikafka.kernel.ports import Clock, Files
from minikafka.protocol.records.batch import RecordBatch, crc_is_valid, parse_batches
from minikafka.protocol.records.control import ControlRecordType, decode_end_txn_marker
from minikafka.protocol.records.record import Record, decode_batch
from minikafka.server.storage.cleaning import CleaningMeans, LogCleaning
from minikafka.server.storage.log.unified_log import UnifiedLog
from minikafka.server.storage.log_facts import log_facts
from tests.support.world.manual_workers import ManualWorkers

NO_RATE = float(2**62)


def batches_up_to(log: UnifiedLog, bound: int) -> list[RecordBatch]:
    """Return all batches below ``bound``, read as a fetch does. Each must be whole and valid."""
    found: list[RecordBatch] = []
    offset = log.log_start_offset
    while offset < bound:
        new = parse_batches(bytes(log.read(offset, 2000, bound, True).records))
        if not new:
            break
        for batch in new:
            assert crc_is_valid(batch)
            assert not found or batch.base_offset > found[-1].last_offset
            found.append(batch)
        offset = found[-1].next_offset
    return found


def committed_records(log: UnifiedLog, bound: int) -> list[Record]:
    """Return the records that a consumer of committed records sees (Kafka: ``CompletedFetch``)."""
    seen: list[Record] = []
    offset = log.log_start_offset
    while offset < bound:
        read = log.read(offset, 2000, bound, True, include_aborted=True)
        coming = sorted(read.aborted, key=lambda txn: txn.first_offset)
        aborted: set[int] = set()
        batches = parse_batches(bytes(read.records))
        if not batches:
            break
        for batch in batches:
            while coming and coming[0].first_offset <= batch.last_offset:
                aborted.add(coming.pop(0).producer_id)
            if batch.is_control:
                if is_abort(batch):
                    aborted.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborted):
                seen += [r for r in decode_batch(batch) if r.offset >= offset]
        offset = batches[-1].next_offset
    return seen


def is_abort(batch: RecordBatch) -> bool:
    record = next(decode_batch(batch), None)
    marker = None if record is None else decode_end_txn_marker(record)
    return marker is not None and marker.type is ControlRecordType.ABORT


def latest(records: list[Record]) -> dict[bytes | None, bytes]:
    """Return the latest value of each key after these records. Deleted keys are left out."""
    table: dict[bytes | None, bytes] = {}
    for record in records:
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table


async def clean(files: Files, clock: Clock, log: UnifiedLog, stable: int, **means: Any) -> int:
    """Clean the log, however few bytes are dirty; return the new first dirty offset."""
    dirt = dirt_of(log_facts(log, stable), log.config, clock.wall_ms())
    fields: dict[str, Any] = {
        "map_bytes": 1 << 20,
        "load_factor": 0.9,
        "buffer_bytes": 4096,
        "throttle": Throttle(NO_RATE, clock.monotonic_ms()),
    }
    cleaning = LogCleaning(
        files,
        clock,
        log,
        dirt,
        CleaningMeans(**(fields | means)),
        lambda: not log.closed,
        ManualWorkers(),
    )
    log.cleaned_offset = await cleaning.run()
    return log.cleaned_offset
