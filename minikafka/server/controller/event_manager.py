"""The controller's event queue: first in, first out, one consumer (Kafka's ControllerEventManager).

The controller needs no lock because of three rules.

- Watches, timers, responses and requests of other parts of the broker only put an event on this
  queue. They carry no state of ZooKeeper: the event's handler reads the current state.
- One task (``KafkaController``'s) takes events from the queue and handles each completely, with all
  its reads, writes and requests, before it takes the next. Only this task changes the controller
  context.
- An event may be queued long before it is handled. The controller may have resigned in between, and
  may even have been elected again. Events that belong to one term therefore carry its epoch, and
  the handler drops those of an earlier term.

A caller that needs the result of its event uses ``submit`` and awaits the future. If this broker is
not the controller when the event's turn comes, the future fails with the event's ``moved`` error.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from minikafka.core.controller.events import ControllerEvent
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.metrics import Histogram, Metrics
from minikafka.kernel.ports import Clock

# A watch fires once per read and each request has one response, so the queue stays short. Beyond
# this number, handling events must be creating events without end.
MAX_QUEUED_EVENTS = 1_000_000
MAX_COUNTED_EVENTS = 1_000  # by their kinds, for a page
_GROUP = "kafka.controller:type=ControllerEventManager"


@dataclass(frozen=True, slots=True)
class QueuedEvent:
    """An event in the queue. ``result`` is the future of a caller that waits for its result."""

    event: ControllerEvent
    enqueued_ms: int
    result: asyncio.Future[Any] | None = None


class EventQueue:
    """The queue between everything that happens to a controller and the task that handles it.

    Metrics: ``EventQueueSize``, and ``EventQueueTimeMs``: the number of events taken, and the
    maximum and mean waiting time of the last ones.
    """

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._events: deque[QueuedEvent] = deque()  # at most MAX_QUEUED_EVENTS
        self._arrival = asyncio.Event()
        self._taking = False
        self._times_ms = Histogram()
        self._closed = False

    def start(self) -> None:
        """Register the metrics."""
        self._metrics.gauge(f"{_GROUP},name=EventQueueSize", lambda: len(self._events))
        self._times_ms = self._metrics.histogram(f"{_GROUP},name=EventQueueTimeMs")

    def __len__(self) -> int:
        return len(self._events)

    def waiting(self) -> Iterator[ControllerEvent]:
        """Return the queued events, oldest first."""
        return (queued.event for queued in self._events)

    def kinds(self) -> Mapping[str, int]:
        """Return how many of the first ``MAX_COUNTED_EVENTS`` events are of each kind."""
        return Counter(type(event).__name__ for event in islice(self.waiting(), MAX_COUNTED_EVENTS))

    def put(self, event: ControllerEvent) -> None:
        """Queue an event without a waiting caller."""
        self._append(QueuedEvent(event, self._clock.monotonic_ms()))

    def submit(self, event: ControllerEvent) -> asyncio.Future[Any]:
        """Queue an event and return the future of its result. The future fails with ``KafkaError``
        when the event is refused, or dropped without being handled."""
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._append(QueuedEvent(event, self._clock.monotonic_ms(), result))
        return result

    def clear_and_submit(self, event: ControllerEvent) -> asyncio.Future[Any]:
        """Drop all queued events, failing their futures with the ``moved`` error, and submit
        ``event``."""
        self._clear()
        return self.submit(event)

    def close(self) -> None:
        """Drop all queued and all later events: the consumer has ended."""
        self._closed = True
        self._clear()

    def _clear(self) -> None:
        dropped, self._events = self._events, deque()
        for queued in dropped:
            _refuse(queued)

    async def take(self) -> QueuedEvent:
        """Remove and return the oldest event; wait for one if the queue is empty."""
        assert not self._taking, "the controller's event queue has two consumers"
        self._taking = True
        try:
            while not self._events:
                self._arrival.clear()
                await self._arrival.wait()
        finally:
            self._taking = False
        queued = self._events.popleft()
        self._times_ms.record(self._clock.monotonic_ms() - queued.enqueued_ms)
        return queued

    def _append(self, queued: QueuedEvent) -> None:
        if self._closed:
            _refuse(queued)
            return
        assert len(self._events) < MAX_QUEUED_EVENTS, "the controller's event queue is full"
        self._events.append(queued)
        self._arrival.set()


def _refuse(queued: QueuedEvent) -> None:
    if queued.result is not None and not queued.result.done():
        queued.result.set_exception(
            KafkaError(queued.event.moved, "the controller moved to another broker")
        )
