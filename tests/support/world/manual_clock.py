"""Clocks that stand still until a test advances them.

``world.sim.clock`` jumps to the next timer by itself, on its own loop. Tests with these clocks
decide when time passes, on asyncio's loop or on none.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

WALL_START_MS = 1_700_000_000_000


class ManualTimer:
    def __init__(self, due_ms: int, callback: Callable[[], object]) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class StoppedClock:
    """The Clock port. Timers due at the same time fire in the order in which they were set."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self._queue: list[tuple[int, int, ManualTimer]] = []
        self._sequence = 0

    @property
    def timers(self) -> list[ManualTimer]:
        """The timers that have not fired, the next one first."""
        return [timer for _, _, timer in sorted(self._queue)]

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    def wall_ms(self) -> int:
        return WALL_START_MS + self.now_ms

    def call_later(self, delay_ms: int, callback: Callable[[], object]) -> ManualTimer:
        timer = ManualTimer(self.now_ms + max(0, delay_ms), callback)
        self._sequence += 1
        heapq.heappush(self._queue, (timer.due_ms, self._sequence, timer))
        return timer

    async def sleep(self, delay_ms: int) -> None:
        over = asyncio.Event()
        timer = self.call_later(delay_ms, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    def fire_next(self, end_ms: int) -> bool:
        """Fire the next timer that is due by ``end_ms``, at its time; False if there is none."""
        while self._queue and self._queue[0][0] <= end_ms:
            timer = heapq.heappop(self._queue)[2]
            if not timer.cancelled:
                self.now_ms = max(self.now_ms, timer.due_ms)
                timer.callback()
                return True
        return False


class ManualClock(StoppedClock):
    """Advances synchronously; what its timers wake runs later."""

    def advance(self, delay_ms: int) -> None:
        end_ms = self.now_ms + delay_ms
        while self.fire_next(end_ms):
            pass
        self.now_ms = end_ms
