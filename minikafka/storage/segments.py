"""The segments of one log, in order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import is_

from minikafka.storage.segment import LogSegment


class LogSegments:
    """Ordered by base offset; the last one is active. Kafka: ``LogSegments``."""

    def __init__(self) -> None:
        self._segments: list[LogSegment] = []
        self._base_offsets: list[int] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        """Over a copy, so that segments may go meanwhile."""
        return iter(self._segments[:])

    @property
    def base_offsets(self) -> list[int]:
        return self._base_offsets[:]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def first(self) -> LogSegment | None:
        return self._segments[0] if self._segments else None

    @property
    def active(self) -> LogSegment | None:
        return self._segments[-1] if self._segments else None

    def add(self, segment: LogSegment) -> None:
        """Raises nothing; ``segment`` must lie after all others."""
        assert not self._base_offsets or segment.base_offset > self._base_offsets[-1]
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)

    def pop(self) -> LogSegment:
        """Take away the active segment; the one before it becomes active."""
        self._base_offsets.pop()
        return self._segments.pop()

    def holds(self, segments: Sequence[LogSegment]) -> bool:
        """Whether all of these, neighbours, are still the segments of their offsets."""
        start = bisect_left(self._base_offsets, segments[0].base_offset)
        here = self._segments[start : start + len(segments)]
        return len(here) == len(segments) and all(map(is_, here, segments))

    def replace(self, old: Sequence[LogSegment], new: LogSegment) -> None:
        """Let ``new`` stand for neighbours that it starts with."""
        assert self.holds(old)
        assert new.base_offset == old[0].base_offset
        start = bisect_left(self._base_offsets, new.base_offset)
        self._segments[start : start + len(old)] = [new]
        self._base_offsets[start : start + len(old)] = [new.base_offset]

    def first_ends_below(self, offset: int) -> bool:
        """Whether the first segment holds nothing from ``offset`` on. Never the active one."""
        return len(self._base_offsets) > 1 and self._base_offsets[1] <= offset

    def pop_first(self) -> LogSegment:
        """Take away the first segment, which is not the active one."""
        assert len(self._base_offsets) > 1
        del self._base_offsets[0]
        return self._segments.pop(0)

    def floor(self, offset: int) -> LogSegment | None:
        """The last segment that starts at or before ``offset``."""
        index = bisect_right(self._base_offsets, offset) - 1
        return self._segments[index] if index >= 0 else None

    def after(self, base_offset: int) -> LogSegment | None:
        """The segment after the one that starts at ``base_offset``."""
        index = bisect_right(self._base_offsets, base_offset)
        return self._segments[index] if index < len(self._segments) else None

    def since(self, offset: int) -> list[LogSegment]:
        """The segments that may hold ``offset`` or anything after it."""
        return self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0) :]
