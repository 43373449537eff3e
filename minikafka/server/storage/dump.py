"""Reads the files of a log entry by entry, formats them as Kafka's ``DumpLogSegments`` does, and
lists the faults found. Each index entry is looked up in the ``.log`` file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from minikafka.core.log.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of,
)
from minikafka.core.log.open_transactions import ENTRY, ENTRY_BYTES, VERSION, AbortedTxn
from minikafka.core.log.producer_snapshot import CorruptSnapshotError, decode_snapshot
from minikafka.core.log.producer_state import ProducerEntry
from minikafka.core.log.small_files import (
    LEADER_EPOCH,
    PARTITION_METADATA,
    CheckpointError,
    decode_epochs,
    decode_offsets,
)
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import File, Files
from minikafka.protocol.buffer import DecodeError
from minikafka.protocol.internal_topics import (
    OFFSETS_RECORDS,
    SHARE_STATE_RECORDS,
    TRANSACTION_STATES,
    RecordTypes,
    UnknownRecordType,
    coordinator_record,
)
from minikafka.protocol.messages.transaction_log import TransactionLogKey, TransactionLogValue
from minikafka.protocol.records.batch import (
    NO_TIMESTAMP,
    CorruptRecordError,
    RecordBatch,
    crc_is_valid,
    increment_sequence,
)
from minikafka.protocol.records.control import decode_end_txn_marker
from minikafka.protocol.records.record import Record, decode_batch, decode_plainly
from minikafka.protocol.versioned import decode_versioned, version_of
from minikafka.server.storage.log.batch_scan import FoundBatch, scan
from minikafka.server.storage.log.indexes import OFFSET_ENTRY, TIME_ENTRY

Shown: TypeAlias = tuple[str | None, str | None]  # key and payload as text; None is not printed
RecordDecoder: TypeAlias = Callable[[Record], Shown]

_DELETED: Final = "<DELETE>"


def decode_text(record: Record) -> Shown:
    return _text(record.key), _text(record.value)


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")


def decode_offsets_record(record: Record) -> Shown:
    """Decode a record of ``__consumer_offsets``. Kafka: ``OffsetsMessageParser``."""
    return _decode_coordinator_record(record, OFFSETS_RECORDS)


def decode_share_state_record(record: Record) -> Shown:
    """Decode a record of ``__share_group_state``. Kafka: ``ShareGroupStateMessageParser``."""
    return _decode_coordinator_record(record, SHARE_STATE_RECORDS)


def _decode_coordinator_record(record: Record, types: RecordTypes) -> Shown:
    at = f"at offset {record.offset}, skipping."
    if record.key is None:
        return f"Error {at} The message has no key.", None
    try:
        key, value = coordinator_record(types, record.key, record.value)
    except UnknownRecordType as unknown:
        return f"Unknown record type {unknown.kind} {at}", None
    except DecodeError as error:
        return f"Error {at} {error}", None
    return _json(key), _DELETED if value is None else _json(value)


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def decode_transaction_record(record: Record) -> Shown:
    """Decode a record of ``__transaction_state``.

    Kafka: ``TransactionLog.formatRecordKeyAndValue``."""
    at = f"at offset {record.offset}, skipping."
    if record.key is None:
        return f"Error {at} The message has no key.", None
    try:
        version = version_of(record.key)
        if not TransactionLogKey.SPEC.versions.has(version):
            return f"unknown::version={version}", None
        key, _ = decode_versioned(TransactionLogKey, record.key)
        shown = f"transaction_metadata::transactionalId={key.transactional_id}"
        if record.value is None:
            return shown, _DELETED
        value, _ = decode_versioned(TransactionLogValue, record.value)
    except DecodeError as error:
        return f"Error {at} {error}", None
    status = value.transaction_status
    known = 0 <= status < len(TRANSACTION_STATES)
    partitions = [
        f"{group.topic}-{partition}"
        for group in value.transaction_partitions or ()
        for partition in group.partition_ids
    ]
    return shown, (
        f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},"
        f"state={TRANSACTION_STATES[status] if known else status},"
        f"partitions=[{','.join(partitions)}],"
        f"txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={value.transaction_timeout_ms}"
    )


_OFFSETS_CHECKPOINT: Final = "-offset-checkpoint"
_RECORD_INDENT: Final = "|"


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """The options of ``dump-log``.

    ``deep`` prints a line for each record. ``contents`` adds its key and payload, as returned by
    ``decode``; without ``record_metadata`` the line has nothing else. For indexes, ``verify_only``
    prints only mismatches with the log, and ``sanity_only`` only whether a broker would accept
    them. ``max_bytes`` limits how much of a ``.log`` file is printed."""

    deep: bool = False
    contents: bool = False
    decode: RecordDecoder = decode_text
    verify_only: bool = False
    sanity_only: bool = False
    record_metadata: bool = True
    max_bytes: int | None = None


class LogDump:
    """Dumps files one after the other, and collects their faults in ``findings``.

    The caller prints ``findings`` at the end, as Kafka does: a headline for each file and kind of
    fault, then one line for each place."""

    def __init__(self, files: Files, options: DumpOptions) -> None:
        self.findings: dict[str, list[str]] = {}
        self._files = files
        self._options = options

    def lines(self, path: str) -> Iterator[str]:
        """Yield the lines for a file, whose name tells its kind. Raises OSError, UnknownFile.

        Kafka's tool does not support checkpoint files."""
        name = path.rpartition("/")[2]
        dumps: list[tuple[str, Callable[[str], Iterator[str]]]] = [
            (LOG_SUFFIX, self._log),
            (TIME_INDEX_SUFFIX, self._time_index),
            (TXN_INDEX_SUFFIX, self._txn_index),
            (INDEX_SUFFIX, self._offset_index),
            (SNAPSHOT_SUFFIX, self._snapshot),
            (LEADER_EPOCH, self._epochs),
            (_OFFSETS_CHECKPOINT, self._offsets),
            (PARTITION_METADATA, self._text),
        ]
        for suffix, dumped in dumps:
            if name.endswith(suffix):
                return dumped(path)
        raise UnknownFile(f"{path} is not a file of a log that can be dumped")

    def _find(self, headline: str, line: str) -> None:
        self.findings.setdefault(headline, []).append(f"  {line}")

    # ---- the log

    def _log(self, path: str) -> Iterator[str]:
        options = self._options
        yield f"Log starting offset: {base_offset_of(path, LOG_SUFFIX)}"
        before = -1
        for row in batches(self._files, path, options.max_bytes):
            if isinstance(row, TrailingBytes):
                name = path.rpartition("/")[2]
                yield f"Found {row.byte_count} invalid bytes at the end of {name}"
                self._find(f"Invalid bytes in {path}", row.reason)
                continue
            yield _batch_line(row)
            if options.deep:
                try:
                    for record in _records(row.batch):
                        if before not in (-1, record.offset - 1):
                            self._find(
                                f"Non-consecutive offsets in {path}",
                                f"{before} is followed by {record.offset}",
                            )
                        before = record.offset
                        yield self._record(row.batch, record)
                except KafkaError as error:
                    yield f"{_RECORD_INDENT} {error}"

    def _record(self, batch: RecordBatch, record: Record) -> str:
        parts = [_record_line(batch, record)] if self._options.record_metadata else []
        if self._options.contents and not batch.is_control:
            key, payload = self._options.decode(record)
            if key is not None:
                parts.append(f"key: {key}")
            if payload is not None:
                parts.append(f"payload: {payload}")
        return " ".join([_RECORD_INDENT, *parts])

    # ---- indexes

    def _sane(self, path: str) -> Iterator[str]:
        problem = index_problem(self._files, path)
        if problem is None:
            yield f"{path} passed sanity check."
        else:
            self._find(f"Corrupt index found, index file {path}", problem)

    def _offset_index(self, path: str) -> Iterator[str]:
        if self._files.size(path) == 0:
            yield f"{path} is empty."
            return
        if self._options.sanity_only:
            yield from self._sane(path)
            return
        for row in offset_index_entries(self._files, path):
            if row.found != row.offset:
                found = "none" if row.found is None else row.found
                self._find(
                    f"Mismatches in :{path}", f"Index offset: {row.offset}, log offset: {found}"
                )
            if not self._options.verify_only:
                yield f"offset: {row.offset} position: {row.position}"

    def _time_index(self, path: str) -> Iterator[str]:
        if self._options.sanity_only:
            yield from self._sane(path)
            return
        before = NO_TIMESTAMP
        for row in time_index_entries(self._files, path):
            self._check_time(path, row, before)
            if not self._options.verify_only:
                yield f"timestamp: {row.timestamp} offset: {row.offset}"
            before = row.timestamp

    def _check_time(self, path: str, row: TimeIndexRow, before: int) -> None:
        if row.found is None or row.found.last_offset != row.offset:
            found = -1 if row.found is None else row.found.last_offset
            self._find(
                "The following indexed offsets are not found in the log.",
                f"Indexed offset: {row.offset}, found log offset: {found}",
            )
            return
        if row.found.max_timestamp != row.timestamp:
            self._find(
                f"Found timestamp mismatch in :{path}",
                f"Index timestamp: {row.timestamp}, log timestamp: {row.found.max_timestamp}",
            )
        if before >= row.timestamp:
            self._find(
                f"Found out of order timestamp in :{path}",
                f"Index timestamp: {row.timestamp}, Previously indexed timestamp: {before}",
            )

    def _txn_index(self, path: str) -> Iterator[str]:
        if self._options.sanity_only:
            yield from self._sane(path)
            return
        for version, txn in aborted_transactions(self._files, path):
            yield (
                f"version: {version} producerId: {txn.producer_id} "
                f"firstOffset: {txn.first_offset} lastOffset: {txn.last_offset} "
                f"lastStableOffset: {txn.last_stable_offset}"
            )

    # ---- small files

    def _snapshot(self, path: str) -> Iterator[str]:
        try:
            entries = producers(self._files, path)
        except CorruptSnapshotError as error:
            self._find(f"Corrupt snapshot {path}", str(error))
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

    def _epochs(self, path: str) -> Iterator[str]:
        try:
            for entry in decode_epochs(self._files.read_all(path)):
                yield f"epoch: {entry.epoch} startOffset: {entry.start_offset}"
        except CheckpointError as error:
            self._find(f"Malformed checkpoint {path}", str(error))

    def _offsets(self, path: str) -> Iterator[str]:
        try:
            for (topic, partition), offset in decode_offsets(self._files.read_all(path)).items():
                yield f"topic: {topic} partition: {partition} offset: {offset}"
        except CheckpointError as error:
            self._find(f"Malformed checkpoint {path}", str(error))

    def _text(self, path: str) -> Iterator[str]:
        yield from self._files.read_all(path).decode(errors="replace").splitlines()


