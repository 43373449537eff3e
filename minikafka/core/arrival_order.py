"""A queue of items in which only those that share a key wait for each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class ArrivalOrder(Generic[T]):
    """A first-in-first-out queue for each key; an item may be in the queues of several keys.

    An item may proceed when it is the first of each of its queues. An item waits for earlier items
    only, so the oldest one may always proceed. Items are compared by identity; pass the same keys
    to each call for one item.
    """

    def __init__(self) -> None:
        self.empty = True
        self._queues: dict[Hashable, deque[T]] = {}  # none is empty

    def __len__(self) -> int:
        """The number of keys with a queue."""
        return len(self._queues)

    def is_busy(self, keys: Iterable[Hashable]) -> bool:
        """Whether an item that is added now with these keys would have to wait."""
        return not self.empty and any(key in self._queues for key in keys)

    def enter(self, item: T, keys: Iterable[Hashable]) -> None:
        """Append ``item`` to the queue of each key."""
        for key in keys:
            self._queues.setdefault(key, deque()).append(item)
        self.empty = not self._queues

    def may_go(self, item: T, keys: Iterable[Hashable]) -> bool:
        """Whether ``item`` is queued and is the first of each of its queues."""
        queues = self._queues
        return all(key in queues and queues[key][0] is item for key in keys)

    def leave(self, item: T, keys: Iterable[Hashable]) -> list[T]:
        """Remove ``item``, the first of each of its queues, and return the next item of each queue.
        The same item may be returned several times."""
        following: list[T] = []
        for key in keys:
            queue = self._queues[key]
            assert queue[0] is item, "items leave in order of arrival"
            queue.popleft()
            if queue:
                following.append(queue[0])
            else:
                del self._queues[key]
        self.empty = not self._queues
        return following
