"""The bytes of queued requests of all connections of a broker (Kafka's ``MemoryPool``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

UNLIMITED: Final = -1
NO_LIMIT: Final = 2**62


class RequestMemory:
    """Counts the bytes that connections hold for unanswered requests, and wakes those that wait.

    The limit is ``max_bytes`` (``queued.max.request.bytes``); 0 or less is unlimited, as in Kafka.
    It is less while other kinds of memory leave less (``MemoryBudget``).
    A connection that holds some bytes waits while the memory ``is_full``. One that holds none goes
    on: otherwise Produce requests that wait for followers could keep the fetches of these followers
    from being served. So the limit may be exceeded by one request of each connection.
    """

    def __init__(self, max_bytes: int = UNLIMITED) -> None:
        self.used_bytes = 0
        self._max_bytes = max_bytes if max_bytes > 0 else NO_LIMIT
        self._full_at = self._max_bytes
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def is_full(self) -> bool:
        return self.used_bytes >= self._full_at

    @property
    def room(self) -> int:
        """How many bytes are left until the memory ``is_full``."""
        return self._full_at - self.used_bytes

    def add(self, size: int) -> None:
        """Count ``size`` more bytes, or fewer if it is negative. If bytes are free now, call what
        has waited for that; it must not call ``add``."""
        self.used_bytes += size
        assert self.used_bytes >= 0, "more bytes were freed than were counted"
        if self._waiting:
            self._wake_if_free()

    def limit_to(self, size: int) -> None:
        """Set how many bytes the other kinds of memory leave."""
        self._full_at = min(self._max_bytes, size)
        if self._waiting:
            self._wake_if_free()

    def _wake_if_free(self) -> None:
        if self.used_bytes < self._full_at:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()

    def wait(self, wake: Callable[[], None]) -> bool:
        """Call ``wake`` once when the memory is no longer full. Returns False if it waits
        already."""
        if wake in self._waiting:
            return False
        self._waiting[wake] = None
        return True

    def forget(self, wake: Callable[[], None]) -> None:
        self._waiting.pop(wake, None)
