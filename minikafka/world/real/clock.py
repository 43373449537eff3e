"""The real Clock: the loop's monotonic time, the machine's wall time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from minikafka.kernel.ports import TimerHandle


class RealClock:
    """See ``kernel.ports.Clock``. Timers run on the loop that is running when they are set."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)

    async def sleep(self, delay_ms: int) -> None:
        await asyncio.sleep(delay_ms / 1000)
