"""The loops over the records of a batch that run for every record: one checks what a producer
sends, the other reads what a consumer gets into lists.

Where a C compiler is available at installation, mypyc compiles this file as it stands: to check a
record then takes 10 ns instead of 600. That is why the integers are declared as ``i64``, and why
the loops are written out here, and not by ``record_layout.compile_walk``. Without a compiler Python
runs the same text. ``record_layout.RECORD`` describes the fields. Check and reading are two loops,
since one that does either makes the compiled check 8 to 16 % slower.

In compiled code an ``i64`` wraps around at 64 bits. A length that is as large as that is refused
before it is added to a position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from minikafka.protocol.records.batch import CorruptRecordError
from minikafka.protocol.records.record_layout import problem_of

if TYPE_CHECKING:
    from mypy_extensions import i64

LEAST_RECORD_BYTES: Final = 7  # its length, attributes, two deltas, no key, no value, no headers
_MAX_NUMBER_BYTES: Final = 10
_63_BITS: Final = 0x7FFFFFFFFFFFFFFF
_SMALL_NUMBERS: Final = [bytes([number]) for number in range(0x80)]


# Whether the offset deltas are 0, 1, 2, ...; the least and the largest timestamp delta, in ms to
# the batch's base timestamp; whether all records have keys. A plain tuple: each batch makes one.
RecordSummary: TypeAlias = tuple[bool, int, int, bool]
Headers: TypeAlias = "Sequence[tuple[str, bytes | None]]"
# Offset deltas, timestamp deltas, keys, values, headers. Offset deltas are empty if not wanted.
RecordColumns: TypeAlias = (
    "tuple[list[int], list[int], list[bytes | None], list[bytes | None], list[Headers]]"
)


def summarize_records(data: bytes, count: int) -> RecordSummary:
    """Summarize the ``count`` records (at least one) in ``data``, which is uncompressed.

    Raises CorruptRecordError unless they are well-formed and fill ``data``. Kafka:
    ``DefaultRecord.readPartiallyFrom``.
    """
    if count * LEAST_RECORD_BYTES > len(data):
        raise CorruptRecordError(f"{count} records cannot be in {len(data)} bytes")
    try:
        return _summary(data, count)
    except (IndexError, ValueError) as error:
        raise CorruptRecordError(problem_of(data, count)) from error


def read_columns(data: bytes, count: int, with_offsets: bool) -> RecordColumns:
    """Read the ``count`` records in ``data``, which is uncompressed. A record without headers gets
    (), which the garbage collector does not track. Raises CorruptRecordError."""
    try:
        return _columns(data, count, with_offsets)
    except (IndexError, ValueError) as error:
        raise CorruptRecordError(problem_of(data, count)) from error


def renumber_records(data: bytes, position: int, first: int, count: int) -> tuple[list[bytes], int]:
    """Give the ``count`` records from ``position`` on consecutive offset deltas from ``first`` on.
    Return the pieces of the new records, and the position after the old ones.

    ``summarize_records`` must have accepted ``data``. In compiled code no other thread runs before
    this returns, so callers split long work."""
    return _renumbered(data, position, first, count)


def _renumbered(data: bytes, position: i64, first: i64, count: i64) -> tuple[list[bytes], i64]:
    pieces: list[bytes] = []
    number: i64 = 0
    following: i64 = 2 * first  # the next offset delta, zigzag-coded
    while following < 2 * (first + count):
        number, position = _long_number(data, position)  # the length
        start: i64 = position
        end: i64 = start + (number >> 1)
        _, middle = _long_number(data, start + 1)  # the timestamp delta, behind the attributes
        _, position = _long_number(data, middle)  # the offset delta
        delta = _number_bytes(following)
        pieces.append(_number_bytes(2 * (middle - start + len(delta) + end - position)))
        pieces.append(data[start:middle])
        pieces.append(delta)
        pieces.append(data[position:end])
        position = end
        following += 2
    return pieces, position


def _number_bytes(number: i64) -> bytes:
    """Return an unsigned varint."""
    if number < 0x80:
        return _SMALL_NUMBERS[number]
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _summary(data: bytes, count: i64) -> tuple[bool, i64, i64, bool]:
    """See ``record_layout.RECORD`` for the fields. Raises IndexError and ValueError."""
    size: i64 = len(data)
    position: i64 = 0
    number: i64 = 0
    high: i64 = 0
    seen: i64 = 0
    least: i64 = _63_BITS
    largest: i64 = -_63_BITS - 1
    following: i64 = 0  # the next offset delta, zigzag-coded
    consecutive = all_have_keys = True
    while following < 2 * count:
        number = data[position]  # the length
        position += 1
        if number >= 0x80:
            high = data[position]
            if high < 0x80:
                number += (high << 7) - 0x80
                position += 1
            else:
                number, position = _long_number(data, position - 1)
        end: i64 = position + (number >> 1)
        if number & 1 or number < 0 or end > size:
            raise ValueError("a record that is not there")
        number = data[position + 1]  # the timestamp delta, behind the attributes
        position += 2
        if number >= 0x80:
            number, position = _long_number(data, position - 1)
        if number != seen or following == 0:  # neighbours often have the same
            seen = number
            delta: i64 = (number >> 1 & _63_BITS) ^ -(number & 1)
            if delta < least:
                least = delta
            if delta > largest:
                largest = delta
        number = data[position]  # the offset delta
        position += 1
        if number >= 0x80:
            number, position = _long_number(data, position - 1)
        consecutive = consecutive and number == following
        following += 2
        number = data[position]  # the size of the key
        position += 1
        if number >= 0x80:
            number, position = _long_number(data, position - 1)
        if number & 1:
            all_have_keys = False
        else:
            position += number >> 1
            if number < 0 or position > end:
                raise ValueError("a key that reaches past its record")
        number = data[position]  # the size of the value
        position += 1
        if number >= 0x80:
            high = data[position]
            if high < 0x80:
                number += (high << 7) - 0x80
                position += 1
            else:
                number, position = _long_number(data, position - 1)
        if not number & 1:
            position += number >> 1
            if number < 0 or position > end:
                raise ValueError("a value that reaches past its record")
        position = _after_headers(data, position, end) if data[position] else position + 1
        if position != end:
            raise ValueError("a record whose fields do not fill it")
    if position != size:
        raise ValueError("bytes after the last record")
    return consecutive, least, largest, all_have_keys


def _after_headers(data: bytes, position: i64, end: i64) -> i64:
    """Return the position after the headers, whose number is at ``position``."""
    number: i64 = 0
    count: i64 = 0
    number, position = _long_number(data, position)
    if number & 1 or number < 0:
        raise ValueError("a negative number of headers")
    count = number >> 1
    while count:
        count -= 1
        number = data[position]
        position += 1
        if number >= 0x80:
            number, position = _long_number(data, position - 1)
        if number & 1:
            raise ValueError("a header without a name")
        position += number >> 1
        if number < 0 or position > end:
            raise ValueError("a name that reaches past its record")
        number = data[position]
        position += 1
        if number >= 0x80:
            number, position = _long_number(data, position - 1)
        if not number & 1:
            position += number >> 1
            if number < 0 or position > end:
                raise ValueError("a header that reaches past its record")
    return position


def _columns(data: bytes, count: i64, with_offsets: bool) -> RecordColumns:
    size: i64 = len(data)
    position: i64 = 0
    seen: i64 = 0
    delta: int = 0
    offsets: list[int] = []
    timestamps: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[Headers] = []
    while count > 0:
        count -= 1
        number: i64 = data[position]  # the length
        position += 1
        if number >= 0x80:
            high: i64 = data[position]
            if high < 0x80:
                number += (high << 7) - 0x80
                position += 1
            else:
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
            begin: i64 = position
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
