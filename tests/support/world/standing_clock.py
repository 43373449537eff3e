"""A running loop that only tells the time, which stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast


class _StandingLoop:
    def time(self) -> float:
        return 0.0


@contextmanager
def standing_clock() -> Iterator[None]:
    """Let code that a test drives by hand read the clock of the running loop, if none runs."""
    if asyncio._get_running_loop() is not None:
        yield
        return
    asyncio._set_running_loop(cast(Any, _StandingLoop()))
    try:
        yield
    finally:
        asyncio._set_running_loop(None)
