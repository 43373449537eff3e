"""Retention: which segments of a log are deleted, by time, by size, or below the log start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from minikafka.core.log.config import LogConfig
from minikafka.kernel.lazy_dataclass import dataclass


class RetainedSegment(NamedTuple):
    """The facts about a segment that retention is planned from.

    ``largest_timestamp`` (ms) is that of its records, or the file's modification time if no record
    has one."""

    base_offset: int
    size_bytes: int
    largest_timestamp: int


class SegmentDeletion(NamedTuple):
    base_offset: int
    reason: str  # as in Kafka's log


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """The segments to delete, and the log start offset after that.

    If ``roll`` is True, all segments are deleted, and the caller must roll a new one first."""

    deletions: tuple[SegmentDeletion, ...]
    log_start_offset: int
    roll: bool


def plan_retention(
    segments: Sequence[RetainedSegment],
    config: LogConfig,
    now_ms: int,
    high_watermark: int,
    log_start_offset: int,
    log_end_offset: int,
) -> RetentionPlan:
    """Return the oldest segments that may be deleted. Kafka: ``UnifiedLog.deleteOldSegments``.

    A segment may be deleted

    A. whatever the cleanup policy, if all its offsets are below the log start offset and it is not
       the last segment;
    B. with the policy ``delete``, if the log has ``retention_bytes`` without it;
    C. with the policy ``delete``, if its latest record is older than ``retention_ms``.

    Each of these deletes from the oldest segment on and stops at the first that it keeps. A segment
    that is not completely below the high watermark is kept, so that the log start never passes the
    high watermark. An empty last segment is kept, too.
    """
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    going: list[SegmentDeletion] = []

    def may_go() -> bool:
        at = len(going)
        if at >= len(segments) or ends[at] > high_watermark:
            return False
        return at < len(segments) - 1 or segments[at].size_bytes > 0

    def go(reason: str) -> None:
        going.append(SegmentDeletion(segments[len(going)].base_offset, reason))

    reason = f"log start offset {log_start_offset} breach"
    while may_go() and len(going) < len(segments) - 1 and ends[len(going)] <= log_start_offset:
        go(reason)  # case A
    size_bytes = sum(segment.size_bytes for segment in segments[len(going) :])
    if config.deletes and config.retention_bytes >= 0:
        reason = f"log retention size {config.retention_bytes} breach"
        while (
            may_go() and size_bytes - segments[len(going)].size_bytes >= config.retention_bytes
        ):  # case B
            size_bytes -= segments[len(going)].size_bytes
            go(reason)
    if config.deletes and config.retention_ms >= 0:
        reason = f"log retention time {config.retention_ms}ms breach"
        while may_go() and now_ms - segments[len(going)].largest_timestamp > config.retention_ms:
            go(reason)  # case C
    start = max(log_start_offset, ends[len(going) - 1]) if going else log_start_offset
    return RetentionPlan(tuple(going), start, bool(going) and len(going) == len(segments))
