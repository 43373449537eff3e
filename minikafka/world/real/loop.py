"""The real event loop: uvloop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


class RealLoop(uvloop.Loop):
    """uvloop with a clock that shows less than milliseconds, for ``kernel.slices``."""

    time = staticmethod(time.monotonic)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` on a new event loop until it ends."""
    with asyncio.Runner(loop_factory=RealLoop) as runner:
        return runner.run(main)
