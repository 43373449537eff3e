"""Single records: encoding one into a batch, and decoding all records of a buffer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    headers: Iterable[Header] = (),
) -> bytes:
    """A record as it stands in a batch: length, attributes, deltas, key, value, headers."""
    parts: list[Buffer] = [b"\x00", write_varlong(timestamp_delta), write_varint(offset_delta)]
    for content in (key, value):
        if content is None:
            parts.append(_NULL)
        else:
            parts.append(write_uvarint(len(content) << 1))
            parts.append(content)
    pairs = list(headers)
    if pairs:
        parts.append(write_varint(len(pairs)))
        for name, content in pairs:
            _put_bytes(parts, name.encode(errors="surrogateescape"))
            _put_bytes(parts, content)
    else:
        parts.append(b"\x00")
    body = b"".join(parts)
    return write_uvarint(len(body) << 1) + body


def _put_bytes(parts: list[Buffer], content: Buffer | None) -> None:
    if content is None:
        parts.append(_NULL)
    else:
        parts.append(write_varint(len(content)))
        parts.append(content)


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
