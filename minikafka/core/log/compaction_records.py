"""The records of a batch as compaction needs them: place, key, and whether there is a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from minikafka.protocol.buffer import read_varlong, write_varint, write_varlong
from minikafka.protocol.records.record_layout import Want, compile_walk

# (start, end, timestamp delta, offset delta, key, has value). Start and end are positions in the
# records of the batch, the record's length field included. A plain tuple, because one is made for
# each record.
FoundRecord: TypeAlias = tuple[int, int, int, int, bytes | None, bool]


# This runs for every record of a dirty segment twice.
find_records: Callable[[bytes, int], Iterator[FoundRecord]] = compile_walk(
    "find_records",
    "data, count",
    {
        "timestamp_delta": Want.SIGNED,
        "offset_delta": Want.SIGNED,
        "key": Want.CONTENT,
        "value": Want.RAW,
    },
    each="""
        if offset_delta < 0:
            malformed()
        yield start, end, timestamp_delta, offset_delta, key, not value & 1
    """,
    skip_rest=True,
)
"""Yield the ``count`` records in ``data``, which is uncompressed. Their headers are not parsed.
Raises CorruptRecordError."""


def with_timestamp_delta(data: bytes, record: FoundRecord, timestamp_delta: int) -> bytes:
    """Return the bytes of ``record`` with another timestamp delta (ms)."""
    start, end = record[:2]
    _, position = read_varlong(data, start)
    attributes = data[position : position + 1]
    _, position = read_varlong(data, position + 1)
    body = attributes + write_varlong(timestamp_delta) + data[position:end]
    return write_varint(len(body)) + body
