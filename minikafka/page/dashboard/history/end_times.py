"""When a log ended where: lag in records becomes lag in time.

A group that has committed offset 7 has not read record 7 yet, which was written when the log end
went beyond 7. That moment is interpolated between two samples of the log end.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

MAX_POINTS: Final = 128


class LagTime(NamedTuple):
    """For how long the next record has waited, in ms. Not ``exact``: it has waited longer, since it
    was there already at the first sample."""

    ms: int
    exact: bool


class EndTimes:
    """The log ends of one partition over time. Older points become fewer, so what they say is less
    exact; there are never more than ``MAX_POINTS``."""

    def __init__(self) -> None:
        self._at_ms = array("q")
        self._ends = array("q")

    @classmethod
    def of(cls, points: Iterable[tuple[int, int]]) -> EndTimes:
        """Return what ``points`` of another one say."""
        found = cls()
        for at_ms, end in points:
            found.add(at_ms, end)
        return found

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def points(self) -> list[tuple[int, int]]:
        """When the log ended where, oldest first."""
        return list(zip(self._at_ms, self._ends, strict=True))

    def add(self, at_ms: int, end: int) -> None:
        """Add a sample. A smaller end is that of another log of the same name."""
        at, ends = self._at_ms, self._ends
        if ends and (end < ends[-1] or at_ms <= at[-1]):
            if end >= ends[-1]:
                return  # a clock was set back
            del at[:], ends[:]
        if len(ends) > 1 and ends[-2] == ends[-1] == end:
            at[-1] = at_ms  # until when the log ended there
            return
        at.append(at_ms)
        ends.append(end)
        if len(ends) > MAX_POINTS:
            half = len(ends) // 2
            del at[1:half:2], ends[1:half:2]

    def lag(self, committed: int, now_ms: int, end: int | None = None) -> LagTime | None:
        """Return for how long the record ``committed`` has waited, 0 if it is not there yet; None
        without any sample. ``end`` is the log end at ``now_ms``, if it was read since the last
        sample."""
        at, ends = self._at_ms, self._ends
        if not ends:
            return None
        after = bisect_right(ends, committed)  # the first point whose end is beyond it
        if after == 0:
            return LagTime(max(0, now_ms - at[0]), False)
        if after < len(ends):
            next_ms, high = at[after], ends[after]
        elif end is not None and end > committed:
            next_ms, high = now_ms, end
        else:
            return LagTime(0, True)
        before_ms, low = at[after - 1], ends[after - 1]
        written_ms = before_ms + round((next_ms - before_ms) * (committed - low) / (high - low))
        return LagTime(max(0, now_ms - written_ms), True)
