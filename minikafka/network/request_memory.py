"""The bytes of queued requests of all connections of a broker (Kafka's ``MemoryPool``)."""

from __future__ import annotations

from collections.abc import Callable

UNLIMITED = -1


class RequestMemory:
    """Counts the bytes that connections hold for unanswered requests, and wakes those that wait.

    The limit is ``max_bytes`` (``queued.max.request.bytes``); 0 or less is unlimited, as in Kafka.
    A connection that holds some bytes waits while the memory ``is_full``. One that holds none goes
    on: otherwise Produce requests that wait for followers could keep the fetches of these followers
    from being served. So the limit may be exceeded by one request of each connection.
    """

    def __init__(self, max_bytes: int = UNLIMITED) -> None:
        self.used_bytes = 0
        self._max_bytes = max_bytes
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def is_full(self) -> bool:
        return 0 < self._max_bytes <= self.used_bytes

    def add(self, size: int) -> None:
        """Count ``size`` more bytes, or fewer if it is negative. If bytes are free now, call what
        has waited for that; it must not call ``add``."""
        self.used_bytes += size
        assert self.used_bytes >= 0, "more bytes were freed than were counted"
        if self._waiting and not self.is_full:
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
