"""Builders of record batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, TypeAlias

from minikafka.protocol.buffer import Buffer
from minikafka.protocol.records.batch import (
    BATCH_OVERHEAD,
    CONTROL_FLAG,
    CRC_OFFSET,
    HEADER,
    HEADER_FIELDS,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    RecordBatch,
    crc_of,
)
from minikafka.protocol.records.compression import Compression, compress
from minikafka.protocol.records.record import Header, Record, encode_record

# (timestamp_ms, key, value, headers)
RecordContent: TypeAlias = tuple[int, Buffer | None, Buffer | None, Sequence[Header]]

_CRC: Final = Struct(">I")


def build_batch(
    records: Iterable[RecordContent | Record],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Encode records as a batch with its CRC.

    Tuples get consecutive offsets from ``base_offset`` on. A ``Record`` keeps its offset, so that a
    compacted batch can have gaps. Raises ValueError if there are no records, or if the offsets are
    below ``base_offset`` or not ascending.
    """
    body = bytearray()
    first_timestamp = max_timestamp = -1
    delta = -1
    count = 0
    for record in records:
        timestamp, key, value, headers = _content(record)
        if isinstance(record, Record):
            if record.offset - base_offset <= delta:
                raise ValueError(
                    f"record offset {record.offset} must be greater than {base_offset + delta}"
                )
            delta = record.offset - base_offset
        else:
            delta += 1
        if count == 0:
            first_timestamp = max_timestamp = timestamp
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        body += encode_record(delta, timestamp - first_timestamp, key, value, headers)
        count += 1
    if count == 0:
        raise ValueError("cannot build a record batch without records")
    flags = (TRANSACTIONAL_FLAG if transactional else 0) | (CONTROL_FLAG if control else 0)
    return assemble_batch(
        compress(compression, body, compression_level),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=int(compression) | flags,
        last_offset_delta=delta,
        base_timestamp=first_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=count,
    )


def _content(record: RecordContent | Record) -> RecordContent:
    return record[1:] if isinstance(record, Record) else record


def assemble_batch(
    payload: Buffer,
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> bytes:
    """Return ``payload``, which is the records compressed as ``attributes`` says, after a batch
    header with its CRC."""
    header = (
        base_offset,
        BATCH_OVERHEAD - LOG_OVERHEAD + len(payload),
        leader_epoch,
        MAGIC_V2,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    return _assembled(header, payload)


def with_payload(batch: RecordBatch, payload: Buffer) -> bytes:
    """Return a batch with the header of ``batch``, but for its length and CRC, and with other
    records: ``payload``, compressed as the header says."""
    batch = batch._replace(length=BATCH_OVERHEAD - LOG_OVERHEAD + len(payload))
    return _assembled(batch[:HEADER_FIELDS], payload)


def _assembled(header: tuple[int, ...], payload: Buffer) -> bytes:
    batch = bytearray(HEADER.pack(*header))
    batch += payload
    _CRC.pack_into(batch, CRC_OFFSET, crc_of(batch, 0, len(batch)))
    return bytes(batch)
