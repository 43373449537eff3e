"""Which segments of a log are too old, too many, or below its start: what Kafka deletes and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from minikafka.core.log.config import LogConfig


class RetainedSegment(NamedTuple):
    """``largest_timestamp`` (ms) is that of its records, or of its file where no record has one."""

    base_offset: int
    size_bytes: int
    largest_timestamp: int


class SegmentDeletion(NamedTuple):
    base_offset: int
    reason: str  # in Kafka's words


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """``roll``: all segments go, so an empty one has to be added at the log end first. Then the log
    starts at ``log_start_offset``."""

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
    """The oldest segments that may go, and why. Kafka: ``UnifiedLog.deleteOldSegments``.

    A. below the log start, whatever the policy: all of it lies below, and it is not the last one;
    B. by size, where the policy deletes: without it the log still has ``retention_bytes``;
    C. by time, where the policy deletes: its latest record is older than ``retention_ms``.

    What is not below the high watermark stays, so that the log start never passes it; so does a
    last segment that is empty. The first segment that stays ends each of the cases.
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