def _records(batch: RecordBatch) -> Iterator[Record]:
    """Return the records of a batch; those before the first malformed one if it has any."""
    try:
        return decode_batch(batch)
    except CorruptRecordError:
        return decode_plainly(batch)


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


def _record_line(batch: RecordBatch, record: Record) -> str:
    sequence = batch.base_sequence
    if sequence >= 0:
        sequence = increment_sequence(sequence, record.offset - batch.base_offset)
    line = (
        f"offset: {record.offset} {_time_name(batch)}: {record.timestamp} "
        f"keySize: {_size(record.key)} valueSize: {_size(record.value)} sequence: {sequence} "
        f"headerKeys: [{','.join(name for name, _ in record.headers)}]"
    )
    if batch.is_control:
        marker = decode_end_txn_marker(record)
        if marker is not None:
            line += (
                f" endTxnMarker: {marker.type.name} coordinatorEpoch: {marker.coordinator_epoch}"
            )
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
    """Format a number as Java prints an OptionalLong; a negative one is empty."""
    return f"OptionalLong[{value}]" if value >= 0 else "OptionalLong.empty"


class UnknownFile(Exception):
    """The name of a file is not the name of any file of a log."""


class BatchRow(NamedTuple):
    """A batch that starts at ``position`` (bytes). The buffer of ``batch`` includes its records."""

    position: int
    batch: RecordBatch
    crc_valid: bool


