"""The purgatory of one kind of delayed operation: its watch lists by key, its timer, its purges."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import islice
from typing import Generic, TypeVar

from minikafka.core.purgatory.operation import DelayedOperation
from minikafka.core.purgatory.watchers import WatchedCounter, Watchers
from minikafka.core.timer.timer import Timer
from minikafka.core.timer.wheel import WheelLevel

OpT = TypeVar("OpT", bound=DelayedOperation)

DEFAULT_PURGE_INTERVAL = 1000  # operations, not milliseconds
# A hundred operations may linger in a thousand lists each; more would make for a long purge.
LINGERING_PLACES = 100_000


class Purgatory(Generic[OpT]):
    """Kafka's ``DelayedOperationPurgatory``: one timer, and one list of watchers per key.

    Single-threaded and without a clock: the caller brings ``now_ms`` of a monotonic clock and calls
    ``advance`` at ``next_expiration_ms``. Any call may be made from within a completion.

    Kafka spreads the lists over 512 shards, each with its lock, for threads that would wait for
    each other. Here is one thread, and one dict finds a list as fast as 512 do.

    A purge costs a look at every watch list, so it is due by what it would find: operations in some
    list that no longer wait, or many places in lists, mostly of such. Kafka counts operations too
    that have left their lists, and purges more often.
    """

    def __init__(self, name: str, purge_interval: int = DEFAULT_PURGE_INTERVAL) -> None:
        self.name = name
        self.purge_interval = purge_interval
        self._timer: Timer[OpT] = Timer(start_ms=0)
        self._watchers: dict[Hashable, Watchers[OpT]] = {}
        self._in_lists = WatchedCounter()
        self._purge_above = purge_interval
        self._purge_above_places = LINGERING_PLACES

    @property
    def watched(self) -> int:
        """Length of all watch lists. An operation on two keys counts twice; one that is completed
        counts until it is purged."""
        return self._in_lists.places

    @property
    def watched_keys(self) -> int:
        return len(self._watchers)

    @property
    def delayed(self) -> int:
        """Operations that wait for their time-out."""
        return self._timer.size

    @property
    def purge_due(self) -> bool:
        """Whether more than ``purge_interval`` completed operations linger in watch lists, or those
        have grown to twice what the last purge left, and ``LINGERING_PLACES``."""
        lists = self._in_lists
        return (
            lists.value - self._timer.size > self._purge_above
            or lists.places > self._purge_above_places
        )

    def try_complete_else_watch(
        self, operation: OpT, keys: Sequence[Hashable], now_ms: int
    ) -> bool:
        """Try; watch the keys; try again, for what happened in between; only then start the timer.

        True when this call completed the operation. ``keys`` must not be empty.
        """
        assert keys, "an operation that watches nothing would only ever time out"
        if operation.try_complete():
            return True
        for key in keys:
            watchers = self._watchers.get(key)
            if watchers is None:
                watchers = self._watchers[key] = Watchers(self._in_lists)
            watchers.watch(operation)
        if operation.try_complete():
            return True
        if not operation.is_completed:
            timer = self._timer
            if not timer.size:
                timer.catch_up(now_ms)
            operation.attach_timer(timer.add(operation, now_ms + operation.delay_ms))
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Something happened to ``key``: try what watches it. Returns how many completed here."""
        watchers = self._watchers.get(key)
        if watchers is None:
            return 0
        completed = watchers.try_complete_watched()
        if not watchers.operations:
            self._forget(key, watchers)
        return completed

    def check_all_and_complete(self, keys: Iterable[Hashable]) -> int:
        """As ``check_and_complete``, for something that happened to all of ``keys`` at once: an
        operation on many of them is tried once, not for each."""
        lists = [(key, self._watchers[key]) for key in keys if key in self._watchers]
        waiting = dict.fromkeys(op for _, watchers in lists for op in watchers.operations)
        completed = 0
        for operation in waiting:
            if not operation.is_completed and operation.try_complete():
                completed += 1
        for key, watchers in lists:
            watchers.purge_completed()
            if not watchers.operations:
                self._forget(key, watchers)
        return completed

    def cancel_for_key(self, key: Hashable) -> list[OpT]:
        """Stop watching ``key`` and stop the timers of what waited for it; returns what did.

        Completes nothing: an operation on other keys can still be completed by an event there."""
        watchers = self._watchers.pop(key, None)
        return [] if watchers is None else watchers.cancel()

    def advance(self, now_ms: int) -> int:
        """Expire what is due, in the order of the timer; purge if it is time to.

        Returns how many operations were completed by expiry.
        """
        expired = 0
        for operation in self._timer.advance(now_ms):
            # Those before it in this pass may have completed or cancelled it.
            if operation.is_timed and operation.expire():
                expired += 1
        if self.purge_due:
            self._purge()
        return expired

    def next_expiration_ms(self) -> int | None:
        """When ``advance`` is due next; it may lie in the past. None while nothing waits."""
        return self._timer.next_expiration_ms()

    def levels(self, count_at_most: int | None = None) -> list[WheelLevel]:
        """The wheels of this purgatory's own timer, for dumps. See ``TimingWheel.levels``."""
        return self._timer.levels(count_at_most)

    def waiting(self, at_most: int) -> list[tuple[int, OpT]]:
        """Up to so many operations that wait for their time-out, each behind its expiration in ms:
        about those that expire first. Looks at no others: for dumps of what may be very many."""
        entries = islice(self._timer.entries(), at_most)
        return [(entry.expiration_ms, entry.task) for entry in entries]

    def _purge(self) -> None:
        for key, watchers in list(self._watchers.items()):
            watchers.purge_completed()
            if not watchers.operations:
                self._forget(key, watchers)
        # What is left is no reason for the next purge, though it may not be in the timer either.
        left = self._in_lists.value - self._timer.size
        self._purge_above = left + self.purge_interval
        self._purge_above_places = 2 * self._in_lists.places + LINGERING_PLACES

    def _forget(self, key: Hashable, watchers: Watchers[OpT]) -> None:
        # A completion may have emptied the list, dropped it and watched the key anew: that newer
        # list is not ours to drop.
        if self._watchers.get(key) is watchers:
            del self._watchers[key]
