"""Finds the newest records of all partitions, by time, reading each partition from its end. Pure.

A partition can only be read forwards, so the end of each is read in windows, which grow downwards.
All records that are newer than the oldest record of any window are known to be the newest ones;
windows whose oldest record is newer than what is needed have to grow first. So partitions with many
records a second grow more than others, and few records are read without need.

A record counts as no newer than those after it in its partition. So the records of a partition keep
their order whatever their timestamps are, and what has been passed of a partition is always all of
it from some offset on.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

LEAST_CHUNK: Final = 4  # offsets
MOST_CHUNK: Final = 2_000
MOST_KEPT_BYTES: Final = 32 * 1024 * 1024  # of rows


class Passed(NamedTuple, Generic[T]):
    """``rows`` match, newest first. ``before`` is where the older ones of each partition end."""

    rows: list[T]
    before: dict[int, int]


class _Entry(Generic[T]):
    """A record. ``row`` is what is shown of it if it matches and may be among the newest."""

    __slots__ = ("offset", "row", "size", "time")

    def __init__(self, offset: int, time: int, row: T | None, size: int) -> None:
        self.offset = offset
        self.time = time
        self.row = row
        self.size = size


class _Window(Generic[T]):
    """What was read of a partition: the offsets from ``low`` to ``high``, exclusively."""

    def __init__(self, begin: int, high: int, chunk: int) -> None:
        self.begin = begin
        self.low = self.high = high
        self.chunk = chunk
        self.entries: list[_Entry[T]] = []
        self.next_low = high
        self.coming: list[_Entry[T]] = []  # from ``next_low`` to ``low``, while they are read

    @property
    def frontier(self) -> float:
        """The time that unread records of this partition do not exceed."""
        if self.low <= self.begin:
            return -math.inf
        return self.entries[0].time if self.entries else math.inf

    def grow(self) -> tuple[int, int]:
        self.next_low = max(self.begin, self.low - self.chunk)
        self.chunk = min(2 * self.chunk, MOST_CHUNK)
        self.coming = []
        return self.next_low, self.low

    def settle(self) -> list[_Entry[T]]:
        """Add what has been read, and return it."""
        latest: float = self.entries[0].time if self.entries else math.inf
        for entry in reversed(self.coming):
            latest = entry.time = int(min(latest, entry.time))
        settled, self.coming = self.coming, []
        self.entries = settled + self.entries
        self.low = self.next_low
        return settled


class Newest(Generic[T]):
    """The search for the ``limit`` newest records that match.

    Read what ``wanted`` returns: ``add`` each record, and call ``read`` for each partition, until
    nothing is wanted; or stop at any time. ``passed`` returns what was found, which may be fewer.
    """

    def __init__(
        self, begins: Mapping[int, int], highs: Mapping[int, int], limit: int, budget: int
    ) -> None:
        """The first ``wanted`` is of about ``budget`` records at most."""
        self._limit = limit
        share = max(LEAST_CHUNK, 2 * math.ceil(limit / max(1, len(highs))))
        chunk = max(1, min(share, MOST_CHUNK, budget // max(1, len(highs))))
        self._windows: dict[int, _Window[T]] = {
            number: _Window(begins[number], high, chunk) for number, high in highs.items()
        }
        self._newest: list[int] = []  # the times of the newest records that match, a heap
        self._kept_bytes = 0
        self._sweep_at = MOST_KEPT_BYTES

    @property
    def threshold(self) -> float:
        """Records older than this time are not among the newest, as far as they are known."""
        return self._newest[0] if len(self._newest) >= self._limit else -math.inf

    def wanted(self) -> dict[int, tuple[int, int]]:
        """Return which offsets to read of which partitions: the first, and the one after the
        last."""
        threshold = self.threshold
        growing = {n: w.frontier for n, w in self._windows.items() if w.frontier > threshold}
        if not growing:
            return {}
        newest = max(growing.values())
        if newest == math.inf:
            least = newest
        elif threshold == -math.inf:  # those that are ahead in time wait for the others
            least = newest - (newest - min(growing.values())) / 2
        else:
            least = threshold
        return {
            number: self._windows[number].grow() for number, at in growing.items() if at >= least
        }

    def add(self, partition: int, offset: int, time: int, row: T | None, size: int = 0) -> None:
        """Add the next record of a partition. ``row`` is None if it does not match, or is older
        than ``threshold``; ``size`` is about the bytes that it takes."""
        self._windows[partition].coming.append(_Entry(offset, time, row, size))

    def read(self, partition: int) -> None:
        """All records that were wanted of a partition have been added."""
        for entry in self._windows[partition].settle():
            self._kept_bytes += entry.size
            if entry.row is not None:
                heapq.heappush(self._newest, entry.time)
                if len(self._newest) > self._limit:
                    heapq.heappop(self._newest)
        if self._kept_bytes > self._sweep_at:
            self._sweep()

    def _sweep(self) -> None:
        """Drop rows that are not among the newest. If the others take too much memory, find fewer
        of them."""
        self._drop()
        while self._kept_bytes > MOST_KEPT_BYTES and self._limit > 1:
            self._limit = self._limit * 3 // 4
            self._newest = heapq.nlargest(self._limit, self._newest)[::-1]
            self._drop()
        self._sweep_at = max(MOST_KEPT_BYTES, 2 * self._kept_bytes)

    def _drop(self) -> None:
        threshold = self.threshold
        self._kept_bytes = 0
        for window in self._windows.values():
            for entry in window.entries:
                if entry.time < threshold:
                    entry.row, entry.size = None, 0
                self._kept_bytes += entry.size

    def passed(self) -> Passed[T]:
        """Return the newest records. Partitions that could not be read do not count."""
        windows = {number: window for number, window in self._windows.items() if window.entries}
        before = {number: window.high for number, window in self._windows.items()}
        safe = max((window.frontier for window in windows.values()), default=-math.inf)
        entries = [
            (entry.time, number, entry.offset, entry.row)
            for number, window in windows.items()
            for entry in window.entries
            if entry.time >= safe
        ]
        entries.sort(key=lambda entry: entry[:3], reverse=True)
        rows: list[T] = []
        for _, number, offset, row in entries:
            if len(rows) >= self._limit:
                break
            before[number] = offset
            if row is not None:
                rows.append(row)
        for number, window in self._windows.items():
            if not window.entries or before[number] == window.entries[0].offset:
                before[number] = window.low  # nothing is left of it that could be shown
        return Passed(rows, before)
