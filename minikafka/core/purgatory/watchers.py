"""The operations that wait for events on one key."""

from __future__ import annotations

from typing import Generic, TypeVar

from minikafka.core.purgatory.operation import DelayedOperation

OpT = TypeVar("OpT", bound=DelayedOperation)


class WatchedCounter:
    """How many operations all the lists of one purgatory hold together, each counted once; and
    ``places``: one for each list that it is in."""

    __slots__ = ("places", "value")

    def __init__(self) -> None:
        self.value = 0
        self.places = 0


class Watchers(Generic[OpT]):
    """Operations in the order in which they came. Completed ones linger until looked at.

    Completing an operation may call back in: watch this key again, check it again, purge it. So
    every walk goes over a snapshot, and the list is rebuilt from what it holds afterwards. A nested
    check sees all that wait here, also those which the outer one has passed already.
    """

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
        """Try each; returns how many this very walk completed."""
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
        """Drop the operations that are completed."""
        kept = []
        for operation in self.operations:
            if not operation.is_completed:
                kept.append(operation)
            elif operation.watch_lists == 1:
                operation.watch_lists = 0
                self._counter.value -= 1
            else:
                operation.watch_lists -= 1
        self._counter.places -= len(self.operations) - len(kept)
        self.operations = kept

    def cancel(self) -> list[OpT]:
        """Take all out of here and out of the timer, without completing them; returns those that
        are not completed yet."""
        self.purge_completed()
        cancelled, self.operations = self.operations, []
        self._counter.places -= len(cancelled)
        for operation in cancelled:
            operation.cancel()
            operation.watch_lists -= 1
            self._counter.value -= not operation.watch_lists
        return cancelled
