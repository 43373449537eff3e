"""Hierarchical timing wheels: time-outs that are added and cancelled in constant time.

A broker has hundreds of thousands of time-outs at once (every parked Produce and Fetch has one),
and nearly all of them are cancelled before they are due. A heap would pay ``log n`` for each
addition and removal. Kafka's timer, which this follows, pays a few comparisons.

*A wheel* is a circle of ``wheel_size`` buckets. Each bucket stands for a span of ``tick_ms``, and
the whole wheel for the ``interval_ms`` that follow its current time. A task goes to the bucket of
its expiration: one division and one modulo. Buckets are doubly linked lists, so that a cancelled
task is unlinked without a search.

*A hierarchy* covers longer delays. A task beyond the end of a wheel goes to the next wheel, whose
tick is the interval of the one below: with 20 buckets, the ticks are 1, 20, 400, 8,000 ms and so
on. When a coarse bucket comes due, its tasks are added again and land on a finer level, or are due.

*An expiration queue* says when to wake up. It holds the buckets that are in use, not the tasks, so
that it stays small. It is the only heap.

    level 1   |0|1|2| ... |19|          1 ms each
    level 2   |0|20|40| ... |380|      20 ms each: a bucket empties into level 1
    level 3   |0|400| ... |7600|      400 ms each: a bucket empties into level 2

Nothing here reads a clock or runs a task: ``broker/purgatories.py`` and ``core/purgatory.py`` do
that.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import islice
from typing import Generic, NamedTuple, TypeVar, cast

T = TypeVar("T")

NOT_QUEUED = -1


class TaskCounter:
    """The number of tasks in all buckets of one timer."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class TimerTaskEntry(Generic[T]):
    """A task's place in a timer (Kafka's ``TimerTaskEntry``). ``bucket`` is None while the entry is
    in none. ``next`` and ``prev`` exist only in a bucket, so that a removed entry keeps no
    neighbour alive."""

    __slots__ = ("bucket", "cancelled", "expiration_ms", "next", "prev", "task")
    __deletable__ = ("next", "prev")  # declared for mypyc

    next: TimerTaskEntry[T]
    prev: TimerTaskEntry[T]

    def __init__(self, task: T, expiration_ms: int) -> None:
        self.task = task
        self.expiration_ms = expiration_ms
        self.bucket: TimerTaskList[T] | None = None
        self.cancelled = False

    def cancel(self) -> None:
        """Remove the task from the timer, in constant time. No effect if the task was cancelled or
        returned before."""
        self.cancelled = True
        bucket = self.bucket
        if bucket is not None:
            # bucket.remove(self), inlined: most delayed operations end here.
            following, preceding = self.next, self.prev
            following.prev = preceding
            preceding.next = following
            del self.next, self.prev
            self.bucket = None
            bucket.counter.value -= 1


