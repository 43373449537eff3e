"""Plans compaction: which part of a log is cleaned, and which segments are merged.

Kafka: ``LogCleanerManager``, ``LogToClean``, ``Cleaner.groupSegmentsBySize``, ``Throttler``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from minikafka.core.log.config import LogConfig
from minikafka.core.log.segment_limits import fits
from minikafka.kernel.lazy_dataclass import dataclass

_THROTTLE_INTERVAL_MS: Final = 300


@dataclass(slots=True)
class CleanerStats:
    """Counters of one cleaning, in records and bytes."""

    map_bytes_read: int = 0
    map_records_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    records_without_key: int = 0
    buffer_utilization: float = 0.0
    elapsed_ms: int = 0


class CleanableSegment(NamedTuple):
    """The facts about a segment that a cleaning is planned from.

    ``max_timestamp`` is in ms, -1 if no record has a timestamp."""

    base_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int
    max_timestamp: int


class LogFacts(NamedTuple):
    """The facts about a log that a cleaning is planned from. The last segment is the active one.

    All records below ``stable_offset`` are below the high watermark and in no open transaction.
    ``cleaned_offset`` is the end offset of the last cleaning, None before the first one.
    """

    start_offset: int
    end_offset: int
    stable_offset: int
    cleaned_offset: int | None
    segments: Sequence[CleanableSegment]


class Dirt(NamedTuple):
    """The part of a log that can be cleaned.

    It begins with the segment that holds the offset ``first_dirty`` and ends before the one that
    starts at ``first_uncleanable``. ``clean_bytes`` is the size of the segments that start before
    ``first_dirty``."""

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    cleanable_bytes: int

    @property
    def ratio(self) -> float:
        """The dirty ratio: cleanable bytes over clean and cleanable bytes, 0 for an empty log.

        Compared with ``min.cleanable.dirty.ratio``."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def dirt_of(log: LogFacts, config: LogConfig, now_ms: int) -> Dirt:
    """Return the part of a log that can be cleaned.

    It ends at the first of these segments:
    A. the last one with records, at most the active one. If the last batch of the log were removed,
       the log would end in a gap, and followers could not fetch beyond it.
    B. the one with ``stable_offset``: later records may be truncated or aborted.
    C. the first dirty one with a record younger than ``min.compaction.lag.ms``.
    """
    segments = log.segments
    bases = [segment.base_offset for segment in segments]
    first_dirty = _first_dirty(log)
    filled = (segment.base_offset for segment in reversed(segments) if segment.size_bytes)
    limit = min(next(filled, bases[0]), log.stable_offset)
    if config.min_compaction_lag_ms > 0:
        youngest_allowed = now_ms - config.min_compaction_lag_ms
        for segment in segments[_floor(bases, first_dirty) : -1]:
            if segment.max_timestamp > youngest_allowed:
                limit = min(limit, segment.base_offset)
                break
    first, last = _floor(bases, first_dirty), _floor(bases, max(limit, first_dirty))
    return Dirt(
        first_dirty,
        bases[last],
        sum(segment.size_bytes for segment in segments if segment.base_offset < first_dirty),
        sum(segment.size_bytes for segment in segments[first:last]),
    )


def _first_dirty(log: LogFacts) -> int:
    """Return the end offset of the last cleaning, or the log start offset if none has been done or
    if the log does not contain that offset any more."""
    cleaned = log.cleaned_offset
    if cleaned is None or not log.start_offset <= cleaned <= log.end_offset:
        return log.start_offset
    return cleaned


def _floor(bases: Sequence[int], offset: int) -> int:
    """Return the index of the segment that holds ``offset``, which is not below the first base."""
    return bisect_right(bases, offset) - 1


def overdue_ms(first_timestamps: Iterable[int], config: LogConfig, now_ms: int) -> int:
    """Return by how many ms the oldest dirty segment exceeds ``max.compaction.lag.ms``, else 0.

    ``first_timestamps`` are those of the first batches of the dirty segments, without the active
    one."""
    earliest = min((time for time in first_timestamps if time > 0), default=None)
    if earliest is None:
        return 0
    return max(now_ms - config.max_compaction_lag_ms - earliest, 0)


def wants_cleaning(dirt: Dirt, config: LogConfig, is_overdue: bool) -> bool:
    """Return whether a log is to be cleaned: it is overdue, or its dirty ratio is above the
    limit."""
    if is_overdue and dirt.cleanable_bytes > 0:
        return True
    return dirt.ratio > config.min_cleanable_dirty_ratio


def group_segments(
    segments: Sequence[CleanableSegment], config: LogConfig, first_uncleanable: int
) -> list[list[CleanableSegment]]:
    """Group adjacent segments that fit into one segment together, by the sizes before cleaning.

    Each group is cleaned into one segment, so that cleaning does not leave many small segments."""
    groups: list[list[CleanableSegment]] = []
    size = index_size = time_index_size = 0
    for number, segment in enumerate(segments):
        is_last = number + 1 == len(segments)
        end = first_uncleanable if is_last else segments[number + 1].base_offset
        size += segment.size_bytes
        index_size += segment.index_bytes
        time_index_size += segment.time_index_bytes
        if (
            groups
            and size <= config.segment_bytes
            and max(index_size, time_index_size) <= config.index_size_max_bytes
            and (segment.size_bytes == 0 or fits(groups[-1][0].base_offset, end - 1))
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, index_size = segment.size_bytes, segment.index_bytes
            time_index_size = segment.time_index_bytes
    return groups


class Throttle:
    """A limit on the rate of bytes read and written, applied every 300 ms."""

    def __init__(self, bytes_per_second: float, now_ms: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._period_start_ms = now_ms
        self._observed = 0

    def observe(self, size_bytes: int, now_ms: int) -> int:
        """Count bytes, and return how many ms the caller must wait before it continues."""
        self._observed += size_bytes
        elapsed = now_ms - self._period_start_ms
        if elapsed < _THROTTLE_INTERVAL_MS:
            return 0
        due = self._observed * 1000 / self._bytes_per_second
        wait_ms = max(int(due) - elapsed, 0)
        self._period_start_ms = now_ms + wait_ms
        self._observed = 0
        return wait_ms
