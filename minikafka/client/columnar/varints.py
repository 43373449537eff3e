"""Encoding and decoding of varints for numpy arrays: one call handles a field of all records.

The varints are those of Kafka's record format v2 (``ByteUtils.readVarlong``)."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from minikafka.protocol.records.batch import CorruptRecordError

Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

_MAX_VARLONG_BYTES = 10


def decode_varints(data: Bytes, positions: Ints) -> tuple[Ints, Ints]:
    """Decode the signed (zigzag) varint that starts at each of ``positions`` in ``data``.

    Returns the values, and the positions of the first byte after each. Raises IndexError if a
    varint reaches beyond the end of ``data``, CorruptRecordError if one has more than ten bytes.
    """
    values, ends = decode_plain_varints(data, positions)
    return unzigzag(values), ends


def decode_plain_varints(data: Bytes, positions: Ints) -> tuple[Ints, Ints]:
    """Decode varints without zigzag, as ``decode_varints`` does: the 64 bits of each, as a signed
    number."""
    first = data[positions]
    values = first.astype(np.int64)
    ends = positions + 1
    longer = np.flatnonzero(first >= 0x80)
    if longer.size:
        _decode_longer(data, values, ends, longer)
    return values, ends


def unzigzag(values: Ints) -> Ints:
    """Return the signed numbers of which ``values`` are the zigzag encodings."""
    # Shift as unsigned numbers: the top bit of a zigzag number is a part of its magnitude.
    half = (values.view(np.uint64) >> np.uint64(1)).view(np.int64)
    return half ^ -(values & 1)


def _decode_longer(data: Bytes, values: Ints, ends: Ints, longer: Ints) -> None:
    values[longer] &= 0x7F
    at = ends[longer]
    for shift in range(7, 7 * _MAX_VARLONG_BYTES, 7):
        bytes_ = data[at].astype(np.int64)
        values[longer] |= (bytes_ & 0x7F) << shift
        at += 1
        ends[longer] = at
        more = bytes_ >= 0x80
        if not more.any():
            return
        longer, at = longer[more], at[more]
    raise CorruptRecordError("a varint of more than 64 bits")


def zigzag(values: Ints) -> Ints:
    """Return the zigzag encoding of signed numbers, each of which must fit in 63 bits."""
    return (values << 1) ^ (values >> 63)


def varint_sizes(unsigned: Ints) -> Ints:
    """Return how many bytes each of the numbers, none of them negative, takes as a varint."""
    sizes = np.ones(len(unsigned), np.int64)
    shift = 7
    rest = unsigned >> shift
    while rest.any():
        sizes += rest > 0
        shift += 7
        rest = unsigned >> shift
    return sizes


def put_varints(out: Bytes, positions: Ints, unsigned: Ints, sizes: Ints) -> None:
    """Write each unsigned number into ``out`` as a varint that starts at its position.

    ``sizes`` is the result of ``varint_sizes`` for these numbers."""
    last = sizes == 1
    if last.all():
        out[positions] = unsigned
        return
    at, rest, left = positions.copy(), unsigned.copy(), sizes
    while True:
        out[at] = (rest & 0x7F) | np.where(left > 1, 0x80, 0)
        going_on = np.flatnonzero(left > 1)
        if not going_on.size:
            return
        at, rest, left = at[going_on] + 1, rest[going_on] >> 7, left[going_on] - 1
