"""The operations that wait for events on one key."""

from __future__ import annotations

from typing import Generic, TypeVar

from minikafka.core.purgatory.operation import DelayedOperation

OpT = TypeVar("OpT", bound=DelayedOperation)


class Watchers(Generic[OpT]):
    """Operations in the order in which they came. Completed ones linger until looked at.

    Completing an operation may call back in: watch this key again, check it again, purge it. So
    every walk goes over a snapshot, and the list is rebuilt from what it holds afterwards. A nested
    check sees all that wait here, also those which the outer one has passed already.
    """

    __slots__ = ("operations",)

    def __init__(self) -> None:
        self.operations: list[OpT] = []

    def __len__(self) -> int:
        return len(self.operations)

    def watch(self, operation: OpT) -> None:
        self.operations.append(operation)

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

    def purge_completed(self) -> int:
        """Drop the operations that were completed elsewhere; returns how many."""
        before = len(self.operations)
        self.operations = [op for op in self.operations if not op.is_completed]
        return before - len(self.operations)

    def cancel(self) -> list[OpT]:
        """Take all out of here and out of the timer, without completing them."""
        cancelled, self.operations = self.operations, []
        for operation in cancelled:
            operation.cancel()
        return cancelled
