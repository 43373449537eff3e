"""The records of one batch as compaction needs them: where each lies, its key, whether it has a
value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from minikafka.protocol.buffer import read_uvarlong, read_varlong, write_varint, write_varlong
from minikafka.protocol.records.batch import CorruptRecordError, RecordBatch
from minikafka.protocol.records.compression import Compression, decompress

# start, end, timestamp delta, offset delta, key, has value: where the record lies among those of
# its batch, length included, and what compaction asks of it. A plain tuple: there are so many.
FoundRecord: TypeAlias = tuple[int, int, int, int, bytes | None, bool]


def records_of(batch: RecordBatch) -> bytes:
    """The records of a batch, decompressed. Raises KafkaError."""
    payload = batch.payload()
    codec = batch.compression
    return bytes(payload) if codec is Compression.NONE else decompress(codec, payload)


def walk(data: bytes, count: int) -> Iterator[FoundRecord]:
    """The ``count`` records in ``data``. Short varints are read in place, as this runs for every
    record twice. Raises CorruptRecordError."""
    position = 0
    try:
        for _ in range(count):
            start = position
            value = data[position]
            position += 1
            if value >= 0x80:
                if (high := data[position]) < 0x80:
                    value += (high << 7) - 0x80
                    position += 1
                else:
                    value, position = read_uvarlong(data, start)
            end = position + (value >> 1)
            negative = value
            timestamp = data[position + 1]  # after the attributes, of which none are in use
            position += 2
            if timestamp >= 0x80:
                timestamp, position = read_uvarlong(data, position - 1)
            offset = data[position]
            position += 1
            if offset >= 0x80:
                if (high := data[position]) < 0x80:
                    offset += (high << 7) - 0x80
                    position += 1
                else:
                    offset, position = read_uvarlong(data, position - 1)
            negative |= offset
            value = data[position]
            position += 1
            if value >= 0x80:
                value, position = read_uvarlong(data, position - 1)
            key = None
            if not value & 1:
                key = data[position : position + (value >> 1)]
                position += value >> 1
            value = data[position]
            position += 1
            if value >= 0x80:
                value, position = read_uvarlong(data, position - 1)
            no_value = value & 1
            if negative & 1 or position + (0 if no_value else value >> 1) >= end or end > len(data):
                raise CorruptRecordError(f"a malformed record at byte {start} of a batch's")
            delta = (timestamp >> 1) ^ -(timestamp & 1)
            yield start, end, delta, offset >> 1, key, not no_value
            position = end
    except (IndexError, ValueError) as error:
        raise CorruptRecordError(f"malformed record: {error}") from error
    if position != len(data):
        raise CorruptRecordError(f"{len(data) - position} bytes after the last record of a batch")


def with_timestamp_delta(data: bytes, record: FoundRecord, timestamp_delta: int) -> bytes:
    """The bytes of ``record``, its time told from another base."""
    start, end = record[:2]
    _, position = read_varlong(data, start)
    attributes = data[position : position + 1]
    _, position = read_varlong(data, position + 1)
    body = attributes + write_varlong(timestamp_delta) + data[position:end]
    return write_varint(len(body)) + body
