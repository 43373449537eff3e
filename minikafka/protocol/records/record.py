"""Single records: encoding one into a batch, and decoding all records of a buffer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from minikafka.protocol.buffer import (
    Buffer,
    read_varlong,
    write_uvarint,
    write_varint,
    write_varlong,
)
from minikafka.protocol.records.batch import (
    CorruptRecordError,
    RecordBatch,
    iterate_batches,
)
from minikafka.protocol.records.compression import Compression, decompress

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

    Control records come too; look at the batches to tell them. CRCs are not checked here.
    Raises CorruptRecordError (a KafkaError) for malformed bytes.
    """
    for batch in iterate_batches(buffer):
        yield from decode_batch(batch)


def decode_batch(batch: RecordBatch) -> Iterator[Record]:
    """The records of one batch, decompressed. Raises CorruptRecordError for malformed bytes."""
    payload = batch.payload()
    codec = batch.compression
    data = bytes(payload) if codec is Compression.NONE else decompress(codec, payload)
    base_offset = batch.base_offset
    append_time = batch.max_timestamp if batch.timestamp_type_log_append else None
    position = 0
    for _ in range(batch.record_count):
        record, position = _decode_record(data, position, base_offset, batch.base_timestamp)
        yield record if append_time is None else record._replace(timestamp=append_time)
    if position != len(data):
        raise CorruptRecordError(
            f"batch at offset {base_offset} has {len(data) - position} bytes after its last record"
        )


def _decode_record(
    data: bytes, position: int, base_offset: int, base_timestamp: int
) -> tuple[Record, int]:
    try:
        length, position = _read_varint(data, position)
        end = position + length
        if length < 0 or end > len(data):
            raise CorruptRecordError(f"a record of {length} bytes in {len(data) - position}")
        position += 1  # attributes: none are in use
        timestamp_delta, position = _read_varint(data, position)
        offset_delta, position = _read_varint(data, position)
        key, position = _read_bytes(data, position, end)
        value, position = _read_bytes(data, position, end)
        count, position = _read_varint(data, position)
        if count < 0:
            raise CorruptRecordError(f"a record with {count} headers")
        headers: list[Header] = []
        for _ in range(count):
            name, position = _read_bytes(data, position, end)
            content, position = _read_bytes(data, position, end)
            if name is None:
                raise CorruptRecordError("a header without a name")
            headers.append((name.decode(errors="surrogateescape"), content))
    except (IndexError, ValueError) as error:
        raise CorruptRecordError(f"malformed record: {error}") from error
    if position != end:
        raise CorruptRecordError(f"a record of {length} bytes ends {end - position} bytes early")
    record = Record(
        base_offset + offset_delta, base_timestamp + timestamp_delta, key, value, headers
    )
    return record, position


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return read_varlong(data, position)


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = _read_varint(data, position)
    if length < 0:
        return None, position
    stop = position + length
    if stop > end:
        raise CorruptRecordError(f"a field of {length} bytes reaches past its record")
    return data[position:stop], stop
