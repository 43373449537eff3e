"""The real Clock: the loop's monotonic time, the machine's wall time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context

from minikafka.kernel.ports import TimerHandle
from minikafka.world.real.wall_clock import WallClock


class RealClock(WallClock):
    """See ``kernel.ports.Clock``. Timers run on the loop that is running when they are set, in an
    empty context: a timer is not part of the request that happens to set it."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle:
        loop = asyncio.get_running_loop()
        return loop.call_later(delay_ms / 1000, callback, context=Context())

    async def sleep(self, delay_ms: int) -> None:
        await asyncio.sleep(delay_ms / 1000)
