"""A purgatory for the lesson about timing wheels: a reader's timers on a clock that starts at 0."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence

from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.kernel.ports import Clock, TimerHandle
from minikafka.server.broker.purgatories import Reaper

NAME = "Lesson"


class LessonClock:
    """A host's monotonic clock that starts at 0 now, so that delays fall into the buckets that a
    reader computes: of 20 buckets a level, 350 ms into bucket 17 of the second one, for example."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start_ms = clock.monotonic_ms()

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms() - self._start_ms

    def monotonic_ns(self) -> int:
        return self._clock.monotonic_ns() - self._start_ms * 1_000_000

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle:
        return self._clock.call_later(delay_ms, callback)

    async def sleep(self, delay_ms: int) -> None:
        await self._clock.sleep(delay_ms)


class DelayedTimer(DelayedOperation):
    """An operation that nothing but its time-out completes."""

    def __init__(self, delay_ms: int, fired: Callable[[int], None]) -> None:
        super().__init__(delay_ms)
        self._fired = fired

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        """A timer has no response."""

    def on_expiration(self) -> None:
        self._fired(self.delay_ms)

    def watched_keys(self) -> Iterable[Hashable]:
        return (f"timer-{self.delay_ms}",)


class LessonTimers:
    """The timers of the lesson, in one purgatory. ``fired`` is called with the delay of each timer
    that expires, and the milliseconds that have passed since it was set."""

    def __init__(self, clock: Clock, fired: Callable[[int, int], None]) -> None:
        self.clock = LessonClock(clock)
        purgatory: Purgatory[DelayedOperation] = Purgatory(NAME)
        self.reaper = Reaper(self.clock, purgatory, f"ExpirationReaper-{NAME}")
        self._fired = fired

    async def wait(self, delays_ms: Sequence[int]) -> None:
        """Set one timer for each delay, and wait until all have expired."""
        start_ms = self.clock.monotonic_ms()
        left, ended = len(delays_ms), asyncio.Event()

        def fired(delay_ms: int) -> None:
            nonlocal left
            left -= 1
            self._fired(delay_ms, self.clock.monotonic_ms() - start_ms)
            if not left:
                ended.set()

        for delay_ms in delays_ms:
            timer = DelayedTimer(delay_ms, fired)
            self.reaper.try_complete_else_watch(timer, list(timer.watched_keys()))
        await ended.wait()
