"""A clock that stands still until a test advances it, and runs the loop until it is idle meanwhile.

``manual_clock`` says why ``world.sim.clock`` does not take its place.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.world.manual_clock import StoppedClock


class VirtualClock(StoppedClock):
    """Advances timer by timer; all tasks run between two timers."""

    async def settle(self) -> None:
        """Wait until nothing more happens unless time passes."""
        loop: Any = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)
            if not loop._ready:
                return

    async def advance(self, milliseconds: int) -> None:
        end_ms = self.now_ms + milliseconds
        await self.settle()
        while self.fire_next(end_ms):
            await self.settle()
        self.now_ms = end_ms
        await self.settle()
