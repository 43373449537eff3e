"""The order in which the large replies of many connections are written."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

WRITTEN_AT_ONCE_BYTES = 4 * 1024 * 1024  # in one turn of the loop


class LargeWriter(Protocol):
    """A connection that has large replies ready."""

    def write_large(self) -> int:
        """Write the ready replies. Return how many bytes the system may have copied."""
        ...


class LargeWrites:
    """Writes the large replies of many connections in turn, so many bytes in one turn of the loop.

    The system copies some megabytes of each reply when it is written. When a hundred parked fetches
    complete together, all other connections would wait for their copies.
    """

    def __init__(self) -> None:
        self._queue: deque[LargeWriter] = deque()

    def add(self, connection: LargeWriter) -> None:
        if not self._queue:
            asyncio.get_running_loop().call_soon(self._write_some)
        self._queue.append(connection)

    def _write_some(self) -> None:
        queue, left = self._queue, WRITTEN_AT_ONCE_BYTES
        while queue and left > 0:
            left -= queue[0].write_large()
            queue.popleft()
        if queue:
            asyncio.get_running_loop().call_soon(self._write_some)
