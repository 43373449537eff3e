"""The simulated Clock: the loop's time, and each host's wall clock with its offset."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minikafka.kernel.ports import TimerHandle
from minikafka.world.sim.loop import START_US
from minikafka.world.sim.process import Process

EPOCH_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def universal_ms(now_us: int) -> int:
    """Return the wall-clock time of a host whose clock has no offset."""
    return EPOCH_MS + (now_us - START_US) // 1000


class SimClock:
    """The Clock of one process. See ``kernel.ports.Clock``.

    ``offset_ms`` is how far this host's wall clock is ahead. It may be changed at any time.
    """

    def __init__(self, process: Process, offset_ms: int = 0) -> None:
        self.offset_ms = offset_ms
        self._process = process

    def monotonic_ms(self) -> int:
        return self._process.loop.now_us // 1000

    def monotonic_ns(self) -> int:
        return self._process.loop.now_us * 1000

    def wall_ms(self) -> int:
        return universal_ms(self._process.loop.now_us) + self.offset_ms

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle:
        return self._process.call_later_us(delay_ms * 1000, callback)

    async def sleep(self, delay_ms: int) -> None:
        self._process.check()
        await asyncio.sleep(delay_ms / 1000)
        self._process.check()
