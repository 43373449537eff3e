"""The simulated Workers: functions run at once, and their callers get the results later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from minikafka.world.sim.clock import SimClock
from minikafka.world.sim.entropy import SimEntropy

T = TypeVar("T")

MAX_WORK_MS = 50


class SimWorkers:
    """See ``kernel.ports.Workers``."""

    def __init__(self, clock: SimClock, entropy: SimEntropy) -> None:
        self._clock = clock
        self._entropy = entropy

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        result = work(*args)
        await self._clock.sleep(self._entropy.randrange(MAX_WORK_MS))
        return result
