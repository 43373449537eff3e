"""The records of one batch as compaction needs them: where each lies, its key, whether it has a
value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from minikafka.protocol.buffer import read_varlong, write_varint, write_varlong
from minikafka.protocol.records.batch import CorruptRecordError, RecordBatch
from minikafka.protocol.records.compression import Compression, decompress


class FoundRecord(NamedTuple):
    """``start`` and ``end`` are where it lies among the batch's records, its length included."""

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def records_of(batch: RecordBatch) -> bytes:
    """The records of a batch, decompressed. Raises KafkaError."""
    payload = batch.payload()
    codec = batch.compression
    return bytes(payload) if codec is Compression.NONE else decompress(codec, payload)


def walk(data: bytes, count: int) -> Iterator[FoundRecord]:
    """The ``count`` records in ``data``. Raises CorruptRecordError."""
    position = 0
    limit = len(data)
    try:
        for _ in range(count):
            start = position
            length, position = _varint(data, position)
            end = position + length
            if length < 0 or end > limit:
                raise CorruptRecordError(f"a record of {length} bytes in {limit - position}")
            timestamp_delta, position = _varint(data, position + 1)
            offset_delta, position = _varint(data, position)
            key_length, position = _varint(data, position)
            key = None
            if key_length >= 0:
                key = data[position : position + key_length]
                position += key_length
            value_length, position = _varint(data, position)
            if position + max(value_length, 0) > end:
                raise CorruptRecordError(f"a field reaches past its record of {length} bytes")
            yield FoundRecord(start, end, timestamp_delta, offset_delta, key, value_length >= 0)
            position = end
    except (IndexError, ValueError) as error:
        raise CorruptRecordError(f"malformed record: {error}") from error
    if position != limit:
        raise CorruptRecordError(f"{limit - position} bytes after the last record of a batch")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return read_varlong(data, position)


def with_timestamp_delta(data: bytes, record: FoundRecord, timestamp_delta: int) -> bytes:
    """The bytes of ``record``, its time told from another base."""
    _, position = _varint(data, record.start)
    attributes = data[position : position + 1]
    _, position = _varint(data, position + 1)
    body = attributes + write_varlong(timestamp_delta) + data[position : record.end]
    return write_varint(len(body)) + body
