"""One slot of a timing wheel: a cyclic doubly linked list of the tasks that fall into it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar, cast

T = TypeVar("T")

NOT_QUEUED = -1


class TaskCounter:
    """How many tasks all the buckets of one timer hold together."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class TimerTaskEntry(Generic[T]):
    """A task's place in a timer (Kafka's ``TimerTaskEntry``). ``bucket`` is None while unlinked.

    ``next`` and ``prev`` exist only while linked: a removed entry keeps no neighbour alive.
    """

    __slots__ = ("bucket", "cancelled", "expiration_ms", "next", "prev", "task")

    next: TimerTaskEntry[T]
    prev: TimerTaskEntry[T]

    def __init__(self, task: T, expiration_ms: int) -> None:
        self.task = task
        self.expiration_ms = expiration_ms
        self.bucket: TimerTaskList[T] | None = None
        self.cancelled = False

    def cancel(self) -> None:
        """Never hand the task out. Constant time, idempotent, harmless after it was handed out."""
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
    """A bucket. A sentinel (``root``) closes the circle, so that no link is ever missing.

    ``expiration_ms`` is the beginning of the span of time that the bucket stands for in this lap
    of the wheel, or ``NOT_QUEUED``. ``order`` tells buckets of one timer apart.
    """

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
        """The entries, oldest first. The list must not change meanwhile."""
        entry = self.root.next
        while entry is not self.root:
            yield entry
            entry = entry.next

    def add(self, entry: TimerTaskEntry[T], expiration_ms: int) -> bool:
        """Link an entry at the end; it leaves the bucket it was in.

        True when ``expiration_ms``, where the bucket begins in this lap, is news: then the bucket
        has to enter the expiration queue."""
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
        """Unlink an entry. Nothing happens when it is not in this bucket."""
        if entry.bucket is not self:
            return
        following, preceding = entry.next, entry.prev
        following.prev = preceding
        preceding.next = following
        del entry.next, entry.prev
        entry.bucket = None
        self.counter.value -= 1

    def drain(self) -> list[TimerTaskEntry[T]]:
        """Unlink every entry, oldest first; the bucket is ready for its next lap."""
        drained = list(self)
        for entry in drained:
            del entry.next, entry.prev
            entry.bucket = None
        self.root.next = self.root
        self.root.prev = self.root
        self.counter.value -= len(drained)
        self.expiration_ms = NOT_QUEUED
        return drained
