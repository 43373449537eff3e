"""Which log is to be compacted next, how much of it, and which segments become one.

Kafka: ``LogCleanerManager``, ``LogToClean``, ``Cleaner.groupSegmentsBySize``, ``Throttler``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from minikafka.core.log.config import LogConfig
from minikafka.core.log.index_math import fits

_THROTTLE_INTERVAL_MS: Final = 300


class CleanableSegment(NamedTuple):
    """A segment as the plan needs to know it. ``max_timestamp`` is in ms, or -1."""

    base_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int
    max_timestamp: int


class LogFacts(NamedTuple):
    """A log as the plan needs to know it; the last of ``segments`` is the active one.

    ``stable_offset``: everything below is committed and decided. ``cleaned_offset``: how far the
    last cleaning has come, None before the first.
    """

    start_offset: int
    end_offset: int
    stable_offset: int
    cleaned_offset: int | None
    segments: Sequence[CleanableSegment]


class Dirt(NamedTuple):
    """What can be cleaned of one log: segments from the one that holds ``first_dirty`` up to
    ``first_uncleanable``, which is where a segment starts."""

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    cleanable_bytes: int

    @property
    def ratio(self) -> float:
        """The share of what cleaning would leave aside or read that is dirty; 0 for nothing."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def dirt_of(log: LogFacts, config: LogConfig, now_ms: int) -> Dirt:
    """Cleaning stops A: at the active segment, or before that at the last one that holds anything:
    a log whose last batch went would end in a gap that no follower gets over; B: at what may still
    be undone or undecided; C: at the first dirty segment with a record younger than
    ``min.compaction.lag.ms``."""
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
    """Where the last cleaning ended; the log start if the log does not reach there any more, or
    starts later by now."""
    cleaned = log.cleaned_offset
    if cleaned is None or not log.start_offset <= cleaned <= log.end_offset:
        return log.start_offset
    return cleaned


def _floor(bases: Sequence[int], offset: int) -> int:
    """Index of the segment that holds ``offset``, which is not before the log."""
    return bisect_right(bases, offset) - 1


def overdue_ms(first_timestamps: Iterable[int], config: LogConfig, now_ms: int) -> int:
    """For how long a dirty segment has been older than ``max.compaction.lag.ms``, by the timestamps
    of the first batches of the dirty segments that are not active. 0: none is."""
    earliest = min((time for time in first_timestamps if time > 0), default=None)
    if earliest is None:
        return 0
    return max(now_ms - config.max_compaction_lag_ms - earliest, 0)


def wants_cleaning(dirt: Dirt, config: LogConfig, is_overdue: bool) -> bool:
    if is_overdue and dirt.cleanable_bytes > 0:
        return True
    return dirt.ratio > config.min_cleanable_dirty_ratio


def group_segments(
    segments: Sequence[CleanableSegment], config: LogConfig, first_uncleanable: int
) -> list[list[CleanableSegment]]:
    """Neighbours that fit one segment together, so that cleaned segments do not stay small ones."""
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
    """Holds the bytes read and written to a rate, looked at every 300 ms."""

    def __init__(self, bytes_per_second: float, now_ms: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._period_start_ms = now_ms
        self._observed = 0

    def observe(self, size_bytes: int, now_ms: int) -> int:
        """Milliseconds to wait before going on."""
        self._observed += size_bytes
        elapsed = now_ms - self._period_start_ms
        if elapsed < _THROTTLE_INTERVAL_MS:
            return 0
        due = self._observed * 1000 / self._bytes_per_second
        wait_ms = max(int(due) - elapsed, 0)
        self._period_start_ms = now_ms + wait_ms
        self._observed = 0
        return wait_ms
