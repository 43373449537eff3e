"""The controller's event queue: first in, first out, one consumer (ControllerEventManager)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from minikafka.core.controller.events import ControllerEvent
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.metrics import Counter, Metrics
from minikafka.kernel.ports import Clock

# Watches fire once per reading and answers follow requests, so the queue stays short; beyond this
# something feeds it in a circle.
MAX_QUEUED_EVENTS = 1_000_000
QUEUE_TIME_SAMPLES = 1024


@dataclass(frozen=True, slots=True)
class QueuedEvent:
    """``answer``: where somebody waits for the event's result, if anybody does."""

    event: ControllerEvent
    enqueued_ms: int
    answer: asyncio.Future[Any] | None = None


class EventQueue:
    """Everything that happens to a controller passes here, one at a time; so no lock is needed.

    Metrics: ``EventQueueSize``, and ``EventQueueTimeMs`` (how many, maximum and mean of the last).
    """

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._events: deque[QueuedEvent] = deque()  # at most MAX_QUEUED_EVENTS
        self._arrival = asyncio.Event()
        self._times_ms: deque[int] = deque(maxlen=QUEUE_TIME_SAMPLES)
        self._closed = False
        self._taken = Counter()

    def start(self) -> None:
        self._metrics.gauge("kafka.controller:EventQueueSize", lambda: len(self._events))
        self._taken = self._metrics.counter("kafka.controller:EventQueueTimeMs.count")
        self._metrics.gauge(
            "kafka.controller:EventQueueTimeMs.max", lambda: max(self._times_ms, default=0)
        )
        self._metrics.gauge(
            "kafka.controller:EventQueueTimeMs.mean",
            lambda: sum(self._times_ms) / max(1, len(self._times_ms)),
        )

    def __len__(self) -> int:
        return len(self._events)

    def waiting(self) -> Iterator[ControllerEvent]:
        """Queued events, oldest first."""
        return (queued.event for queued in self._events)

    def put(self, event: ControllerEvent) -> None:
        self._append(QueuedEvent(event, self._clock.monotonic_ms()))

    def ask(self, event: ControllerEvent) -> asyncio.Future[Any]:
        """Put ``event`` and get its result, or ``KafkaError`` when it was not to be had."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._append(QueuedEvent(event, self._clock.monotonic_ms(), answer))
        return answer

    def clear_and_ask(self, event: ControllerEvent) -> asyncio.Future[Any]:
        """Drop what waits (whoever asked hears that the controller moved) and ask ``event``."""
        self._clear()
        return self.ask(event)

    def close(self) -> None:
        """The consumer has gone: what waits and what comes is dropped."""
        self._closed = True
        self._clear()

    def _clear(self) -> None:
        waiting, self._events = self._events, deque()
        for queued in waiting:
            _refuse(queued)

    async def take(self) -> QueuedEvent:
        """The oldest event, as soon as there is one."""
        while not self._events:
            self._arrival.clear()
            await self._arrival.wait()
        queued = self._events.popleft()
        self._taken.mark()
        self._times_ms.append(self._clock.monotonic_ms() - queued.enqueued_ms)
        return queued

    def _append(self, queued: QueuedEvent) -> None:
        if self._closed:
            _refuse(queued)
            return
        assert len(self._events) < MAX_QUEUED_EVENTS, "the controller's event queue is full"
        self._events.append(queued)
        self._arrival.set()


def _refuse(queued: QueuedEvent) -> None:
    if queued.answer is not None and not queued.answer.done():
        queued.answer.set_exception(
            KafkaError(queued.event.moved, "the controller moved to another broker")
        )