class TrailingBytes(NamedTuple):
    """The number of bytes after the last valid batch, and why they cannot be read as a batch."""

    byte_count: int
    reason: str


class IndexRow(NamedTuple):
    """An entry of an offset index.

    ``found`` is the last offset of the batch at ``position``, None if no batch starts there."""

    offset: int
    position: int
    found: int | None


class TimeIndexRow(NamedTuple):
    """An entry of a time index. ``found`` is the batch that contains ``offset``, None if none
    does."""

    timestamp: int
    offset: int
    found: RecordBatch | None


def batches(
    files: Files, path: str, max_bytes: int | None = None
) -> Iterator[BatchRow | TrailingBytes]:
    """Yield the batches of a ``.log`` file, then a ``TrailingBytes`` if the rest is not a batch.

    With ``max_bytes``, yield only batches that start in that many bytes. Raises OSError."""
    file = files.open(path)
    try:
        size = file.size()
        stop = size if max_bytes is None else max_bytes
        position = 0
        try:
            for found in scan(file, 0, size, whole=True):
                if found.position >= stop:
                    return
                yield BatchRow(found.position, found.batch, crc_is_valid(found.batch))
                position = found.end_position
        except KafkaError as error:
            yield TrailingBytes(size - position, str(error.message))
    finally:
        file.close()


