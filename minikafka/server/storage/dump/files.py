"""Reads the files of a log entry by entry, and looks up each index entry in the ``.log`` file."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

from minikafka.core.log import aborted_txn
from minikafka.core.log.aborted_txn import AbortedTxn
from minikafka.core.log.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of,
)
from minikafka.core.log.producer_snapshot import decode_snapshot
from minikafka.core.log.producer_state import ProducerEntry
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.ports import File, Files
from minikafka.protocol.records.batch import RecordBatch, crc_is_valid
from minikafka.server.storage.log.batch_scan import FoundBatch, scan
from minikafka.server.storage.log.indexes import OFFSET_ENTRY, TIME_ENTRY


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
    whole = memoryview(data)[: len(data) // aborted_txn.ENTRY_BYTES * aborted_txn.ENTRY_BYTES]
    for version, *fields in aborted_txn.ENTRY.iter_unpack(whole):
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
    if size % aborted_txn.ENTRY_BYTES:
        return f"found {size} bytes, which are not a multiple of {aborted_txn.ENTRY_BYTES}"
    for version, txn in rows:
        if version > aborted_txn.VERSION:
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
