"""Decisions of log recovery: which segments, batches and snapshots are kept when a log is loaded.

Kafka: ``LogLoader``, ``LogSegment.recover``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from minikafka.core.log.segment_limits import fits
from minikafka.protocol.records.batch import RecordBatch, crc_is_valid


def first_to_recover(base_offsets: Sequence[int], recovery_point: int) -> int:
    """Return the index of the first segment that may not be completely on disk.

    All records below ``recovery_point`` are on disk. ``base_offsets`` are in increasing order; if
    there are none, the result is 0.
    """
    return max(bisect_right(base_offsets, recovery_point) - 1, 0)


def batch_survives(batch: RecordBatch, base_offset: int, end_offset: int) -> bool:
    """Return whether recovery keeps a batch of the segment that starts at ``base_offset``.

    ``end_offset`` is the offset after the batch before it. The CRC does not cover the base offset
    of a batch, so its offsets are checked as well.
    """
    return offsets_are_possible(batch, base_offset, end_offset) and crc_is_valid(batch)


def offsets_are_possible(batch: RecordBatch, base_offset: int, end_offset: int) -> bool:
    """Return whether a batch may have its offsets after a batch that ends at ``end_offset``, in the
    segment that starts at ``base_offset``: they increase, and fit the segment's indexes."""
    return (
        batch.base_offset >= end_offset
        and batch.last_offset_delta >= 0
        and fits(base_offset, batch.last_offset)
    )


def has_hole(end_offset: int, next_base_offset: int, compacted: bool) -> bool:
    """Return whether records are missing between a recovered segment and the next one.

    A power loss can remove the tail of one file, exactly between two batches, and leave the next
    file. Segments after a hole are not loaded, because a log must be a prefix of what was appended.
    In a compacted log gaps are normal, so there it is not a hole. Kafka does not check this.
    """
    return end_offset < next_base_offset and not compacted


def recovery_point_after_load(
    clean: bool, checkpointed: int, log_end_offset: int, first_recovered: int | None
) -> int:
    """Return the recovery point of a loaded log.

    After a clean shutdown it is the log end offset, otherwise the checkpointed recovery point,
    because recovery does not flush. It is at most ``first_recovered``, the base offset of the first
    segment whose indexes were rebuilt: these are not on disk yet. Kafka takes the checkpointed
    offset, and a second power loss may cost it an index.
    """
    point = log_end_offset if clean else min(checkpointed, log_end_offset)
    return point if first_recovered is None else min(point, first_recovered)


class SnapshotChoice(NamedTuple):
    """The offsets of producer snapshots to try, newest first, and of those to delete."""

    use: list[int]
    drop: list[int]


def choose_snapshots(
    snapshot_offsets: Sequence[int], log_start_offset: int, log_end_offset: int
) -> SnapshotChoice:
    """Divide producer snapshots into those within the log, to use, and others, to delete."""
    use: list[int] = []
    drop: list[int] = []
    for offset in sorted(snapshot_offsets, reverse=True):
        inside = log_start_offset < offset <= log_end_offset
        (use if inside else drop).append(offset)
    return SnapshotChoice(use, drop)


def stray_snapshots(snapshot_offsets: Sequence[int], base_offsets: Sequence[int]) -> list[int]:
    """Return the snapshots at no segment's base offset. The newest one is left out if it is above
    all base offsets: a clean shutdown writes one at the log end."""
    bases = set(base_offsets)
    strays = sorted(offset for offset in snapshot_offsets if offset not in bases)
    if strays and strays[-1] > max(bases, default=-1):
        strays.pop()
    return strays
