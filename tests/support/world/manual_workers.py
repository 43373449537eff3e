"""Workers whose results arrive when the test releases them.

``world.sim.workers`` delays each result by a random simulated time, on the simulated loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class ManualWorkers:
    """The Workers port. After ``hold`` the results wait for ``release``."""

    def __init__(self) -> None:
        self.calls = 0
        self._released = asyncio.Event()
        self._released.set()

    def hold(self) -> None:
        self._released.clear()

    def release(self) -> None:
        self._released.set()

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        self.calls += 1
        result = work(*args)
        await self._released.wait()
        return result
