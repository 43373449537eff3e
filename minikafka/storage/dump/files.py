"""Read the files of a log row by row, and compare each row with the file it must agree with."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

from minikafka.core.log import aborted_txn
from minikafka.core.log.aborted_txn import AbortedTxn
from minikafka.core.log.producer_snapshot import decode_snapshot
from minikafka.core.log.producer_state import ProducerEntry
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.ports import File, Files
from minikafka.protocol.records.batch import RecordBatch, crc_is_valid
from minikafka.storage.log.batch_scan import FoundBatch, scan
from minikafka.storage.log.indexes import OFFSET_ENTRY, TIME_ENTRY
from minikafka.storage.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of,
)


class UnknownFile(Exception):
    """The name is not that of a file of a log."""


class BatchRow(NamedTuple):
    """A batch at ``position`` of the file; ``batch`` is there with its records."""

    position: int
    batch: RecordBatch
    crc_valid: bool


class TrailingBytes(NamedTuple):
    """Bytes after the last batch that are no batch."""

    byte_count: int
    reason: str


class IndexRow(NamedTuple):
    """``found`` is the last offset of the batch at ``position``; None when there is no batch."""

    offset: int
    position: int
    found: int | None


class TimeIndexRow(NamedTuple):
    """``found`` is the batch that holds ``offset``; None when there is none."""

    timestamp: int
    offset: int
    found: RecordBatch | None


def batches(
    files: Files, path: str, max_bytes: int | None = None
) -> Iterator[BatchRow | TrailingBytes]:
    """The batches of a ``.log`` file (those that begin in its first ``max_bytes``), and what is
    left over. Raises OSError."""
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
    """The entries of an ``.index`` file, each looked up in the log beside it. Raises OSError."""
    base_offset = base_offset_of(path, INDEX_SUFFIX)
    log = files.open(path.removesuffix(INDEX_SUFFIX) + LOG_SUFFIX)
    try:
        for relative, position in _entries(files, path, OFFSET_ENTRY, offset_field=0):
            batch = _batch_at(log, position)
            yield IndexRow(base_offset + relative, position, batch and batch.last_offset)
    finally:
        log.close()


def time_index_entries(files: Files, path: str) -> Iterator[TimeIndexRow]:
    """The entries of a ``.timeindex`` file, each looked up in the log beside it. Raises OSError."""
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
    """The entries of a ``.txnindex`` file, each with its version. Raises OSError."""
    base_offset_of(path, TXN_INDEX_SUFFIX)
    data = files.read_all(path)
    whole = memoryview(data)[: len(data) // aborted_txn.ENTRY_BYTES * aborted_txn.ENTRY_BYTES]
    for version, *fields in aborted_txn.ENTRY.iter_unpack(whole):
        yield version, AbortedTxn(*fields)


def producers(files: Files, path: str) -> list[ProducerEntry]:
    """The entries of a ``.snapshot`` file. Raises OSError, CorruptSnapshotError."""
    return decode_snapshot(files.read_all(path))


def index_problem(files: Files, path: str) -> str | None:
    """Why a broker would rebuild this index at its start; None if it is in order.
    Raises OSError."""
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
    """From the file's name. Raises UnknownFile."""
    offset = offset_of(path.rpartition("/")[2], suffix)
    if offset is None:
        raise UnknownFile(f"{path} is not named after an offset")
    return offset


def _entries(files: Files, path: str, entry: Struct, offset_field: int) -> Iterator[Any]:
    """Kafka preallocates index files: after the first entry, zeros are room and no entry."""
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
