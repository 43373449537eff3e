"""Single records: encoding one into a batch, and decoding all records of a buffer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Final, NamedTuple, TypeAlias

from minikafka.protocol.buffer import (
    Buffer,
    write_uvarint,
    write_varint,
    write_varlong,
)
from minikafka.protocol.records.batch import (
    RecordBatch,
    iterate_batches,
)
from minikafka.protocol.records.record_layout import each_plainly
from minikafka.protocol.records.record_loop import read_columns

# Names are UTF-8; other bytes, which some clients send, come through as lone surrogates.
Header: TypeAlias = tuple[str, bytes | None]

_NULL: Final = write_varint(-1)
# The varints of the numbers from 0 on are looked up, since most records need six of them.
_TABLE_SIZE: Final = 4096
_ZIGZAG: Final = tuple(write_uvarint(number << 1) for number in range(_TABLE_SIZE))


class Record(NamedTuple):
    """One message. ``timestamp`` is milliseconds since 1970, or -1."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]


_new_record: Final = partial(tuple.__new__, Record)


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Collection[Header] = (),
) -> bytes:
    """Return a record as it is in a batch: length, attributes, deltas, key, value, headers."""
    if 0 <= timestamp_delta < _TABLE_SIZE and 0 <= offset_delta < _TABLE_SIZE:
        time, offset = _ZIGZAG[timestamp_delta], _ZIGZAG[offset_delta]
    else:
        time, offset = write_varlong(timestamp_delta), write_varlong(offset_delta)
    if key is None:
        key_part = _NULL
    else:
        length = len(key)
        key_part = (_ZIGZAG[length] if length < _TABLE_SIZE else write_varlong(length)) + key
    tail = _encode_headers(headers) if headers else b"\0"
    if value is None:
        rest = b"".join((b"\0", time, offset, key_part, _NULL, tail))
    else:
        length = len(value)
        size = _ZIGZAG[length] if length < _TABLE_SIZE else write_varlong(length)
        rest = b"".join((b"\0", time, offset, key_part, size, value, tail))
    length = len(rest)
    return (_ZIGZAG[length] if length < _TABLE_SIZE else write_varlong(length)) + rest


def _encode_headers(headers: Collection[Header]) -> bytes:
    parts: list[Buffer] = [write_varint(len(headers))]
    for name, content in headers:
        encoded = name.encode(errors="surrogateescape")
        parts += write_varint(len(encoded)), encoded
        parts += (_NULL,) if content is None else (write_varint(len(content)), content)
    return b"".join(parts)


def decode_records(buffer: Buffer) -> Iterator[Record]:
    """Every record of every whole batch in ``buffer``; a torn last batch is skipped.

    Records of control batches are included; only their batches mark them. Check CRCs before.
    Raises CorruptRecordError (a KafkaError) for malformed bytes.
    """
    for batch in iterate_batches(buffer):
        yield from decode_batch(batch)


def decode_batch(batch: RecordBatch) -> Iterator[Record]:
    """Return the records of one batch, decompressed. Raises CorruptRecordError for malformed bytes
    at once."""
    data = batch.plain_records()
    deltas, times, keys, values, headers = read_columns(data, batch.record_count, True)
    offsets = map(batch.base_offset.__add__, deltas)
    timestamps: Iterable[int] = map(batch.base_timestamp.__add__, times)
    if batch.timestamp_type_log_append:
        timestamps = repeat(batch.max_timestamp)
    rows = zip(offsets, timestamps, keys, values, map(list, headers), strict=False)
    return map(_new_record, rows)


def decode_plainly(batch: RecordBatch) -> Iterator[Record]:
    """Yield the records of one batch, decompressed, before the first malformed one. Then raise
    CorruptRecordError. ``decode_batch`` is many times faster, but yields none of them."""
    append_time = batch.max_timestamp if batch.timestamp_type_log_append else None
    for fields in each_plainly(batch.plain_records(), batch.record_count):
        _, _, time_delta, offset_delta, *rest = fields.values()
        timestamp = batch.base_timestamp + time_delta if append_time is None else append_time
        yield Record(batch.base_offset + offset_delta, timestamp, *rest)
