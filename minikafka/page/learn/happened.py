"""What has happened in a playback, as messages for the page: events, and messages of the wire."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, Final

from minikafka.page.dashboard.messages import Message
from minikafka.page.learn.messages import WireMessage
from minikafka.page.learn.playback import Playback
from minikafka.server.node.event_feed import shown_fact
from minikafka.testing.simulator.cluster import LogEvent
from minikafka.world.sim.clock import EPOCH_MS

MAX_EVENTS: Final = 500  # in a whole picture
MAX_NEW_EVENTS: Final = 2_000  # then a whole picture is shorter
MAX_WIRE: Final = 1_000  # in a whole picture
MAX_NEW_WIRE: Final = 5_000


class Happened:
    """Collects what happens in a playback from its start on. ``is_much``: what is new is so much
    that a whole picture should be sent instead."""

    def __init__(self, playback: Playback) -> None:
        self._playback = playback
        self._counts: Counter[int | None] = Counter()  # events by source
        self._events: deque[Message] = deque(maxlen=MAX_EVENTS)
        self._new_events: deque[Message] = deque(maxlen=MAX_NEW_EVENTS)
        self._new_wire: dict[int, WireMessage] = {}
        self.is_much = False
        self.by_name: Counter[str] = Counter()  # how many events there were
        self.arrived: Counter[str] = Counter()  # how many messages of the wire, by API
        playback.cluster.observers.append(self._on_event)
        playback.wire_observers.append(self._on_wire)

    def whole(self, at_ms: int) -> list[Message]:
        """Return the last events and messages of the wire."""
        self._forget_new()
        kept = list(self._playback.messages)[-MAX_WIRE:]
        return [*self._events, *(wire_message(message, at_ms) for message in kept)]

    def changes(self, at_ms: int) -> list[Message]:
        """Return what has happened since the last call."""
        wire = [wire_message(message, at_ms) for message in self._new_wire.values()]
        found = [*self._new_events, *wire]
        self._forget_new()
        return found

    def add(self, t_us: int, name: str, level: str, facts: Mapping[str, Any]) -> None:
        """Add an event that is not from a log."""
        self._add(None, t_us, name, level, facts)

    def _forget_new(self) -> None:
        self._new_events.clear()
        self._new_wire.clear()
        self.is_much = False

    def _on_event(self, event: LogEvent) -> None:
        broker = event.facts.get("broker") if event.level else None
        t_us, level = round(event.seconds * 1_000_000), event.level or "info"
        self._add(broker, t_us, event.name, level, event.facts)

    def _add(
        self, broker: int | None, t_us: int, name: str, level: str, facts: Mapping[str, Any]
    ) -> None:
        self._counts[broker] += 1
        self.by_name[name] += 1
        message = {
            "type": "event",
            "at": EPOCH_MS + t_us // 1_000,
            "t_us": t_us,
            "broker": broker,
            "number": self._counts[broker],
            "level": level,
            "name": name,
            "facts": {key: shown_fact(value) for key, value in facts.items()},
        }
        self._events.append(message)
        self.is_much = self.is_much or len(self._new_events) == MAX_NEW_EVENTS
        self._new_events.append(message)

    def _on_wire(self, message: WireMessage, change: str) -> None:
        self._new_wire[message.number] = message
        self.arrived[message.api] += change == "arrived"
        if len(self._new_wire) > MAX_NEW_WIRE:
            self.is_much = True
            self._new_wire.clear()


def wire_message(message: WireMessage, at_ms: int) -> Message:
    return {
        "type": "wire",
        "at": at_ms,
        "number": message.number,
        "source": message.source,
        "target": message.target,
        "api": message.api,
        "correlation_id": message.correlation_id,
        "request": message.is_request,
        "sent_us": message.sent_us,
        "arrived_us": message.arrived_us,
        "lost": message.lost,
        "held": message.held,
        "size": message.size_bytes,
    }