def offset_index_entries(files: Files, path: str) -> Iterator[IndexRow]:
    """Yield the entries of an ``.index`` file, looked up in its ``.log`` file. Raises OSError."""
    base_offset = base_offset_of(path, INDEX_SUFFIX)
    log = files.open(path.removesuffix(INDEX_SUFFIX) + LOG_SUFFIX)
    try:
        for relative, position in _entries(files, path, OFFSET_ENTRY, offset_field=0):
            batch = _batch_at(log, position)
            yield IndexRow(base_offset + relative, position, batch and batch.last_offset)
    finally:
        log.close()


def time_index_entries(files: Files, path: str) -> Iterator[TimeIndexRow]:
    """Yield the entries of a ``.timeindex`` file, looked up in its ``.log`` file. Raises
    OSError."""
    base_offset = base_offset_of(path, TIME_INDEX_SUFFIX)
    log = files.open(path.removesuffix(TIME_INDEX_SUFFIX) + LOG_SUFFIX)
    try:
        later = scan(log, 0, log.size())
        found = _next(later)
        for timestamp, relative in _entries(files, path, TIME_ENTRY, offset_field=1):
            offset = base_offset + relative
            while found is not None and found.last_offset < offset:
                found = _next(later)
            yield TimeIndexRow(timestamp, offset, found)
    finally:
        log.close()


def aborted_transactions(files: Files, path: str) -> Iterator[tuple[int, AbortedTxn]]:
    """Yield the entries of a ``.txnindex`` file: version and transaction. Raises OSError."""
    base_offset_of(path, TXN_INDEX_SUFFIX)
    data = files.read_all(path)
    whole = memoryview(data)[: len(data) // ENTRY_BYTES * ENTRY_BYTES]
    for version, *fields in ENTRY.iter_unpack(whole):
        yield version, AbortedTxn(*fields)


def producers(files: Files, path: str) -> list[ProducerEntry]:
    """Return the producers in a ``.snapshot`` file. Raises OSError, CorruptSnapshotError."""
    return decode_snapshot(files.read_all(path))


def index_problem(files: Files, path: str) -> str | None:
    """Return why a broker would rebuild this index when it starts, None if it would not. Raises
    OSError."""
    size = files.size(path)
    if path.endswith(TXN_INDEX_SUFFIX):
        base_offset = base_offset_of(path, TXN_INDEX_SUFFIX)
        return _txn_index_problem(base_offset, size, list(aborted_transactions(files, path)))
    if path.endswith(TIME_INDEX_SUFFIX):
        entry, offset_field = TIME_ENTRY, 1
    else:
        entry, offset_field = OFFSET_ENTRY, 0
    keys = list(_entries(files, path, entry, offset_field))
    if size % entry.size:
        return f"found {size} bytes, which are not a multiple of {entry.size}"
    if keys != sorted(keys):
        return "its entries are not in ascending order"
    if keys and keys[-1][offset_field] < 0:
        return "its last offset is less than the base offset"
    return None


def _txn_index_problem(
    base_offset: int, size: int, rows: list[tuple[int, AbortedTxn]]
) -> str | None:
    if size % ENTRY_BYTES:
        return f"found {size} bytes, which are not a multiple of {ENTRY_BYTES}"
    for version, txn in rows:
        if version > VERSION:
            return f"unexpected aborted transaction version {version}"
        if txn.last_offset < base_offset:
            return f"last offset {txn.last_offset} is less than start offset {base_offset}"
    return None


def base_offset_of(path: str, suffix: str) -> int:
    """Return the base offset that the name of a file contains. Raises UnknownFile."""
    offset = offset_of(path.rpartition("/")[2], suffix)
    if offset is None:
        raise UnknownFile(f"{path} is not named after an offset")
    return offset


def _entries(files: Files, path: str, entry: Struct, offset_field: int) -> Iterator[Any]:
    """Yield the fields of each entry of an index file.

    Kafka preallocates index files: after the first entry, an offset of zero means that the rest of
    the file is unused."""
    data = files.read_all(path)
    whole = memoryview(data)[: len(data) // entry.size * entry.size]
    for number, fields in enumerate(entry.iter_unpack(whole)):
        if number > 0 and fields[offset_field] == 0:
            return
        yield fields


def _next(found: Iterator[FoundBatch]) -> RecordBatch | None:
    try:
        following = next(found, None)
    except KafkaError:
        return None
    return following and following.batch


def _batch_at(log: File, position: int) -> RecordBatch | None:
    try:
        found = next(scan(log, position, log.size()), None)
    except KafkaError:
        return None
    return found and found.batch
