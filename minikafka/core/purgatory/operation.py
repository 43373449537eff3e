"""The life of one delayed operation, from waiting to completed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any

from minikafka.core.timer.bucket import TimerTaskEntry


class DelayedOperation(ABC):
    """Something to be answered when a condition holds, or after ``delay_ms`` whatever holds.

    Unlike a timed task it may end before its time, by an event. It completes exactly once, by
    whoever comes first; every later attempt returns False. Subclasses fill in the three template
    methods and may declare ``__slots__``.

    ``is_completed`` is written by ``force_complete`` alone; a plain attribute, since every walk
    over a watch list reads it. ``watch_lists`` counts the lists that hold the operation, for them.
    """

    __slots__ = ("_timer_entry", "delay_ms", "is_completed", "watch_lists")

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.is_completed = False
        self.watch_lists = 0
        self._timer_entry: TimerTaskEntry[Any] | None = None

    @abstractmethod
    def try_complete(self) -> bool:
        """Look whether the condition holds; if so return ``self.force_complete()``, else False."""

    @abstractmethod
    def on_complete(self) -> None:
        """What completion means. Called exactly once, by an event or by expiry."""

    @abstractmethod
    def on_expiration(self) -> None:
        """What expiry means besides. Called after ``on_complete`` when time ran out."""

    def watched_keys(self) -> Iterable[Hashable]:
        """The keys it still waits on, for dumps: the purgatory knows operations by key only."""
        return ()

    @property
    def is_timed(self) -> bool:
        """Whether a time-out is set: neither completed nor cancelled since it was."""
        return self._timer_entry is not None

    def force_complete(self) -> bool:
        """Complete now, condition or not. True for the one caller that did it."""
        if self.is_completed:
            return False
        self.is_completed = True
        if self._timer_entry is not None:
            self.cancel()
        self.on_complete()
        return True

    def cancel(self) -> None:
        """Leave the timer: the operation no longer expires. It can still be completed."""
        entry = self._timer_entry
        if entry is not None:
            self._timer_entry = None
            entry.cancel()

    def expire(self) -> bool:
        """The time is up. True when that completed the operation."""
        if not self.force_complete():
            return False
        self.on_expiration()
        return True

    def attach_timer(self, entry: TimerTaskEntry[Any]) -> None:
        """Remember the place in the timer, to leave it on completion; an earlier one is left now.
        For the purgatory."""
        if self._timer_entry is not None:
            self.cancel()
        self._timer_entry = entry
