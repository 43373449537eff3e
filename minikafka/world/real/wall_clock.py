"""The machine's clocks for code without an event loop. Importing asyncio would take 0.1 s."""

from __future__ import annotations

import time


class WallClock:
    """The monotonic and the wall time, as in ``kernel.ports.Clock``, without its timers."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)  # read three times for a request

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
