"""A callback that queues its arguments for a test to await."""

from __future__ import annotations

import asyncio
from typing import Any


class Inbox:
    """Queue the argument of every call; ``get`` waits for the next one."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue()

    def __call__(self, thing: Any) -> None:
        self._queue.put_nowait(thing)

    async def get(self) -> Any:
        async with asyncio.timeout(20):
            return await self._queue.get()

    def empty(self) -> bool:
        return self._queue.empty()
