"""A summary of the records in a batch that a leader validates, computed without record objects.

This loop runs for every record that a producer sends. Where a C compiler is available at
installation, mypyc compiles this file as it stands: a record then takes 10 ns instead of 600. That
is why the integers are declared as ``i64``, and why the loop is written out here, and not by
``record_layout.compile_walk``. Without a compiler Python runs the same text.

In compiled code an ``i64`` wraps around at 64 bits. A length that is as large as that is refused
before it is added to a position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from minikafka.protocol.records.batch import CorruptRecordError
from minikafka.protocol.records.record_layout import problem_of

if TYPE_CHECKING:
    from mypy_extensions import i64

LEAST_RECORD_BYTES: Final = 7  # its length, attributes, two deltas, no key, no value, no headers
MAX_EXPLAINED_BYTES: Final = 64 * 1024  # to find the reason takes a hundred times as long
_MAX_NUMBER_BYTES: Final = 10
_63_BITS: Final = 0x7FFFFFFFFFFFFFFF


# Whether the offset deltas are 0, 1, 2, ...; the least and the largest timestamp delta, in ms to
# the batch's base timestamp; whether all records have keys. A plain tuple: each batch makes one.
RecordSummary: TypeAlias = tuple[bool, int, int, bool]


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
        if len(data) > MAX_EXPLAINED_BYTES:
            raise CorruptRecordError(f"malformed records in a batch of {count}") from error
        raise CorruptRecordError(problem_of(data, count)) from error


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
