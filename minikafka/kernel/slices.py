"""Long loops in slices, between which the event loop runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable
from typing import TypeVar

T = TypeVar("T")


async def in_slices(items: Iterable[T], size: int) -> AsyncIterator[T]:
    """Yield the items. Between slices of ``size`` items other tasks and connections run, so that a
    request with thousands of elements does not stop the event loop. A single slice runs without a
    pause: a caller may rely on that for what lies in a receive buffer."""
    for number, item in enumerate(items):
        if number and number % size == 0:
            await asyncio.sleep(0)
        yield item


async def run_in_slices(steps: Generator[None, None, T], size: int) -> T:
    """Run a computation that yields after each element; return its result. Other tasks run after
    each slice of ``size`` elements."""
    taken = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        taken += 1
        if taken % size == 0:
            await asyncio.sleep(0)


def run_at_once(steps: Generator[None, None, T]) -> T:
    """Run the same computation without a pause; return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
