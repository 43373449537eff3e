"""The reaper of one purgatory: gives it the clock's time, and wakes it when a bucket is due."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.kernel.ports import Clock, TimerHandle

OpT = TypeVar("OpT", bound=DelayedOperation)

PURGE_PERIOD_MS = 200  # how long Kafka's reaper polls at most, and so how long a purge may wait


def expiration_reaper_name(broker_id: int, purgatory_name: str) -> str:
    """Kafka's thread name, e.g. ``ExpirationReaper-1-Produce``."""
    return f"ExpirationReaper-{broker_id}-{purgatory_name}"


class Reaper(Generic[OpT]):
    """Kafka's ``ExpiredOperationReaper`` as one timer on the loop instead of a polling thread.

    One purgatory, one reaper, one pending wake-up: at the next bucket that expires, or within
    ``PURGE_PERIOD_MS`` when completed operations pile up in watch lists.
    """

    def __init__(self, clock: Clock, purgatory: Purgatory[OpT], name: str) -> None:
        self.name = name
        self.purgatory = purgatory
        self.wake_ups = 0
        self._clock = clock
        self._armed_ms = 0
        self._handle: TimerHandle | None = None
        self._closed = False

    def try_complete_else_watch(self, operation: OpT, keys: Sequence[Hashable]) -> bool:
        """As ``Purgatory.try_complete_else_watch``, now."""
        now_ms = self._clock.monotonic_ms()
        if self.purgatory.try_complete_else_watch(operation, keys, now_ms):
            return True
        if self._handle is None or self._armed_ms > now_ms + operation.delay_ms:
            self._arm(now_ms)
        return False

    @property
    def next_wake_up_ms(self) -> int | None:
        """By the monotonic clock; None while nothing waits."""
        return None if self._handle is None else self._armed_ms

    def check_and_complete(self, key: Hashable) -> int:
        """As ``Purgatory.check_and_complete``."""
        return self._completed(self.purgatory.check_and_complete(key))

    def check_all_and_complete(self, keys: Iterable[Hashable]) -> int:
        """As ``Purgatory.check_all_and_complete``."""
        return self._completed(self.purgatory.check_all_and_complete(keys))

    def _completed(self, count: int) -> int:
        if count and self.purgatory.purge_due:
            self._arm(self._clock.monotonic_ms())
        return count

    def close(self) -> None:
        """Never wake again. What is parked stays parked."""
        self._closed = True
        self._disarm()

    def _arm(self, now_ms: int) -> None:
        purgatory = self.purgatory
        due_ms = purgatory.next_expiration_ms()
        if purgatory.purge_due:
            purge_ms = now_ms + PURGE_PERIOD_MS
            due_ms = purge_ms if due_ms is None else min(due_ms, purge_ms)
        if due_ms is None or self._closed:
            return
        if self._handle is not None:
            if self._armed_ms <= due_ms:
                return
            self._disarm()
        self._armed_ms = due_ms
        self._handle = self._clock.call_later(max(0, due_ms - now_ms), self._wake)

    def _disarm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _wake(self) -> None:
        self._handle = None
        self.wake_ups += 1
        self.purgatory.advance(self._clock.monotonic_ms())
        self._arm(self._clock.monotonic_ms())
