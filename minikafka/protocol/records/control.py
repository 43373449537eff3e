"""Control records: the COMMIT and ABORT markers that end a transaction in a partition's log."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from minikafka.protocol.records.batch import CorruptRecordError, RecordBatch
from minikafka.protocol.records.compression import DecompressedTooLarge
from minikafka.protocol.records.record import Record, decode_batch

_KEY: Final = Struct(">hh")  # version, type
_MARKER: Final = Struct(">hi")  # version, coordinator epoch
_VERSION: Final = 0
LARGEST_CONTROL_BYTES: Final = 16 * 1024  # of a control batch's records; a marker has about 20


class ControlRecordType(IntEnum):
    ABORT = 0
    COMMIT = 1


class EndTxnMarker(NamedTuple):
    """A COMMIT or ABORT marker, written by the coordinator with ``coordinator_epoch``."""

    type: ControlRecordType
    coordinator_epoch: int


def encode_end_txn_marker(marker: EndTxnMarker) -> tuple[bytes, bytes]:
    """Key and value of the control record."""
    return _KEY.pack(_VERSION, marker.type), _MARKER.pack(_VERSION, marker.coordinator_epoch)


def decode_end_txn_marker(record: Record) -> EndTxnMarker | None:
    """The marker in a control record; None for a control type that is not a marker.

    Raises CorruptRecordError for a key or value that is cut off.
    """
    key, value = record.key or b"", record.value or b""
    if len(key) < _KEY.size:
        raise CorruptRecordError(f"a control record with a key of {len(key)} bytes")
    _, kind = _KEY.unpack_from(key)
    if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    if len(value) < _MARKER.size:
        raise CorruptRecordError(f"an end transaction marker of {len(value)} bytes")
    return EndTxnMarker(ControlRecordType(kind), _MARKER.unpack_from(value)[1])


def control_record(batch: RecordBatch) -> Record | None:
    """Return the first record of a control batch, None for an empty batch.

    Raises CorruptRecordError for more than ``LARGEST_CONTROL_BYTES`` of records, which no broker
    writes: decoding them could take long."""
    if batch.size_bytes > LARGEST_CONTROL_BYTES:
        raise CorruptRecordError(f"a control batch of {batch.size_bytes} bytes")
    try:
        batch.plain_records(LARGEST_CONTROL_BYTES)
    except DecompressedTooLarge as error:
        raise CorruptRecordError(f"a control batch with {error.message}") from error
    return next(decode_batch(batch), None)
