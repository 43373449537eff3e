"""The purgatory: delayed operations, each completed exactly once, by an event or by its time-out.

A request whose response must wait (a Produce for replicas, a Fetch for records, a JoinGroup for
members) becomes a ``DelayedOperation`` and is parked in a ``Purgatory``. Two mechanisms complete
it:

- *Watch lists.* The operation is entered under one or more keys, say its partitions. When something
  happens to a key, ``check_and_complete(key)`` tries each operation in the key's list.
- *The timer.* A timing wheel (``core/timer.py``) expires operations whose time is up.

A completed operation is unlinked from the timer at once. It stays in its watch lists: a Fetch may
watch a thousand partitions, and removing it from each list would cost more than the Fetch. A list
drops completed operations when its key is checked next. A list whose key is never checked would
keep them for ever, so a *purge* walks all lists once they hold enough completed operations. Kafka
also counts operations that have left their lists, and purges more often.

``try_complete_else_watch`` tries the operation before it watches and once more afterwards: an event
between the two would otherwise be missed. This matters although there is one thread, because
completing one operation may run code that completes or parks others.

Kafka spreads the watch lists over 512 shards, each with a lock. Here is one thread and one dict.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from minikafka.core.timer import Timer, TimerTaskEntry, WheelLevel
from minikafka.kernel.compiled import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedOperation(ABC):
    """A request whose response is sent when a condition holds, or after ``delay_ms`` in any case.

    It completes exactly once; every later attempt to complete it returns False. Subclasses fill in
    the three template methods and may declare ``__slots__``.

    ``is_completed`` is written by ``force_complete`` alone. ``watch_lists`` is the number of watch
    lists that hold the operation, and is theirs to change."""

    __slots__ = ("_timer_entry", "delay_ms", "is_completed", "watch_lists")

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.is_completed = False
        self.watch_lists = 0
        self._timer_entry: TimerTaskEntry[Any] | None = None

    @abstractmethod
    def try_complete(self) -> bool:
        """Return ``self.force_complete()`` if the condition holds, else False."""

    @abstractmethod
    def on_complete(self) -> None:
        """Send the response. Called exactly once, after an event or after the time-out."""

    @abstractmethod
    def on_expiration(self) -> None:
        """Called after ``on_complete`` if the time-out completed the operation."""

    def watched_keys(self) -> Iterable[Hashable]:
        """Return the keys that the operation watches, for dumps."""
        return ()

    @property
    def is_timed(self) -> bool:
        """Whether the operation has a time-out and was neither completed nor cancelled."""
        return self._timer_entry is not None

    def force_complete(self) -> bool:
        """Complete without checking the condition. True for the one call that completed it."""
        if self.is_completed:
            return False
        self.is_completed = True
        entry = self._timer_entry
        if entry is not None:
            self._timer_entry = None
            entry.cancel()
        self.on_complete()
        assert self._timer_entry is None, "a completed operation must not expire"
        return True

    def cancel(self) -> None:
        """Remove the time-out. The operation can still be completed."""
        entry = self._timer_entry
        if entry is not None:
            self._timer_entry = None
            entry.cancel()

    def expire(self) -> bool:
        """Complete the operation after its time-out. True if this call completed it."""
        if not self.force_complete():
            return False
        self.on_expiration()
        return True

    def attach_timer(self, entry: TimerTaskEntry[Any]) -> None:
        """Set the time-out; an earlier one is cancelled. Only the purgatory calls this."""
        assert not self.is_completed, "a completed operation must not expire"
        if self._timer_entry is not None:
            self.cancel()
        self._timer_entry = entry


OpT = TypeVar("OpT", bound=DelayedOperation)


class WatchedCounter:
    """The number of operations in all watch lists of one purgatory (``value``, each counted once),
    and the sum of the lengths of the lists (``places``)."""

    __slots__ = ("places", "value")

    def __init__(self) -> None:
        self.value = 0
        self.places = 0


class Watchers(Generic[OpT]):
    """The operations that watch one key, in the order of their arrival. Completed operations stay
    until the list is checked or purged.

    The completion of an operation may be re-entrant: it may watch this key, check it or purge it.
    So every walk uses a snapshot, and afterwards removes completed operations from the list as it
    is then. A nested check also tries operations that the outer check has passed already."""

    __slots__ = ("_counter", "operations")

    def __init__(self, counter: WatchedCounter) -> None:
        self._counter = counter
        self.operations: list[OpT] = []

    def watch(self, operation: OpT) -> None:
        self.operations.append(operation)
        self._counter.places += 1
        if not operation.watch_lists:
            self._counter.value += 1
        operation.watch_lists += 1

    def try_complete_watched(self) -> int:
        """Try each operation. Returns how many of them this call completed."""
        completed = 0
        stale = False
        for operation in tuple(self.operations):
            if operation.is_completed:
                stale = True
            elif operation.try_complete():
                stale = True
                completed += 1
        if stale:
            self.purge_completed()
        return completed

    def purge_completed(self) -> None:
        """Remove the completed operations."""
        kept = []
        for operation in self.operations:
            if not operation.is_completed:
                kept.append(operation)
            else:
                self._left_by(operation)
        self._counter.places -= len(self.operations) - len(kept)
        self.operations = kept

    def cancel(self) -> list[OpT]:
        """Remove all operations from the list, and their time-outs, without completing them.
        Returns the operations that were not completed before."""
        self.purge_completed()
        cancelled, self.operations = self.operations, []
        self._counter.places -= len(cancelled)
        for operation in cancelled:
            operation.cancel()
            self._left_by(operation)
        return cancelled

    def _left_by(self, operation: OpT) -> None:
        assert operation.watch_lists > 0, "in more watch lists than it was counted for"
        operation.watch_lists -= 1
        if not operation.watch_lists:
            self._counter.value -= 1


DEFAULT_PURGE_INTERVAL = 1000  # operations, not milliseconds
# A hundred operations may linger in a thousand lists each; more would make for a long purge.
LINGERING_PLACES = 100_000


class Purgatory(Generic[OpT]):
    """The parked operations of one kind (Kafka's ``DelayedOperationPurgatory``).

    The caller reads a monotonic clock and calls ``advance`` at ``next_expiration_ms``. Any method
    may be called during a completion."""

    def __init__(self, name: str, purge_interval: int = DEFAULT_PURGE_INTERVAL) -> None:
        self.name = name
        self.purge_interval = purge_interval
        self._timer: Timer[OpT] = Timer(start_ms=0)
        self._watchers: dict[Hashable, Watchers[OpT]] = {}
        # Whether a key has a watch list: otherwise ``check_and_complete`` would do nothing.
        self.is_watched: Final[Callable[[Hashable], bool]] = self._watchers.__contains__
        self._in_lists = WatchedCounter()
        self._purge_above = purge_interval
        self._purge_above_places = LINGERING_PLACES
        self.completed = 0  # by an event on a key, since the start
        self.expired = 0

    @property
    def watched(self) -> int:
        """The length of all watch lists. An operation on two keys counts twice, and a completed one
        until it is purged."""
        return self._in_lists.places

    @property
    def watched_keys(self) -> int:
        return len(self._watchers)

    @property
    def delayed(self) -> int:
        """The number of operations with a time-out."""
        return self._timer.size

    @property
    def purge_due(self) -> bool:
        """Whether a purge is due: the watch lists hold more than ``purge_interval`` completed
        operations, or their length exceeds twice that after the last purge by more than
        ``LINGERING_PLACES``."""
        lists = self._in_lists
        return (
            lists.value - self._timer.size > self._purge_above
            or lists.places > self._purge_above_places
        )

    def try_complete_else_watch(
        self, operation: OpT, keys: Sequence[Hashable], now_ms: int
    ) -> bool:
        """Try to complete the operation. If that fails, watch the keys, try once more for events in
        between, and only then set the time-out.

        True when this call completed the operation. ``keys`` must not be empty."""
        return operation.try_complete() or self.watch_and_try(operation, keys, now_ms)

    def watch_and_try(self, operation: OpT, keys: Sequence[Hashable], now_ms: int) -> bool:
        """Watch ``keys``, try once more, and set the time-out. For a caller that has just seen that
        the condition does not hold. True when this call completed the operation."""
        assert keys, "an operation that watches nothing could only time out"
        for key in keys:
            self.watch_also(operation, key)
        if operation.try_complete():
            return True
        if not operation.is_completed:
            timer = self._timer
            if not timer.size:
                timer.catch_up(now_ms)
            operation.attach_timer(timer.add(operation, now_ms + operation.delay_ms))
        return False

    def watch_also(self, operation: OpT, key: Hashable) -> None:
        """Let a parked operation watch one more key. The caller tries the operation, or checks the
        key, if something has happened to it already."""
        watchers = self._watchers.get(key)
        if watchers is None:
            watchers = self._watchers[key] = Watchers(self._in_lists)
        watchers.watch(operation)

    def check_and_complete(self, key: Hashable) -> int:
        """Try the operations that watch ``key``. Returns how many this call completed."""
        watchers = self._watchers.get(key)
        if watchers is None:
            return 0
        completed = watchers.try_complete_watched()
        self.completed += completed
        if not watchers.operations:
            self._forget(key, watchers)
        return completed

    def check_all_and_complete(self, keys: Iterable[Hashable]) -> int:
        """Try the operations that watch any of ``keys``, each once. Returns how many have completed
        by it."""
        lists = [(key, self._watchers[key]) for key in keys if key in self._watchers]
        waiting = dict.fromkeys(op for _, watchers in lists for op in watchers.operations)
        completed = 0
        for operation in waiting:
            if not operation.is_completed and operation.try_complete():
                completed += 1
        self.completed += completed
        for key, watchers in lists:
            watchers.purge_completed()
            if not watchers.operations:
                self._forget(key, watchers)
        return completed

    def cancel_for_key(self, key: Hashable) -> list[OpT]:
        """Remove the watch list of ``key`` and the time-outs of its operations. Returns the
        operations, none of them completed: an event on another key can still complete them."""
        watchers = self._watchers.pop(key, None)
        return [] if watchers is None else watchers.cancel()

    def advance(self, now_ms: int) -> int:
        """Expire the operations that are due, then purge if that is due. Returns how many
        operations expired."""
        expired = 0
        for operation in self._timer.advance(now_ms):
            # An operation that expired before it may have completed or cancelled it.
            if operation.is_timed and operation.expire():
                expired += 1
        self.expired += expired
        if self.purge_due:
            self._purge()
        return expired

    def next_expiration_ms(self) -> int | None:
        """Return the time at which to call ``advance`` next, which may lie in the past. None
        without time-outs."""
        return self._timer.next_expiration_ms()

    def levels(self, count_at_most: int | None = None) -> list[WheelLevel]:
        """Return the wheels of this purgatory's timer, for dumps. See ``TimingWheel.levels``."""
        return self._timer.levels(count_at_most)

    def waiting(self, at_most: int) -> list[tuple[int, OpT]]:
        """Return up to ``at_most`` pairs of expiration in ms and operation, approximately those
        that expire first. It visits no other operations, of which there may be very many."""
        entries = islice(self._timer.entries(), at_most)
        return [(entry.expiration_ms, entry.task) for entry in entries]

    def _purge(self) -> None:
        for key, watchers in list(self._watchers.items()):
            watchers.purge_completed()
            if not watchers.operations:
                self._forget(key, watchers)
        # What this purge has left must not trigger the next one.
        left = self._in_lists.value - self._timer.size
        self._purge_above = left + self.purge_interval
        self._purge_above_places = 2 * self._in_lists.places + LINGERING_PLACES

    def _forget(self, key: Hashable, watchers: Watchers[OpT]) -> None:
        # A completion may have emptied and removed the list and watched the key again. Then there
        # is a newer list, which stays.
        if self._watchers.get(key) is watchers:
            del self._watchers[key]
