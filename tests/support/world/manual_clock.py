"""A Clock that stands still until a test advances it, synchronously.

The simulated loop jumps to the next timer by itself; these tests decide when time passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class ManualTimer:
    def __init__(self, due_ms: int, callback: Callable[[], object]) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """Stands still until it is advanced."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.timers: list[ManualTimer] = []

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now_ms

    def call_later(self, delay_ms: int, callback: Callable[[], object]) -> ManualTimer:
        timer = ManualTimer(self.now_ms + delay_ms, callback)
        self.timers.append(timer)
        return timer

    async def sleep(self, delay_ms: int) -> None:
        over = asyncio.Event()
        self.call_later(delay_ms, over.set)
        await over.wait()

    def advance(self, delay_ms: int) -> None:
        end_ms = self.now_ms + delay_ms
        while True:
            due = [t for t in self.timers if not t.cancelled and t.due_ms <= end_ms]
            if not due:
                break
            timer = min(due, key=lambda t: t.due_ms)
            self.timers.remove(timer)
            self.now_ms = max(self.now_ms, timer.due_ms)
            timer.callback()
        self.now_ms = end_ms