class TimerTaskList(Generic[T]):
    """A bucket: a cyclic doubly linked list that is closed by a sentinel, ``root``.

    ``expiration_ms`` is the start of the bucket's time span in this lap of the wheel, or
    ``NOT_QUEUED``. ``order`` is unique among the buckets of one timer."""

    __slots__ = ("counter", "expiration_ms", "order", "root")

    def __init__(self, counter: TaskCounter, order: int = 0) -> None:
        self.counter = counter
        self.order = order
        self.expiration_ms = NOT_QUEUED
        self.root: TimerTaskEntry[T] = TimerTaskEntry(cast(T, None), NOT_QUEUED)
        self.root.next = self.root
        self.root.prev = self.root

    def __bool__(self) -> bool:
        return self.root.next is not self.root

    def __iter__(self) -> Iterator[TimerTaskEntry[T]]:
        """Iterate over the entries in the order of addition. The list must not change meanwhile."""
        entry = self.root.next
        while entry is not self.root:
            yield entry
            entry = entry.next

    def add(self, entry: TimerTaskEntry[T], expiration_ms: int) -> bool:
        """Link an entry at the end, after removing it from its former bucket. ``expiration_ms`` is
        the start of the bucket's span. True when that has changed: then the bucket has to be pushed
        to the expiration queue."""
        if entry.bucket is not None:
            entry.bucket.remove(entry)
        root = self.root
        tail = root.prev
        entry.next = root
        entry.prev = tail
        entry.bucket = self
        tail.next = entry
        root.prev = entry
        self.counter.value += 1
        if self.expiration_ms == expiration_ms:
            return False
        self.expiration_ms = expiration_ms
        return True

    def remove(self, entry: TimerTaskEntry[T]) -> None:
        """Unlink an entry, if it is in this bucket."""
        if entry.bucket is not self:
            return
        following, preceding = entry.next, entry.prev
        following.prev = preceding
        preceding.next = following
        del entry.next, entry.prev
        entry.bucket = None
        self.counter.value -= 1

    def drain(self) -> list[TimerTaskEntry[T]]:
        """Unlink all entries and return them in the order of their addition."""
        drained = list(self)
        for entry in drained:
            del entry.next, entry.prev
            entry.bucket = None
        self.root.next = self.root
        self.root.prev = self.root
        self.counter.value -= len(drained)
        self.expiration_ms = NOT_QUEUED
        return drained


DEFAULT_TICK_MS = 1
DEFAULT_WHEEL_SIZE = 20


class ExpirationQueue(Generic[T]):
    """The buckets in use, ordered by expiration (Kafka's ``DelayQueue``). A bucket is in it at most
    once per lap, so that its length is bounded by levels times wheel size."""

    __slots__ = ("_heap", "_orders")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, TimerTaskList[T]]] = []
        self._orders = 0

    def __len__(self) -> int:
        return len(self._heap)

    def new_order(self) -> int:
        """Return a new ``order`` for a bucket. It sorts buckets of equal expiration."""
        self._orders += 1
        return self._orders

    def push(self, bucket: TimerTaskList[T]) -> None:
        heapq.heappush(self._heap, (bucket.expiration_ms, bucket.order, bucket))

    def first_expiration_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> TimerTaskList[T] | None:
        """Remove and return the bucket that expired first; None if none has expired."""
        if self._heap and self._heap[0][0] <= now_ms:
            return heapq.heappop(self._heap)[2]
        return None


class WheelLevel(NamedTuple):
    """The contents of one level, for debug dumps. Level 1 is the finest."""

    level: int
    tick_ms: int
    wheel_size: int
    interval_ms: int
    current_time_ms: int
    tasks_by_slot: tuple[int, ...]


class TimingWheel(Generic[T]):
    """One level: ``wheel_size`` buckets of ``tick_ms`` each, for expirations from
    ``current_time_ms`` up to (not including) ``current_time_ms + interval_ms``. Later ones go to
    ``overflow_wheel``, which is made when it is first needed. ``current_time_ms`` is always a
    multiple of ``tick_ms``."""

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
        """Put an entry into its bucket. False if it is cancelled or due already.

        Kafka recurses from wheel to wheel; this loop need not check the due time again, since the
        current time of an upper wheel is never later than that of this one."""
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
        """Move the current time of this and every upper wheel. It never goes back."""
        if time_ms < self.current_time_ms + self.tick_ms:
            return
        self.current_time_ms = time_ms - time_ms % self.tick_ms
        self.end_ms = self.current_time_ms + self.interval_ms
        if self.overflow_wheel is not None:
            self.overflow_wheel.advance_clock(self.current_time_ms)

    def entries(self) -> Iterator[TimerTaskEntry[T]]:
        """Iterate over the entries of this wheel, bucket by bucket from the current time on. The
        wheel must not change meanwhile."""
        first = self.current_time_ms // self.tick_ms
        for virtual_id in range(first, first + self.wheel_size):
            yield from self.buckets[virtual_id % self.wheel_size]

    def levels(self, count_at_most: int | None = None) -> list[WheelLevel]:
        """Return the contents of this wheel and those above it, for dumps. Tasks are counted one by
        one, up to ``count_at_most`` in each bucket."""
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
                        sum(1 for _ in islice(bucket, count_at_most)) if bucket else 0
                        for bucket in wheel.buckets
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


