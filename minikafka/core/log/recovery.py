"""Decide what of a log's files is trusted at load time, and what is dropped.

Kafka: ``LogLoader``, ``LogSegment.recover``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from minikafka.core.log.index_math import fits
from minikafka.protocol.records.batch import RecordBatch, crc_is_valid


def first_to_recover(base_offsets: Sequence[int], recovery_point: int) -> int:
    """Index of the first segment that may hold bytes which never reached the disk.

    Everything below ``recovery_point`` did. ``base_offsets`` rise. Returns 0 if there are none.
    """
    return max(bisect_right(base_offsets, recovery_point) - 1, 0)


def batch_survives(batch: RecordBatch, base_offset: int, end_offset: int) -> bool:
    """Whether recovery keeps this whole batch of the segment at ``base_offset``.

    ``end_offset`` is where the batches before it end. The base offset is not under the CRC, so it
    must at least rise and fit the segment.
    """
    return (
        batch.base_offset >= end_offset
        and batch.last_offset_delta >= 0
        and fits(base_offset, batch.last_offset)
        and crc_is_valid(batch)
    )


def has_hole(end_offset: int, next_base_offset: int, compacted: bool) -> bool:
    """Whether records are missing between a recovered segment and the one after it.

    A power loss can take the tail of one file, cut exactly between two batches, and spare the next
    file. What follows a hole is no prefix of what was appended, and is not loaded. The gaps
    that compaction leaves are no holes. (Kafka does not check.)
    """
    return end_offset < next_base_offset and not compacted


def recovery_point_after_load(
    clean: bool, checkpointed: int, log_end_offset: int, first_recovered: int | None
) -> int:
    """Return the recovery point of a loaded log. Only a clean shutdown proves that everything is on
    disk, and recovery itself flushes nothing.

    ``first_recovered`` is the base offset of the first segment whose indexes were rebuilt, which
    are not on disk again yet. (Kafka takes the checkpointed offset, and a second power loss may
    cost an index.)
    """
    point = log_end_offset if clean else min(checkpointed, log_end_offset)
    return point if first_recovered is None else min(point, first_recovered)


class SnapshotChoice(NamedTuple):
    """``use``: newest first. ``drop``: to be deleted."""

    use: list[int]
    drop: list[int]


def choose_snapshots(
    snapshot_offsets: Sequence[int], log_start_offset: int, log_end_offset: int
) -> SnapshotChoice:
    """Producer snapshots that lie within the log, and those that do not."""
    use: list[int] = []
    drop: list[int] = []
    for offset in sorted(snapshot_offsets, reverse=True):
        inside = log_start_offset < offset <= log_end_offset
        (use if inside else drop).append(offset)
    return SnapshotChoice(use, drop)


def stray_snapshots(snapshot_offsets: Sequence[int], base_offsets: Sequence[int]) -> list[int]:
    """Snapshots that belong to no segment, but for the newest one when it lies beyond them all (a
    clean shutdown's)."""
    bases = set(base_offsets)
    strays = sorted(offset for offset in snapshot_offsets if offset not in bases)
    if strays and strays[-1] > max(bases, default=-1):
        strays.pop()
    return strays
