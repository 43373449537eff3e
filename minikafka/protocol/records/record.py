"""Single records: encoding one into a batch, and decoding all records of a buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
from minikafka.protocol.records.record_layout import Want, compile_walk

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


decode_batch: Callable[[RecordBatch], Iterator[Record]] = compile_walk(
    "decode_batch",
    "batch",
    {
        "timestamp_delta": Want.SIGNED,
        "offset_delta": Want.SIGNED,
        "key": Want.CONTENT,
        "value": Want.CONTENT,
        "headers": Want.CONTENT,
    },
    before="""
        data, count = batch.plain_records(), batch.record_count
        base_offset, base_timestamp = batch.base_offset, batch.base_timestamp
        append_time = batch.max_timestamp if batch.timestamp_type_log_append else None
    """,
    each="""
        timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
        yield new(Record, (base_offset + offset_delta, timestamp, key, value, headers or []))
    """,
    names={"new": tuple.__new__, "Record": Record},
)
"""The records of one batch, decompressed. Raises CorruptRecordError for malformed bytes."""
