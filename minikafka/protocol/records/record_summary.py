"""A summary of the records in a batch that a leader validates, computed without record objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from minikafka.protocol.records.record_layout import Want, compile_walk


class RecordSummary(NamedTuple):
    """The properties of a batch's records that a leader validates.

    Timestamp deltas (ms) are relative to the batch's base timestamp."""

    consecutive: bool  # offset deltas are 0, 1, 2, ...
    least_timestamp_delta: int
    largest_timestamp_delta: int
    all_have_keys: bool


# This runs for every record of every batch that a producer has compressed.
summarize_records: Callable[[bytes, int], RecordSummary] = compile_walk(
    "summarize_records",
    "data, count",
    {"timestamp_delta": Want.RAW, "offset_delta": Want.RAW, "key": Want.RAW},
    before="""
        consecutive = all_have_keys = True
        least, largest = 1 << 63, -1 << 63
        seen = None
    """,
    loop="for following in range(0, 2 * count, 2)",  # offset deltas, zigzag-coded
    each="""
        if timestamp_delta != seen:  # neighbours often have the same
            seen = timestamp_delta
            delta = (seen >> 1) ^ -(seen & 1)
            if delta < least:
                least = delta
            if delta > largest:
                largest = delta
        if offset_delta != following:
            consecutive = False
        if key & 1:
            all_have_keys = False
    """,
    result="RecordSummary(consecutive, least, largest, all_have_keys)",
    names={"RecordSummary": RecordSummary},
)
"""RecordSummary the ``count`` records (at least one) in ``data``, which is uncompressed.

Raises CorruptRecordError unless they are well-formed and fill ``data``. Kafka:
``DefaultRecord.readPartiallyFrom``.
"""
