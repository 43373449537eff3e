"""The controller's recent history: time spent per kind of event, and the last state changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Any

from minikafka.core.controller.states import ControllerState, StateChange
from minikafka.kernel.cluster import PartitionAndReplica
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock

MAX_TRANSITIONS = 1000
NOT_SHOWN = -1


@dataclass(slots=True)
class EventTimes:
    """Times of all events of one kind."""

    count: int = 0
    total_ms: int = 0
    longest_ms: int = 0
    waited_ms: int = 0  # in the queue, in total


class EventHistory:
    """What ``minikafka controller status`` shows; no decision depends on it. It outlives a
    resignation, so that a former controller can still be examined."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: dict[str, EventTimes] = {}  # one entry for each kind of event
        self._transitions: deque[tuple[int, int, StateChange[Any, Any]]] = deque(
            maxlen=MAX_TRANSITIONS
        )
        self._handling: Mapping[str, Any] | None = None
        self._shown: list[Mapping[str, Any]] = []  # transitions as facts, newest first
        self._shown_limit = NOT_SHOWN

    def begin(self, kind: str, state: ControllerState) -> None:
        """Record that the handling of an event begins."""
        since_ms = self._clock.wall_ms()
        self._handling = {"event": kind, "state": state.name, "since_ms": since_ms}

    def event(self, kind: str, waited_ms: int, took_ms: int) -> None:
        """Record an event that was handled in ``took_ms`` after ``waited_ms`` in the queue."""
        self._handling = None
        times = self._times.setdefault(kind, EventTimes())
        times.count += 1
        times.total_ms += took_ms
        times.longest_ms = max(times.longest_ms, took_ms)
        times.waited_ms += waited_ms

    def transition(self, controller_epoch: int, change: StateChange[Any, Any]) -> None:
        """Record a state change of a partition or of a replica."""
        self._shown_limit = NOT_SHOWN
        self._transitions.append((self._clock.wall_ms(), controller_epoch, change))

    def facts(self, limit: int) -> Mapping[str, Any]:
        """Return the event under way, times, and the last ``limit`` transitions, newest first, as
        JSON values."""
        return {
            "handling": self._handling,
            "events": [
                {
                    "event": kind,
                    "count": times.count,
                    "total_ms": times.total_ms,
                    "mean_ms": round(times.total_ms / times.count, 1),
                    "longest_ms": times.longest_ms,
                    "mean_queue_ms": round(times.waited_ms / times.count, 1),
                }
                for kind, times in sorted(self._times.items())
            ],
            "transitions": self._last_transitions(limit),
        }

    def _last_transitions(self, limit: int) -> list[Mapping[str, Any]]:
        """Return facts that are made once: a page looks four times a second."""
        if limit != self._shown_limit:
            self._shown = [_facts(*row) for row in islice(reversed(self._transitions), limit)]
            self._shown_limit = limit
        return self._shown


def _facts(wall_ms: int, controller_epoch: int, change: StateChange[Any, Any]) -> Mapping[str, Any]:
    partition, replica = change.subject, None
    if isinstance(change.subject, PartitionAndReplica):
        partition, replica = change.subject
    known = change.leadership.leader_and_isr if change.leadership else None
    return {
        "time_ms": wall_ms,
        "controller_epoch": controller_epoch,
        "partition": str(partition),
        "replica": replica,
        "before": str(change.before),
        "after": str(change.after),
        "leader": known.leader if known else None,
        "leader_epoch": known.leader_epoch if known else None,
        "isr": list(known.isr) if known else None,
    }
