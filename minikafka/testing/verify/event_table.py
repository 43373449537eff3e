"""``EventTable``: what clients observed, in the order of time."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

E = TypeVar("E")

NOTHING: Final = -1


class EventTable(Generic[E]):
    """Events as rows of integers, in columns so that millions fit in memory.

    The first integer of a row is the kind of the event, the second one its time in ms; ``make``
    makes an event of the number of a row and its integers. ``codes`` are array type codes."""

    def __init__(self, codes: str, make: Callable[[int, Sequence[int]], E]) -> None:
        self.counts: Counter[int] = Counter()  # by kind
        self._columns = [array(code) for code in codes]
        self._make = make

    def add(self, *values: int) -> int:
        """Add an event, whose last integers may be missing and are NOTHING then. Return its row."""
        row = len(self)
        missing = len(self._columns) - len(values)
        self.counts[values[0]] += 1
        for column, value in zip(self._columns, (*values, *[NOTHING] * missing), strict=True):
            column.append(value)
        return row

    def __len__(self) -> int:
        return len(self._columns[0])

    def __getitem__(self, row: int) -> E:
        return self._make(row, [column[row] for column in self._columns])

    def __iter__(self) -> Iterator[E]:
        return (self[row] for row in range(len(self)))

    def between(self, first_row: int, last_row: int) -> Iterator[E]:
        """Yield the events of these rows, both included."""
        return (self[row] for row in range(first_row, min(last_row + 1, len(self))))
