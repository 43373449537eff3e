"""The work of a coroutine between two turns of the event loop, counted in calls instead of time."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from minikafka.kernel.slices import Slices

T = TypeVar("T")


def pause_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no loop in slices pause, however long the machine takes for it."""
    monkeypatch.setattr(Slices, "ended", lambda self: False)


def pause_at_every_element(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every loop in slices pause before each of its elements."""
    monkeypatch.setattr(Slices, "ended", lambda self: True)


async def most_calls_in_a_turn(work: Coroutine[Any, Any, T]) -> tuple[T, int]:
    """Run ``work`` as a task. Return its result, and the most calls of Python and C functions that
    anything made between two turns of another task. A loop over n elements without a pause makes
    n calls or more."""
    calls = most = 0

    def count(frame: Any, event: str, arg: object) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1

    task = asyncio.ensure_future(work)
    before = sys.getprofile()
    gc.collect()
    gc.disable()  # finalizers of what earlier tests have left would be counted
    sys.setprofile(count)
    try:
        while not task.done():
            calls = 0
            await asyncio.sleep(0)
            most = max(most, calls)
    finally:
        sys.setprofile(before)
        gc.enable()
    return await task, most
