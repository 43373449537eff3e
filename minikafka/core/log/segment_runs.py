"""Divide the batches of a fetch response among the segments of a follower."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.core.log.index_math import fits
from minikafka.protocol.records.batch import RecordBatch


def segment_runs(batches: Sequence[RecordBatch], segment_bytes: int) -> list[Sequence[RecordBatch]]:
    """Divide ``batches`` (at least one) into runs that fit into one segment each.

    A batch that is larger than a segment is a run by itself: the leader appended it when
    ``segment.bytes`` was larger."""
    first, last = batches[0], batches[-1]
    if _fit_together(first, last, segment_bytes):
        return [batches]
    runs: list[Sequence[RecordBatch]] = []
    start = 0
    for index, batch in enumerate(batches):
        if index > start and not _fit_together(batches[start], batch, segment_bytes):
            runs.append(batches[start:index])
            start = index
    runs.append(batches[start:])
    return runs


def _fit_together(first: RecordBatch, last: RecordBatch, segment_bytes: int) -> bool:
    size = last.position + last.size_bytes - first.position
    return size <= segment_bytes and fits(first.base_offset, last.last_offset)
