"""Numbers over time in bounded memory: a fixed number of steps, fine ones for the last hour and
coarse ones for the last day.

Everything here is pure; times are milliseconds since 1970.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

FINE_MS: Final = 10_000
FINE_STEPS: Final = 360  # an hour
COARSE_MS: Final = 60_000
COARSE_STEPS: Final = 1_440  # a day
MAX_SERIES: Final = 1_500
MISSING: Final = math.nan
_NONE: Final = -1


class HistorySeries(NamedTuple):
    """What a number is about: ``HistorySeries("topic", "orders", "records")`` is a topic's rate."""

    kind: str
    name: str
    what: str


Values = Mapping[HistorySeries, float]


class Ring:
    """The last ``steps`` steps of ``step_ms``. A step is named by its number since 1970."""

    def __init__(self, step_ms: int, steps: int) -> None:
        self.step_ms = step_ms
        self.steps = steps
        self._numbers = array("q", [_NONE]) * steps  # of the step in each slot
        self._series: dict[HistorySeries, array[float]] = {}
        self._last: dict[HistorySeries, int] = {}  # the last step with a value

    def __len__(self) -> int:
        """Return how many series there are."""
        return len(self._series)

    def put(self, at_ms: int, values: Values) -> None:
        """Add values to the step at a time; they replace earlier ones of that step. A time before
        all steps that are kept is ignored, as it is when a clock was set back by far."""
        number = at_ms // self.step_ms
        slot = number % self.steps
        if number < self._numbers[slot]:
            return
        if number > self._numbers[slot]:
            self._numbers[slot] = number
            for kept in self._series.values():
                kept[slot] = MISSING
        for series, value in values.items():
            self._of(series)[slot] = value
            self._last[series] = max(number, self._last.get(series, _NONE))

    def _of(self, series: HistorySeries) -> array[float]:
        """Return the values of a series; a new one takes the place of the one that was silent for
        the longest time, if there are ``MAX_SERIES``."""
        found = self._series.get(series)
        if found is None:
            if len(self._series) >= MAX_SERIES:
                silent = min(self._last, key=self._last.__getitem__)
                del self._series[silent], self._last[silent]
            found = self._series[series] = array("f", [MISSING]) * self.steps
        return found

    def values(self, at_ms: int) -> dict[HistorySeries, float]:
        """Return the values of the step at a time."""
        number = at_ms // self.step_ms
        slot = number % self.steps
        if self._numbers[slot] != number:
            return {}
        found = ((series, kept[slot]) for series, kept in self._series.items())
        return {series: value for series, value in found if not math.isnan(value)}

    def means(self, from_ms: int, to_ms: int) -> dict[HistorySeries, float]:
        """Return the mean of each series over the steps that begin in ``[from_ms, to_ms)``."""
        slots = [slot for _, slot in self._slots(from_ms, to_ms)]
        found: dict[HistorySeries, float] = {}
        for series, kept in self._series.items():
            known = [value for slot in slots if not math.isnan(value := kept[slot])]
            if known:
                found[series] = sum(known) / len(known)
        return found

    def lines(
        self, wanted: Iterable[HistorySeries], from_ms: int, to_ms: int
    ) -> tuple[list[int], dict[HistorySeries, list[float | None]]]:
        """Return when the kept steps of ``[from_ms, to_ms)`` begin, and the values of each series
        there; None where there is none."""
        steps = list(self._slots(from_ms, to_ms))
        lines: dict[HistorySeries, list[float | None]] = {}
        for series in wanted:
            kept = self._series.get(series)
            if kept is not None:
                lines[series] = [
                    None if math.isnan(value := kept[slot]) else value for _, slot in steps
                ]
        return [number * self.step_ms for number, _ in steps], lines

    def _slots(self, from_ms: int, to_ms: int) -> Iterator[tuple[int, int]]:
        """Yield number and slot of each kept step that begins within a time."""
        first, end = -(-from_ms // self.step_ms), -(-to_ms // self.step_ms)
        for number in range(max(first, end - 2 * self.steps, 0), end):
            if self._numbers[number % self.steps] == number:
                yield number, number % self.steps

    def of(self, kind: str, name: str | None = None) -> list[HistorySeries]:
        """Return the series of a kind, or of one name."""
        return sorted(
            series
            for series in self._series
            if series.kind == kind and (name is None or series.name == name)
        )


class Line(NamedTuple):
    """Values of series over time: ``at_ms`` has a time for each of the values."""

    step_ms: int
    at_ms: Sequence[int]
    values: Mapping[HistorySeries, Sequence[float | None]]


class PageHistory:
    """Fine steps of the last hour and coarse steps of the last day, the means of fine ones."""

    def __init__(self) -> None:
        self.fine = Ring(FINE_MS, FINE_STEPS)
        self.coarse = Ring(COARSE_MS, COARSE_STEPS)
        self._minute: int | None = None  # the coarse step that has not ended yet

    def put(self, at_ms: int, values: Values) -> int | None:
        """Add values. If a coarse step has ended by that, add its means to the coarse ring and
        return when it began."""
        self.fine.put(at_ms, values)
        before, self._minute = self._minute, at_ms // COARSE_MS
        if before is None or self._minute <= before:
            return None
        began_ms = before * COARSE_MS
        self.coarse.put(began_ms, self.fine.means(began_ms, began_ms + COARSE_MS))
        return began_ms

    def lines(self, wanted: Sequence[HistorySeries], now_ms: int, last_ms: int) -> Line:
        """Return the values of the last ``last_ms``, in fine steps as far as these reach back."""
        ring = self.fine if last_ms <= FINE_MS * FINE_STEPS else self.coarse
        at_ms, values = ring.lines(wanted, now_ms - last_ms, now_ms + ring.step_ms)
        return Line(ring.step_ms, at_ms, values)
