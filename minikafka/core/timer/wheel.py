"""The hierarchy of timing wheels: which bucket, on which level, a task belongs to."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from minikafka.core.timer.bucket import TaskCounter, TimerTaskEntry, TimerTaskList

T = TypeVar("T")

DEFAULT_TICK_MS = 1
DEFAULT_WHEEL_SIZE = 20


class ExpirationQueue(Generic[T]):
    """The buckets in use by expiration (Kafka's ``DelayQueue``), at most once each per lap.

    Its length is bounded by levels times wheel size, whatever the number of tasks.
    """

    __slots__ = ("_heap", "_orders")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, TimerTaskList[T]]] = []
        self._orders = 0

    def __len__(self) -> int:
        return len(self._heap)

    def new_order(self) -> int:
        """A number that breaks ties between two buckets which expire in the same millisecond."""
        self._orders += 1
        return self._orders

    def push(self, bucket: TimerTaskList[T]) -> None:
        heapq.heappush(self._heap, (bucket.expiration_ms, bucket.order, bucket))

    def first_expiration_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> TimerTaskList[T] | None:
        """The bucket that expired first, if one has."""
        if self._heap and self._heap[0][0] <= now_ms:
            return heapq.heappop(self._heap)[2]
        return None


@dataclass(frozen=True, slots=True)
class WheelLevel:
    """One level as a debug dump or a dashboard shows it. Level 1 is the finest."""

    level: int
    tick_ms: int
    wheel_size: int
    interval_ms: int
    current_time_ms: int
    tasks_by_slot: tuple[int, ...]


class TimingWheel(Generic[T]):
    """One level: ``wheel_size`` buckets of ``tick_ms`` each, serving the times from
    ``current_time_ms`` up to (not including) ``current_time_ms + interval_ms``.

    What lies beyond goes to ``overflow_wheel``, made on first need, whose tick is this wheel's
    interval. ``current_time_ms`` is always a multiple of ``tick_ms``.
    """

    __slots__ = (
        "buckets",
        "counter",
        "current_time_ms",
        "end_ms",
        "interval_ms",
        "overflow_wheel",
        "queue",
        "tick_ms",
        "wheel_size",
    )

    def __init__(
        self,
        start_ms: int,
        queue: ExpirationQueue[T],
        counter: TaskCounter,
        tick_ms: int = DEFAULT_TICK_MS,
        wheel_size: int = DEFAULT_WHEEL_SIZE,
    ) -> None:
        self.tick_ms = tick_ms
        self.wheel_size = wheel_size
        self.interval_ms = tick_ms * wheel_size
        self.current_time_ms = start_ms - start_ms % tick_ms
        self.end_ms = self.current_time_ms + self.interval_ms
        self.queue = queue
        self.counter = counter
        self.buckets: list[TimerTaskList[T]] = [
            TimerTaskList(counter, queue.new_order()) for _ in range(wheel_size)
        ]
        self.overflow_wheel: TimingWheel[T] | None = None

    def add(self, entry: TimerTaskEntry[T]) -> bool:
        """File an entry under its bucket. False when it is cancelled or already due.

        A loop takes the place of Kafka's recursion: an expiration beyond this wheel's end is never
        due for an upper wheel, whose current time is not later than this one's.
        """
        expiration_ms = entry.expiration_ms
        if entry.cancelled or expiration_ms < self.current_time_ms + self.tick_ms:
            return False
        wheel = self
        while expiration_ms >= wheel.end_ms:
            wheel = wheel.overflow_wheel or wheel._add_overflow_wheel()
        tick_ms = wheel.tick_ms
        virtual_id = expiration_ms // tick_ms
        bucket = wheel.buckets[virtual_id % wheel.wheel_size]
        if bucket.add(entry, virtual_id * tick_ms):
            self.queue.push(bucket)
        return True

    def advance_clock(self, time_ms: int) -> None:
        """Move the hand of this and every upper wheel. Time never goes back."""
        if time_ms < self.current_time_ms + self.tick_ms:
            return
        self.current_time_ms = time_ms - time_ms % self.tick_ms
        self.end_ms = self.current_time_ms + self.interval_ms
        if self.overflow_wheel is not None:
            self.overflow_wheel.advance_clock(self.current_time_ms)

    def entries(self) -> Iterator[TimerTaskEntry[T]]:
        """What this wheel holds, slot by slot from its hand on. The wheel must not change
        meanwhile."""
        first = self.current_time_ms // self.tick_ms
        for virtual_id in range(first, first + self.wheel_size):
            yield from self.buckets[virtual_id % self.wheel_size]

    def levels(self, count_at_most: int | None = None) -> list[WheelLevel]:
        """This wheel and those above it, as values. Counts task by task, in each slot up to
        ``count_at_most``: for dumps only."""
        dump: list[WheelLevel] = []
        wheel: TimingWheel[T] | None = self
        while wheel is not None:
            dump.append(
                WheelLevel(
                    level=len(dump) + 1,
                    tick_ms=wheel.tick_ms,
                    wheel_size=wheel.wheel_size,
                    interval_ms=wheel.interval_ms,
                    current_time_ms=wheel.current_time_ms,
                    tasks_by_slot=tuple(
                        sum(1 for _ in islice(bucket, count_at_most)) for bucket in wheel.buckets
                    ),
                )
            )
            wheel = wheel.overflow_wheel
        return dump

    def _add_overflow_wheel(self) -> TimingWheel[T]:
        self.overflow_wheel = TimingWheel(
            self.current_time_ms, self.queue, self.counter, self.interval_ms, self.wheel_size
        )
        return self.overflow_wheel
