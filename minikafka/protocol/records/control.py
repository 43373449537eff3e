"""Control records: the COMMIT and ABORT markers that end a transaction in a partition's log."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from minikafka.protocol.records.batch import CorruptRecordError
from minikafka.protocol.records.record import Record

_KEY: Final = Struct(">hh")  # version, type
_MARKER: Final = Struct(">hi")  # version, coordinator epoch
_VERSION: Final = 0


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
