"""A clock whose timers can be held back, as those of a stopped process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minikafka.kernel.ports import Clock, TimerHandle


class PausableClock:
    """The Clock of one broker. During a pause time goes on and no timer fires; those that have
    become due fire when it ends, in the order of their times. After ``end`` no timer fires."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._paused = False
        self._ended = False
        self._due: list[_HeldTimer] = []
        self.monotonic_ms = clock.monotonic_ms
        self.monotonic_ns = clock.monotonic_ns
        self.wall_ms = clock.wall_ms

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        due, self._due = self._due, []
        for timer in due:
            timer.fire_soon()

    def end(self) -> None:
        """Drop all timers, as the end of a process does: a callback of a killed broker must not
        run in the brokers' common process."""
        self._ended = True
        self._due.clear()

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle:
        return _HeldTimer(self, self._clock, delay_ms, callback)

    async def sleep(self, delay_ms: int) -> None:
        if delay_ms <= 0 and not self._paused:
            await asyncio.sleep(0)
            return
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay_ms, lambda: None if over.done() else over.set_result(None))
        try:
            await over
        finally:
            timer.cancel()

    def holds(self, timer: _HeldTimer) -> bool:
        """Keep a timer that is due during a pause, and drop one that is due after the end."""
        if self._paused and not self._ended:
            self._due.append(timer)
        return self._paused or self._ended


class _HeldTimer:
    __slots__ = ("_callback", "_clock", "_handle", "_pausable")

    def __init__(
        self, pausable: PausableClock, clock: Clock, delay_ms: int, callback: Callable[[], None]
    ) -> None:
        self._pausable = pausable
        self._clock = clock
        self._callback: Callable[[], None] | None = callback
        self._handle = clock.call_later(delay_ms, self._fire)

    def fire_soon(self) -> None:
        self._handle = self._clock.call_later(0, self._fire)

    def _fire(self) -> None:
        if self._callback is not None and not self._pausable.holds(self):
            callback = self._callback
            self.cancel()  # a handle without a delay goes on to refer to this object
            callback()

    def cancel(self) -> None:
        self._handle.cancel()
        self._callback = None
