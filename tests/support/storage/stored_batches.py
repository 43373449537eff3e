"""Batches as an old log may hold them: far larger when decompressed, or with invalid records."""

from __future__ import annotations

from minikafka.protocol.records.batch import parse_batch, stamp_at
from minikafka.protocol.records.builder import assemble_batch
from minikafka.protocol.records.compression import Compression, compress
from minikafka.protocol.records.record import encode_record

TIME_MS = 1_700_000_000_000


def stored_batch(
    payload: bytes,
    count: int,
    base_offset: int = 0,
    codec: Compression = Compression.NONE,
    max_timestamp: int = TIME_MS,
    attributes: int = 0,
) -> bytes:
    """Return a batch with a valid header and CRC around any ``payload``."""
    return assemble_batch(
        payload,
        base_offset=base_offset,
        leader_epoch=0,
        attributes=codec | attributes,
        last_offset_delta=count - 1,
        base_timestamp=TIME_MS,
        max_timestamp=max_timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )


def many_records(count: int, base_offset: int = 0, key: bytes | None = b"k") -> bytes:
    """Return a batch of a few kilobytes that has ``count`` records of the same key."""
    records = b"".join(encode_record(delta, 0, key, b"") for delta in range(count))
    return stored_batch(compress(Compression.ZSTD, records), count, base_offset, Compression.ZSTD)


def large_record(size_bytes: int, base_offset: int = 0, key: bytes | None = b"k") -> bytes:
    """Return a batch of a few kilobytes that has one record of ``size_bytes``."""
    record = encode_record(0, 0, key, bytes(size_bytes))
    return stored_batch(compress(Compression.ZSTD, record), 1, base_offset, Compression.ZSTD)


def garbage(base_offset: int = 0, count: int = 3) -> bytes:
    """Return a batch with a valid CRC and invalid records."""
    return stored_batch(b"\xff" * 40, count, base_offset)


def stamp(batch: bytearray, base_offset: int, leader_epoch: int) -> None:
    """Set what a log assigns to a batch, in place."""
    stamp_at(batch, 0, base_offset, parse_batch(batch, 0).length, leader_epoch)
