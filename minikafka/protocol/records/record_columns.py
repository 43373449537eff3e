"""The loop that reads the fields of a batch's records into lists: the consumer's hottest code.

mypyc compiles this file where there is a C compiler, as it does with ``record_check``, whose
docstring says what follows from that; ``record_layout.RECORD`` describes the fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from minikafka.protocol.records.batch import CorruptRecordError
from minikafka.protocol.records.record_layout import problem_of

if TYPE_CHECKING:
    from mypy_extensions import i64

_MAX_NUMBER_BYTES: Final = 10
_63_BITS: Final = 0x7FFFFFFFFFFFFFFF

Headers: TypeAlias = "Sequence[tuple[str, bytes | None]]"
# Offset deltas, timestamp deltas, keys, values, headers. Offset deltas are empty if not wanted.
RecordColumns: TypeAlias = (
    "tuple[list[int], list[int], list[bytes | None], list[bytes | None], list[Headers]]"
)


def read_columns(data: bytes, count: int, with_offsets: bool) -> RecordColumns:
    """Read the ``count`` records in ``data``, which is uncompressed. A record without headers gets
    (), which the garbage collector does not track. Raises CorruptRecordError."""
    try:
        return _columns(data, count, with_offsets)
    except (IndexError, ValueError) as error:
        raise CorruptRecordError(problem_of(data, count)) from error


def _columns(data: bytes, count: i64, with_offsets: bool) -> RecordColumns:
    size: i64 = len(data)
    position: i64 = 0
    number: i64 = 0
    high: i64 = 0
    begin: i64 = 0
    seen: i64 = 0
    delta: int = 0
    offsets: list[int] = []
    timestamps: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[Headers] = []
    while count > 0:
        count -= 1
        number = data[position]  # the length
        position += 1
        if number >= 0x80:
            number, position = _long_number(data, position - 1)
        end: i64 = position + (number >> 1)
        if number & 1 or number < 0 or end > size:
            raise ValueError("a record that is not there")
        number = data[position + 1]  # the timestamp delta, behind the attributes
        position += 2
        if number >= 0x80:
            number, position = _long_number(data, position - 1)
        if number != seen:  # neighbours often have the same
            seen = number
            delta = (number >> 1 & _63_BITS) ^ -(number & 1)
        timestamps.append(delta)
        number = data[position]  # the offset delta
        position += 1
        if number >= 0x80:
            number, position = _long_number(data, position - 1)
        if with_offsets:
            offsets.append((number >> 1 & _63_BITS) ^ -(number & 1))
        number = data[position]  # the size of the key
        position += 1
        if number >= 0x80:
            number, position = _long_number(data, position - 1)
        if number & 1:
            keys.append(None)
        else:
            begin = position
            position += number >> 1
            keys.append(_part(data, begin, position, end))
        number = data[position]  # the size of the value
        position += 1
        if number >= 0x80:
            high = data[position]
            if high < 0x80:
                number += (high << 7) - 0x80
                position += 1
            else:
                number, position = _long_number(data, position - 1)
        if number & 1:
            values.append(None)
        else:
            begin = position
            position += number >> 1
            values.append(_part(data, begin, position, end))
        some, position = _headers(data, position, end)
        headers.append(some)
        if position != end:
            raise ValueError("a record whose fields do not fill it")
    if position != size:
        raise ValueError("bytes after the last record")
    return offsets, timestamps, keys, values, headers


def _part(data: bytes, begin: i64, stop: i64, end: i64) -> bytes:
    """Return a field of a record that ends at ``end``. Raises ValueError."""
    if stop < begin or stop > end:
        raise ValueError("a field that reaches past its record")
    return data[begin:stop]


def _headers(data: bytes, position: i64, end: i64) -> tuple[Headers, i64]:
    """Read the headers, whose number is at ``position``. Return the position after them."""
    if not data[position]:
        return (), position + 1
    number: i64 = 0
    pairs: list[tuple[str, bytes | None]] = []
    number, position = _long_number(data, position)
    if number & 1 or number < 0:
        raise ValueError("a negative number of headers")
    left: i64 = number >> 1
    while left > 0:
        left -= 1
        number, position = _long_number(data, position)
        begin: i64 = position
        position += number >> 1
        if number & 1 or number < 0 or position > end:
            raise ValueError("a header without a name, or a name that reaches past its record")
        name = data[begin:position].decode("utf-8", "surrogateescape")
        number, position = _long_number(data, position)
        if number & 1:
            pairs.append((name, None))
            continue
        begin = position
        position += number >> 1
        if number < 0 or position > end:
            raise ValueError("a header that reaches past its record")
        pairs.append((name, data[begin:position]))
    return pairs, position


def _long_number(data: bytes, position: i64) -> tuple[i64, i64]:
    """Read an unsigned varint of any length -> (value, position after it). In compiled code values
    from 2**63 are negative."""
    value: i64 = 0
    shift: i64 = 0
    byte: i64 = 0
    while shift < 7 * _MAX_NUMBER_BYTES:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == 63 and byte > 1:
                raise ValueError("a number of more than 64 bits")
            return value, position
        shift += 7
    raise ValueError("a number of more than 10 bytes")
