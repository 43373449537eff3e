"""What is in a file of a log, row by row and as the lines that Kafka's DumpLogSegments prints."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

from minikafka.core.log.producer_snapshot import CorruptSnapshotError, decode_snapshot
from minikafka.core.log.producer_state import ProducerEntry
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.ports import File, Files
from minikafka.protocol.records.batch import RecordBatch, crc_is_valid, increment_sequence
from minikafka.protocol.records.control import decode_end_txn_marker
from minikafka.protocol.records.record import Record, decode_batch
from minikafka.storage import offset_index, time_index
from minikafka.storage.batch_scan import scan
from minikafka.storage.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    offset_of,
)

_RECORD_INDENT: Final = "|"


class BatchRow(NamedTuple):
    """A batch at ``position`` of the file; ``batch`` is there with its records."""

    position: int
    batch: RecordBatch
    crc_valid: bool


class TrailingBytes(NamedTuple):
    """What follows the last batch and is none."""

    byte_count: int
    reason: str


class IndexRow(NamedTuple):
    """``found`` is the last offset of the batch at ``position``; None when there is no batch."""

    offset: int
    position: int
    found: int | None


class TimeIndexRow(NamedTuple):
    """``found`` is the largest timestamp (ms) of the batch that ends at ``offset``, or None."""

    timestamp: int
    offset: int
    found: int | None


def batches(files: Files, path: str) -> Iterator[BatchRow | TrailingBytes]:
    """The batches of a ``.log`` file, and what is left over. Raises OSError."""
    file = files.open(path)
    try:
        size = file.size()
        position = 0
        try:
            for found in scan(file, 0, size, whole=True):
                yield BatchRow(found.position, found.batch, crc_is_valid(found.batch))
                position = found.end_position
        except KafkaError as error:
            yield TrailingBytes(size - position, str(error.message))
    finally:
        file.close()


def offset_index_entries(files: Files, path: str) -> Iterator[IndexRow]:
    """The entries of an ``.index`` file, each looked up in the log beside it. Raises OSError."""
    base_offset = _base_offset(path, INDEX_SUFFIX)
    log = files.open(path.removesuffix(INDEX_SUFFIX) + LOG_SUFFIX)
    try:
        for relative, position in _entries(files, path, offset_index.ENTRY, offset_field=0):
            batch = _batch_at(log, position)
            yield IndexRow(base_offset + relative, position, batch and batch.last_offset)
    finally:
        log.close()


def time_index_entries(files: Files, path: str) -> Iterator[TimeIndexRow]:
    """The entries of a ``.timeindex`` file, each looked up in the log beside it. Raises OSError."""
    base_offset = _base_offset(path, TIME_INDEX_SUFFIX)
    log_path = path.removesuffix(TIME_INDEX_SUFFIX) + LOG_SUFFIX
    entries = list(_entries(files, path, time_index.ENTRY, offset_field=1))
    wanted = {base_offset + relative for _, relative in entries}
    latest = {
        row.batch.last_offset: row.batch.max_timestamp
        for row in batches(files, log_path)
        if isinstance(row, BatchRow) and row.batch.last_offset in wanted
    }
    for timestamp, relative in entries:
        offset = base_offset + relative
        yield TimeIndexRow(timestamp, offset, latest.get(offset))


def producers(files: Files, path: str) -> list[ProducerEntry]:
    """The entries of a ``.snapshot`` file. Raises OSError, CorruptSnapshotError."""
    return decode_snapshot(files.read_all(path))


def _base_offset(path: str, suffix: str) -> int:
    offset = offset_of(path.rpartition("/")[2], suffix)
    if offset is None:
        raise ValueError(f"{path} is not named after an offset")
    return offset


def _entries(files: Files, path: str, entry: Struct, offset_field: int) -> Iterator[Any]:
    """Kafka preallocates index files: after the first entry, zeros are room and no entry."""
    data = files.read_all(path)
    whole = memoryview(data)[: len(data) // entry.size * entry.size]
    for number, fields in enumerate(entry.iter_unpack(whole)):
        if number > 0 and fields[offset_field] == 0:
            return
        yield fields


def _batch_at(log: File, position: int) -> RecordBatch | None:
    try:
        found = next(scan(log, position, log.size()), None)
    except KafkaError:
        return None
    return found and found.batch


# ---- as text


def lines(files: Files, path: str, *, records: bool, contents: bool) -> Iterator[str]:
    """What a file holds, by the suffix of its name: ``.log`` (with ``records`` one line for each
    of them too, with ``contents`` their keys and values), ``.index``, ``.timeindex``,
    ``.snapshot``. Raises OSError; ValueError for a file of another name."""
    if path.endswith(TIME_INDEX_SUFFIX):
        for time_row in time_index_entries(files, path):
            yield f"timestamp: {time_row.timestamp} offset: {time_row.offset}" + _mismatch(
                time_row.timestamp, time_row.found
            )
    elif path.endswith(INDEX_SUFFIX):
        for row in offset_index_entries(files, path):
            yield f"offset: {row.offset} position: {row.position}" + _mismatch(
                row.offset, row.found
            )
    elif path.endswith(SNAPSHOT_SUFFIX):
        yield from _snapshot_lines(files, path)
    elif path.endswith(LOG_SUFFIX):
        yield from _log_lines(files, path, records or contents, contents)
    else:
        raise ValueError(f"{path} is no file of a log that can be dumped")


def _mismatch(indexed: int, found: int | None) -> str:
    return "" if indexed == found else f" MISMATCH: the log has {found}"


def _snapshot_lines(files: Files, path: str) -> Iterator[str]:
    try:
        entries = producers(files, path)
    except CorruptSnapshotError as error:
        yield str(error)
        return
    for entry in entries:
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
            f"coordinatorEpoch: {entry.coordinator_epoch} "
            f"currentTxnFirstOffset: {_optional(entry.current_txn_first_offset)} "
            f"lastTimestamp: {entry.last_timestamp} "
        )
        for batch in entry.batches:
            line += (
                f"firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} "
                f"lastOffset: {batch.last_offset} offsetDelta: {batch.offset_delta} "
                f"timestamp: {batch.timestamp}"
            )
        yield line


def _log_lines(files: Files, path: str, records: bool, contents: bool) -> Iterator[str]:
    yield f"Log starting offset: {_base_offset(path, LOG_SUFFIX)}"
    for row in batches(files, path):
        if isinstance(row, TrailingBytes):
            name = path.rpartition("/")[2]
            yield f"Found {row.byte_count} invalid bytes at the end of {name} ({row.reason})"
            continue
        yield _batch_line(row)
        if records:
            try:
                for record in decode_batch(row.batch):
                    yield _record_line(row.batch, record, contents)
            except KafkaError as error:
                yield f"{_RECORD_INDENT} {error}"


def _batch_line(row: BatchRow) -> str:
    batch = row.batch
    horizon = batch.base_timestamp if batch.has_delete_horizon else -1
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} "
        f"count: {batch.record_count} baseSequence: {batch.base_sequence} "
        f"lastSequence: {batch.last_sequence} producerId: {batch.producer_id} "
        f"producerEpoch: {batch.producer_epoch} "
        f"partitionLeaderEpoch: {batch.partition_leader_epoch} "
        f"isTransactional: {_boolean(batch.is_transactional)} "
        f"isControl: {_boolean(batch.is_control)} deleteHorizonMs: {_optional(horizon)} "
        f"position: {row.position} {_time_name(batch)}: {batch.max_timestamp} "
        f"size: {batch.size_bytes} magic: {batch.magic} compresscodec: {_codec(batch)} "
        f"crc: {batch.crc} isvalid: {_boolean(row.crc_valid)}"
    )


def _record_line(batch: RecordBatch, record: Record, contents: bool) -> str:
    sequence = batch.base_sequence
    if sequence >= 0:
        sequence = increment_sequence(sequence, record.offset - batch.base_offset)
    line = (
        f"{_RECORD_INDENT} offset: {record.offset} {_time_name(batch)}: {record.timestamp} "
        f"keySize: {_size(record.key)} valueSize: {_size(record.value)} sequence: {sequence} "
        f"headerKeys: [{','.join(name for name, _ in record.headers)}]"
    )
    if batch.is_control:
        marker = decode_end_txn_marker(record)
        if marker is not None:
            line += (
                f" endTxnMarker: {marker.type.name} coordinatorEpoch: {marker.coordinator_epoch}"
            )
    elif contents:
        if record.key is not None:
            line += f" key: {record.key.decode(errors='replace')}"
        if record.value is not None:
            line += f" payload: {record.value.decode(errors='replace')}"
    return line


def _time_name(batch: RecordBatch) -> str:
    return "LogAppendTime" if batch.timestamp_type_log_append else "CreateTime"


def _codec(batch: RecordBatch) -> str:
    try:
        return batch.compression.name.lower()
    except KafkaError:
        return "unknown"


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _optional(value: int) -> str:
    """As Java prints an OptionalLong; below 0 means none."""
    return f"OptionalLong[{value}]" if value >= 0 else "OptionalLong.empty"
