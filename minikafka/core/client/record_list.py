"""Decodes the records of a batch for a consumer in one loop, the consumer's hottest code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple

from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.buffer import read_uvarlong, read_varlong
from minikafka.protocol.records.batch import CorruptRecordError, RecordBatch
from minikafka.protocol.records.compression import Compression, decompress
from minikafka.protocol.records.record import Header


class ConsumerRecord(NamedTuple):
    """One record as an application gets it. ``timestamp`` is milliseconds since 1970, or -1;
    ``headers`` are pairs of name and value. ``key`` and ``value`` are bytes or None, or what the
    application's deserializers made of them."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Sequence[Header]
    leader_epoch: int


_as_records = partial(tuple.__new__, ConsumerRecord)
_ZIGZAG: Final = tuple((raw >> 1) ^ -(raw & 1) for raw in range(128))
_ONE_BYTE_DELTAS: Final = 64  # offset deltas below take one byte, the next of those two bytes
_TWO_BYTE_DELTAS: Final = 8192


def consumer_records(
    topic_partition: TopicPartition, batch: RecordBatch, start: int = 0
) -> list[ConsumerRecord]:
    """Decode the records with offset ``start`` or later, as ``record.decode_batch`` does at four
    times the cost. Raises CorruptRecordError for malformed ones."""
    payload = batch.payload()
    codec = batch.compression
    data = bytes(payload) if codec is Compression.NONE else decompress(codec, payload)
    columns = _Columns([], [], [], [], [])
    count = batch.record_count
    is_dense = batch.last_offset_delta == count - 1 and count <= _TWO_BYTE_DELTAS
    try:
        if is_dense:
            position = _decode_dense(data, min(count, _ONE_BYTE_DELTAS), 1, 0, columns)
            rest = count - _ONE_BYTE_DELTAS
            position = _decode_dense(data, rest, 2, position, columns) if rest > 0 else position
            offsets: Iterable[int] = range(batch.base_offset, batch.base_offset + count)
        else:
            position = _decode_any(data, count, columns)
            offsets = [batch.base_offset + delta for delta in columns.offsets]
    except (IndexError, ValueError) as error:
        raise CorruptRecordError(f"{topic_partition}: malformed record: {error}") from error
    if position != len(data):
        raise CorruptRecordError(
            f"{topic_partition}: batch at offset {batch.base_offset} has "
            f"{len(data) - position} bytes after its last record"
        )
    timestamps: Iterable[int] = [batch.base_timestamp + delta for delta in columns.timestamps]
    if batch.timestamp_type_log_append:
        timestamps = repeat(batch.max_timestamp)
    rows = zip(
        repeat(topic_partition.topic),
        repeat(topic_partition.partition),
        offsets,
        timestamps,
        columns.keys,
        columns.values,
        columns.headers,
        repeat(batch.partition_leader_epoch),
        strict=False,
    )
    records: list[ConsumerRecord] = list(map(_as_records, rows))
    return records if batch.base_offset >= start else [r for r in records if r.offset >= start]


class _Columns(NamedTuple):
    """Fields of the records of a batch; offsets and timestamps as deltas. Offsets of a dense batch
    are not filled in."""

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Sequence[Header]]


def _decode_dense(
    data: bytes, count: int, offset_bytes: int, position: int, columns: _Columns
) -> int:
    """Records whose offsets follow each other, so that they are counted, not read; returns where
    they end. Varints of one or two bytes are read in place. Raises IndexError, ValueError."""
    _, timestamps, keys, values, all_headers = columns
    add_timestamp, add_key, add_value = timestamps.append, keys.append, values.append
    add_headers = all_headers.append
    for _ in range(count):
        if (raw := data[position]) >= 0x80:
            position += 1
            if (second := data[position]) < 0x80:
                raw += (second << 7) - 0x80
            else:
                raw, position = read_uvarlong(data, position - 1)
                position -= 1
        end = position + 1 + (raw >> 1)
        # One byte of attributes: none are in use.
        if (raw := data[position + 2]) < 0x80:
            add_timestamp(_ZIGZAG[raw])
            position += 3 + offset_bytes
        else:
            timestamp, position = read_varlong(data, position + 2)
            add_timestamp(timestamp)
            position += offset_bytes
        if data[position] == 1:
            add_key(None)
            position += 1
        else:
            key, position = _field(data, position, end)
            add_key(key)
        if (raw := data[position]) >= 0x80 and (second := data[position + 1]) < 0x80:
            raw += (second << 7) - 0x80
            if raw & 1:
                raise ValueError("a length below zero")
            value_at = position + 2
            position = value_at + (raw >> 1)
            add_value(data[value_at:position])
        else:
            value, position = _field(data, position, end)
            add_value(value)
        if data[position] == 0:
            add_headers(())  # a list would be one more object for the garbage collector
            position += 1
        else:
            headers, position = _headers(data, position, end)
            add_headers(headers)
        if position != end:
            raise ValueError(f"a record ends {end - position} bytes early")
    return position


def _decode_any(data: bytes, count: int, columns: _Columns) -> int:
    """As ``_decode_dense`` for a batch that was compacted, or is very long."""
    position = 0
    for _ in range(count):
        length, position = read_varlong(data, position)
        end = position + length
        timestamp, position = read_varlong(data, position + 1)
        offset, position = read_varlong(data, position)
        key, position = _field(data, position, end)
        value, position = _field(data, position, end)
        headers, position = _headers(data, position, end)
        if position != end:
            raise ValueError(f"a record ends {end - position} bytes early")
        columns.offsets.append(offset)
        columns.timestamps.append(timestamp)
        columns.keys.append(key)
        columns.values.append(value)
        columns.headers.append(headers)
    return position


def _field(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    byte = data[position]
    if byte < 0x80:
        length, position = (byte >> 1) ^ -(byte & 1), position + 1
    else:
        length, position = read_varlong(data, position)
    if length < 0:
        return None, position
    stop = position + length
    if stop > end:
        raise ValueError(f"a field of {length} bytes reaches past its record")
    return data[position:stop], stop


def _headers(data: bytes, position: int, end: int) -> tuple[list[Header], int]:
    count, position = read_varlong(data, position)
    if count < 0:
        raise ValueError(f"a record with {count} headers")
    headers: list[Header] = []
    for _ in range(count):
        name, position = _field(data, position, end)
        content, position = _field(data, position, end)
        if name is None:
            raise ValueError("a header without a name")
        headers.append((name.decode(errors="surrogateescape"), content))
    return headers, position
