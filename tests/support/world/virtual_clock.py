"""A clock that stands still until a test advances it, and lets the loop come to rest on the way.

The simulated loop jumps to the next timer by itself; these tests decide when time passes.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Any

WALL_START_MS = 1_700_000_000_000


class VirtualTimer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    """The Clock port. Timers due at the same time fire in the order in which they were set."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self._timers: list[tuple[int, int, VirtualTimer]] = []
        self._sequence = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return WALL_START_MS + self.now_ms

    def call_later(self, delay_ms: int, callback: Callable[[], object]) -> VirtualTimer:
        timer = VirtualTimer(callback)
        self._sequence += 1
        heapq.heappush(self._timers, (self.now_ms + max(0, delay_ms), self._sequence, timer))
        return timer

    async def sleep(self, delay_ms: int) -> None:
        over = asyncio.Event()
        timer = self.call_later(delay_ms, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    async def settle(self) -> None:
        """Until nothing more happens without time going by."""
        loop: Any = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)
            if not loop._ready:
                return

    async def advance(self, milliseconds: int) -> None:
        """Let so much time go by, timer by timer."""
        target = self.now_ms + milliseconds
        await self.settle()
        while self._timers and self._timers[0][0] <= target:
            due_ms, _, timer = heapq.heappop(self._timers)
            self.now_ms = max(self.now_ms, due_ms)
            if timer.callback is not None:
                timer.callback()
                await self.settle()
        self.now_ms = target
        await self.settle()
