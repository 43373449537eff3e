"""Delayed operations that wait until the metadata cache shows the effect of an admin request."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from minikafka.core.purgatory import DelayedOperation
from minikafka.server.broker.purgatories import Reaper

T = TypeVar("T")


class DelayedUntilVisible(DelayedOperation, Generic[T]):
    """A delayed operation that waits until the metadata cache shows an expected change.

    It completes when (A) nothing is missing in the cache, or (B) after ``delay_ms``. Then the
    future ``ended`` gets the list of what is still missing. The operation watches the names of
    ``topics``."""

    __slots__ = ("_topics", "ended")

    def __init__(self, delay_ms: int, topics: Sequence[str]) -> None:
        super().__init__(delay_ms)
        self._topics = topics
        self.ended: asyncio.Future[list[T]] = asyncio.get_running_loop().create_future()

    @abstractmethod
    def _missing(self) -> list[T]:
        """Return the items that the cache does not show yet."""

    def try_complete(self) -> bool:
        return not self._missing() and self.force_complete()  # case A

    def on_complete(self) -> None:
        if not self.ended.done():  # cancelled when the node stops
            self.ended.set_result(self._missing())

    def on_expiration(self) -> None:
        """Case B: ``on_complete`` has ended the wait."""

    def watched_keys(self) -> Iterable[str]:
        return self._topics


async def missing_after(
    reaper: Reaper[DelayedOperation], operation: DelayedUntilVisible[T]
) -> list[T]:
    """Park the operation and wait for its completion. Returns the items still missing then, none
    after case A."""
    reaper.try_complete_else_watch(operation, list(operation.watched_keys()))
    return await operation.ended
