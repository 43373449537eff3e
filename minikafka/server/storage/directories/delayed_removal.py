"""Delayed removal of files and directories that have been renamed."""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import field
from typing import Final

from minikafka.kernel.events import EventLog
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock, Files
from minikafka.server.storage.log.segment import LogSegment

_SHORTEST_RETRY_MS: Final = 1_000


@dataclass(order=True, slots=True)
class _Aside:
    due_ms: int
    sequence: int
    delay_ms: int = field(compare=False)
    paths: list[str] = field(compare=False)
    segment: LogSegment | None = field(compare=False)


class DelayedRemoval:
    """A queue of files and directories to remove, each after its delay, one at a time in a thread.

    Entries that are left when the broker stops are removed at its next start. Kafka:
    ``kafka-delete-logs``."""

    def __init__(self, files: Files, clock: Clock, events: EventLog) -> None:
        self._files = files
        self._clock = clock
        self._events = events
        self._asides: list[_Aside] = []  # a heap, at most one entry for each file on disk
        self._sequence = 0
        self._wake = asyncio.Event()

    def tree(self, path: str, delay_ms: int) -> None:
        self._add([path], delay_ms, None)

    def segment(self, segment: LogSegment, delay_ms: int) -> None:
        """Queue a segment. Its files stay open until they are removed, for current readers."""
        self._add(segment.paths, delay_ms, segment)

    def _add(self, paths: list[str], delay_ms: int, segment: LogSegment | None) -> None:
        self._sequence += 1
        due_ms = self._clock.monotonic_ms() + delay_ms
        heapq.heappush(self._asides, _Aside(due_ms, self._sequence, delay_ms, paths, segment))
        self._wake.set()

    def forget(self, directory: str) -> None:
        """Drop the entries below a directory that has failed."""
        gone = [aside for aside in self._asides if aside.paths[0].startswith(f"{directory}/")]
        self._asides = [aside for aside in self._asides if aside not in gone]
        heapq.heapify(self._asides)
        _close(gone)

    def close(self) -> None:
        _close(self._asides)
        self._asides = []

    async def run(self) -> None:
        """Remove entries when they are due, until cancelled."""
        while True:
            while self._asides and self._asides[0].due_ms <= self._clock.monotonic_ms():
                await self._remove(heapq.heappop(self._asides))
            self._wake.clear()
            timer = None
            if self._asides:
                delay_ms = self._asides[0].due_ms - self._clock.monotonic_ms()
                timer = self._clock.call_later(max(0, delay_ms), self._wake.set)
            try:
                await self._wake.wait()
            finally:
                if timer is not None:
                    timer.cancel()

    async def _remove(self, aside: _Aside) -> None:
        _close([aside])
        try:
            for path in aside.paths:
                await self._files.discard(path)
        except OSError as error:
            self._events.error("log_removal_failed", path=aside.paths[0], error=str(error))
            self._add(aside.paths, max(aside.delay_ms, _SHORTEST_RETRY_MS), None)


def _close(asides: list[_Aside]) -> None:
    for aside in asides:
        if aside.segment is not None:
            aside.segment.close()
