"""Looking over all records of a batch without making objects of them."""

from __future__ import annotations

from typing import NamedTuple

from minikafka.protocol.buffer import read_uvarlong, read_varlong
from minikafka.protocol.records.batch import CorruptRecordError


class Survey(NamedTuple):
    """What a leader has to know of the records in a batch (times are deltas to the batch's)."""

    consecutive: bool  # offset deltas are 0, 1, 2, ...
    least_timestamp_delta: int
    largest_timestamp_delta: int
    all_have_keys: bool


def survey_records(data: bytes, count: int) -> Survey:
    """``data`` holds exactly ``count`` well-formed records, uncompressed, at least one.

    Short varints are read in place: this runs for every record of every compressed batch that is
    produced. Raises CorruptRecordError. Kafka: ``DefaultRecord.readPartiallyFrom``."""
    consecutive = all_have_keys = True
    least, largest = 1 << 63, -1 << 63
    position = odd = 0
    timestamp = None
    try:
        for offset_delta in range(0, 2 * count, 2):  # doubled, as zigzag has it
            value = data[position]
            position += 1
            if value >= 0x80:
                if (high := data[position]) < 0x80:
                    value += (high << 7) - 0x80
                    position += 1
                else:
                    value, position = read_uvarlong(data, position - 1)
            odd |= value  # a negative length
            end = position + (value >> 1)
            value = data[position + 1]  # after the attributes, of which none are in use
            position += 2
            if value >= 0x80:
                value, position = read_uvarlong(data, position - 1)
            if value != timestamp:  # neighbours often have the same
                timestamp = value
                delta = (value >> 1) ^ -(value & 1)
                if delta < least:
                    least = delta
                if delta > largest:
                    largest = delta
            value = data[position]
            position += 1
            if value >= 0x80:
                if (high := data[position]) < 0x80:
                    value += (high << 7) - 0x80
                    position += 1
                else:
                    value, position = read_uvarlong(data, position - 1)
            if value != offset_delta:
                consecutive = False
            value = data[position]
            position += 1
            if value >= 0x80:
                value, position = read_uvarlong(data, position - 1)
            if value & 1:
                all_have_keys = False
            else:
                position += value >> 1
            value = data[position]
            position += 1
            if value >= 0x80:
                if (high := data[position]) < 0x80:
                    value += (high << 7) - 0x80
                    position += 1
                else:
                    value, position = read_uvarlong(data, position - 1)
            if not value & 1:
                position += value >> 1
            position = _past_headers(data, position) if data[position] else position + 1
            if position != end:
                break
        else:
            end = len(data)
    except (IndexError, ValueError) as error:
        raise CorruptRecordError(f"a malformed record: {error}") from error
    if position != end or odd & 1:
        raise CorruptRecordError(f"records that end at byte {position}, not at {end}")
    return Survey(consecutive, least, largest, all_have_keys)


def _past_headers(data: bytes, position: int) -> int:
    """Where the headers at ``position`` end."""
    count, position = read_varlong(data, position)
    if count < 0:
        raise CorruptRecordError(f"a record with {count} headers")
    for _ in range(count):
        length, position = read_varlong(data, position)
        if length < 0:
            raise CorruptRecordError("a header without a name")
        length, position = read_varlong(data, position + length)
        position += max(0, length)
    return position
