"""Loading many logs: a word every five seconds on how far it is."""

from __future__ import annotations

import asyncio
from typing import Any

from minikafka.server.storage.directories.loading import LogLoading
from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.storage.logs import new_log
from tests.support.world.recording_log import RecordingLog
from tests.support.world.virtual_clock import VirtualClock


class SlowLoader:
    """Recovers 1,000 bytes a second, for ``seconds``."""

    def __init__(self, clock: VirtualClock, seconds: int) -> None:
        self.log = new_log()
        self.discarded = False
        self.bytes_read = 0
        self._clock = clock
        self._seconds = seconds

    async def load(self) -> None:
        for _ in range(self._seconds):
            await self._clock.sleep(1_000)
            self.bytes_read += 1_000


async def test_long_recovery_tells_how_far_it_is() -> None:
    clock, events = VirtualClock(), RecordingLog()
    adopted: list[UnifiedLog] = []
    unchecked: Any = events
    loading = LogLoading(clock, unchecked, 1, adopted.append)
    loaders: list[Any] = [SlowLoader(clock, 3), SlowLoader(clock, 8), SlowLoader(clock, 1)]
    task = asyncio.create_task(loading.load(loaders))
    await clock.advance(4_500)
    assert events.events == []
    await clock.advance(6_000)
    told = [(event, found["loaded"], found["logs"]) for _, event, found in events.events]
    assert told == [("logs_loading", 1, 3)] * 2
    assert events.events[1][2]["bytes_recovered"] > events.events[0][2]["bytes_recovered"] >= 4_000
    await clock.advance(10_000)
    await task
    assert len(adopted) == 3
    await clock.advance(60_000)
    assert len(events.events) == 2  # it says no more