class Timer(Generic[T]):
    """Kafka's ``SystemTimer`` without threads. The caller reads a monotonic clock, calls
    ``advance`` at ``next_expiration_ms``, and runs the tasks that it returns, in that order."""

    __slots__ = ("_counter", "_expired", "_queue", "wheel")

    def __init__(
        self, start_ms: int, tick_ms: int = DEFAULT_TICK_MS, wheel_size: int = DEFAULT_WHEEL_SIZE
    ) -> None:
        self._queue: ExpirationQueue[T] = ExpirationQueue()
        self._counter = TaskCounter()
        self._expired: list[TimerTaskEntry[T]] = []  # those that were due when they were added
        self.wheel: TimingWheel[T] = TimingWheel(
            start_ms, self._queue, self._counter, tick_ms, wheel_size
        )

    @property
    def size(self) -> int:
        """The number of tasks in the wheels, without those that were already due when added."""
        return self._counter.value

    @property
    def queued_buckets(self) -> int:
        """The length of the expiration queue: buckets in use, never tasks."""
        return len(self._queue)

    def add(self, task: T, expiration_ms: int) -> TimerTaskEntry[T]:
        """Add a task that expires at ``expiration_ms``, in constant time: a few comparisons per
        level."""
        entry = TimerTaskEntry(task, expiration_ms)
        if not self.wheel.add(entry):
            self._expired.append(entry)
        return entry

    def cancel(self, entry: TimerTaskEntry[T]) -> None:
        """Cancel a task. The emptied bucket stays queued until its time, as in Kafka."""
        entry.cancel()

    def next_expiration_ms(self) -> int | None:
        """Return the time at which to call ``advance`` next, which may lie in the past. None
        without tasks, even if emptied buckets are still queued."""
        if self._expired:
            return self._expired[0].expiration_ms
        if not self._counter.value:
            return None
        return self._queue.first_expiration_ms()

    def catch_up(self, now_ms: int) -> None:
        """Set the current time of empty wheels, for which ``advance`` is not called. Otherwise the
        next task would go to a coarser level and cost additional wake-ups."""
        assert not self._counter.value, "tasks that wait have to be returned by advance"
        while (bucket := self._queue.pop_due(now_ms)) is not None:
            bucket.expiration_ms = NOT_QUEUED
        self.wheel.advance_clock(now_ms)

    def advance(self, now_ms: int) -> list[T]:
        """Drain every due bucket: each of its entries is due, or moves to a finer wheel. Returns
        the due tasks that are not cancelled, those of the earliest bucket first."""
        late, self._expired = self._expired, []
        due = [entry.task for entry in late if not entry.cancelled]
        wheel = self.wheel
        while (bucket := self._queue.pop_due(now_ms)) is not None:
            wheel.advance_clock(bucket.expiration_ms)
            due.extend(entry.task for entry in bucket.drain() if not wheel.add(entry))
        # Kafka's current time stays at the last bucket. Moving it to now is safe once everything
        # due is out, and keeps later additions on the finest level that can hold them.
        wheel.advance_clock(now_ms)
        return due

    def entries(self) -> Iterator[TimerTaskEntry[T]]:
        """Iterate over all entries, approximately in the order of expiration, for dumps. The timer
        must not change meanwhile."""
        yield from (entry for entry in self._expired if not entry.cancelled)
        wheel: TimingWheel[T] | None = self.wheel
        while wheel is not None:
            yield from wheel.entries()
            wheel = wheel.overflow_wheel

    def levels(self, count_at_most: int | None = None) -> list[WheelLevel]:
        """Return the contents of the wheels, finest first. See ``TimingWheel.levels``."""
        return self.wheel.levels(count_at_most)
