"""The bytes of a ``.snapshot`` file: the producers of a log up to the offset in the file's name.

    version i16 = 1 | crc u32 (CRC-32C of what follows) | count i32 | entries of 50 bytes

Only the last batch of each producer is kept. Kafka: ``ProducerStateManager.writeSnapshot``.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import TYPE_CHECKING, Final

from minikafka.core.log.producer_state import (
    BatchMetadata,
    ProducerEntry,
    first_sequence,
)
from minikafka.kernel.lazy_module import LazyModule

if TYPE_CHECKING:
    import crc32c
else:
    crc32c = LazyModule("crc32c")


VERSION: Final = 1
_HEAD: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch,
# first offset of the current transaction
_ENTRY: Final = Struct(">qhiqiqiq")


class CorruptSnapshotError(ValueError):
    """The bytes are not those of a producer snapshot."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    rows = [
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
        for entry in entries
    ]
    body = _COUNT.pack(len(rows)) + b"".join(rows)
    return _HEAD.pack(VERSION, crc32c.crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Decode the producers in a ``.snapshot`` file. Raises CorruptSnapshotError."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptSnapshotError(f"a snapshot of {len(data)} bytes")
    version, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshotError(f"unknown snapshot version {version}")
    body = memoryview(data)[_HEAD.size :]
    if crc32c.crc32c(body) != crc:
        raise CorruptSnapshotError("the CRC of the snapshot is wrong")
    (count,) = _COUNT.unpack_from(body)
    rows = body[_COUNT.size :]
    if count * _ENTRY.size != len(rows):
        raise CorruptSnapshotError(f"{count} entries in {len(rows)} bytes")
    return [_entry(*row) for row in _ENTRY.iter_unpack(rows)]


def _entry(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    current_txn_first_offset: int,
) -> ProducerEntry:
    batches = []
    if last_offset >= 0:
        first = first_sequence(last_sequence, offset_delta)
        batches.append(BatchMetadata(first, last_sequence, last_offset, offset_delta, timestamp))
    return ProducerEntry(
        producer_id,
        producer_epoch,
        coordinator_epoch,
        timestamp,
        current_txn_first_offset,
        batches,
    )
