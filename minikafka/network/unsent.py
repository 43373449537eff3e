"""What all connections together hold for peers that read slowly."""

from __future__ import annotations

from typing import Protocol


class Stalled(Protocol):
    """A connection whose peer does not take what was written."""

    @property
    def unsent_bytes(self) -> int: ...


class UnsentReplies:
    """Kafka sends records from the file; here an answer is in memory until the peer has taken it.
    One connection is bounded by ``ServerConfig``, all of them by who asks for ``bytes`` before
    making another large answer."""

    def __init__(self) -> None:
        self._stalled: set[Stalled] = set()

    @property
    def bytes(self) -> int:
        return sum(connection.unsent_bytes for connection in self._stalled)

    def add(self, connection: Stalled) -> None:
        self._stalled.add(connection)

    def discard(self, connection: Stalled) -> None:
        self._stalled.discard(connection)
