"""Long work on the event loop, in slices between which other tasks and connections run.

A slice ends when it has taken its budget, by the clock of the running loop. That is the real time
on the real loop. On the simulated loop time stands still while code runs; there a slice ends after
``LOOKS`` looks at the clock, as it does on the real loop if the elements are cheap. So a simulation
interleaves the same tasks at the same elements in every run.

Time counts from the first look. What has no more than ``LOOK_EVERY`` elements reads no clock, and
is always done in one turn of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

BUDGET_US: Final = 2_000
# Of work in the background, which competes with every request for a long time.
BACKGROUND_BUDGET_US: Final = 300
LOOK_EVERY: Final = 8  # elements: a look at the clock costs up to 0.2 us
LOOKS: Final = 64


class Slices:
    """Says when a loop over many elements has to pause. Before each element:

        if slices.ended():
            await slices.pause()

    Loops that follow each other, or lie in each other, share one object. ``look_every`` is 1 where
    a single element may take a millisecond."""

    __slots__ = ("_budget_us", "_end_s", "_look_every", "_looks", "_unlooked")

    def __init__(self, budget_us: int = BUDGET_US, look_every: int = LOOK_EVERY) -> None:
        self._budget_us = budget_us
        self._look_every = self._unlooked = look_every
        self._looks = 0
        self._end_s = 0.0

    def ended(self) -> bool:
        """Count the next element; return whether to ``pause`` before it."""
        self._unlooked -= 1
        return self._unlooked < 0 and self._look()

    async def pause(self) -> None:
        """Let the loop run, then begin the next slice."""
        self._looks = 0
        await asyncio.sleep(0)

    async def over(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yield the items, with pauses between them."""
        for item in items:
            if self.ended():
                await self.pause()
            yield item

    def _look(self) -> bool:
        now_s = asyncio.get_running_loop().time()
        self._unlooked = self._look_every - 1
        self._looks += 1
        if self._looks == 1:
            self._end_s = now_s + self._budget_us / 1_000_000
        return self._looks == LOOKS or now_s >= self._end_s


def in_slices(items: Iterable[T], look_every: int = LOOK_EVERY) -> AsyncIterator[T]:
    """Yield the items, with pauses between them (see ``Slices``)."""
    return Slices(look_every=look_every).over(items)


async def run_in_slices(
    steps: Generator[None, None, T],
    budget_us: int = BUDGET_US,
    look_every: int = LOOK_EVERY,
) -> T:
    """Run a computation that yields after each element, with pauses; return its result."""
    slices = Slices(budget_us, look_every)
    while True:
        if slices.ended():
            await slices.pause()
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def run_at_once(steps: Generator[None, None, T]) -> T:
    """Run the same computation without a pause; return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
