"""The timer: tasks in, and out again once due (Kafka's ``SystemTimer`` without threads)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from minikafka.core.timer.bucket import NOT_QUEUED, TaskCounter, TimerTaskEntry
from minikafka.core.timer.wheel import (
    DEFAULT_TICK_MS,
    DEFAULT_WHEEL_SIZE,
    ExpirationQueue,
    TimingWheel,
    WheelLevel,
)

T = TypeVar("T")


class Timer(Generic[T]):
    """Holds the lowest wheel only; the upper ones hang from it.

    Times are milliseconds of one monotonic clock that the caller reads. Nothing happens between
    calls: whoever drives the timer calls ``advance`` at ``next_expiration_ms`` and runs what it
    gets back, in that order.
    """

    __slots__ = ("_counter", "_expired", "_queue", "wheel")

    def __init__(
        self, start_ms: int, tick_ms: int = DEFAULT_TICK_MS, wheel_size: int = DEFAULT_WHEEL_SIZE
    ) -> None:
        self._queue: ExpirationQueue[T] = ExpirationQueue()
        self._counter = TaskCounter()
        self._expired: list[TimerTaskEntry[T]] = []  # due when added; leaves at the next advance
        self.wheel: TimingWheel[T] = TimingWheel(
            start_ms, self._queue, self._counter, tick_ms, wheel_size
        )

    @property
    def size(self) -> int:
        """Tasks in the wheels, not counting those that were due already when added."""
        return self._counter.value

    @property
    def queued_buckets(self) -> int:
        """The length of the expiration queue: buckets in use, never tasks."""
        return len(self._queue)

    def add(self, task: T, expiration_ms: int) -> TimerTaskEntry[T]:
        """Constant time: a few comparisons per level, no search."""
        entry = TimerTaskEntry(task, expiration_ms)
        if not self.wheel.add(entry):
            self._expired.append(entry)
        return entry

    def cancel(self, entry: TimerTaskEntry[T]) -> None:
        """As ``entry.cancel()``. The emptied bucket stays queued until its time, as in Kafka."""
        entry.cancel()

    def next_expiration_ms(self) -> int | None:
        """When ``advance`` has something to do next; it may lie in the past. None: never.

        Buckets that cancellation has emptied are nothing to wake up for when nothing else waits."""
        if self._expired:
            return self._expired[0].expiration_ms
        if not self._counter.value:
            return None
        return self._queue.first_expiration_ms()

    def catch_up(self, now_ms: int) -> None:
        """While nothing is in the wheels, bring the hand to now: nobody has called ``advance`` for
        it. What is added next would else be filed too coarsely, and cost wake-ups."""
        assert not self._counter.value, "what waits has to be handed out"
        while (bucket := self._queue.pop_due(now_ms)) is not None:
            bucket.expiration_ms = NOT_QUEUED
        self.wheel.advance_clock(now_ms)

    def advance(self, now_ms: int) -> list[T]:
        """Drain every due bucket in one pass; each entry is due, or moves to a finer wheel.

        Returns the tasks that are due, earliest bucket first, each task once and no cancelled one.
        """
        late, self._expired = self._expired, []
        due = [entry.task for entry in late if not entry.cancelled]
        wheel = self.wheel
        while (bucket := self._queue.pop_due(now_ms)) is not None:
            wheel.advance_clock(bucket.expiration_ms)
            due.extend(entry.task for entry in bucket.drain() if not wheel.add(entry))
        # Kafka's hand stops at the last bucket. Moving it on to now is safe once everything due is
        # out, and keeps later additions on the finest level that can hold them.
        wheel.advance_clock(now_ms)
        return due

    def entries(self) -> Iterator[TimerTaskEntry[T]]:
        """What waits here, about soonest first: wheel by wheel, slot by slot. For dumps; the timer
        must not change meanwhile."""
        yield from (entry for entry in self._expired if not entry.cancelled)
        wheel: TimingWheel[T] | None = self.wheel
        while wheel is not None:
            yield from wheel.entries()
            wheel = wheel.overflow_wheel

    def levels(self, count_at_most: int | None = None) -> list[WheelLevel]:
        """The wheels as values, finest first. See ``TimingWheel.levels``."""
        return self.wheel.levels(count_at_most)
