"""What the controller did lately: time per kind of event, and the last changes of state."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from minikafka.core.controller.writes import StateChange
from minikafka.kernel.cluster import PartitionAndReplica
from minikafka.kernel.ports import Clock

MAX_TRANSITIONS = 1000


@dataclass(slots=True)
class Spent:
    """On events of one kind."""

    count: int = 0
    total_ms: int = 0
    longest_ms: int = 0
    waited_ms: int = 0


class Journal:
    """For people who look in (``minikafka controller status``); nothing depends on it. It goes on
    when the office is lost, so that a broker still tells what it did as the controller."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent: dict[str, Spent] = {}  # as many as there are kinds of events
        self._transitions: deque[tuple[int, int, StateChange[Any, Any]]] = deque(
            maxlen=MAX_TRANSITIONS
        )

    def event(self, kind: str, waited_ms: int, took_ms: int) -> None:
        spent = self._spent.setdefault(kind, Spent())
        spent.count += 1
        spent.total_ms += took_ms
        spent.longest_ms = max(spent.longest_ms, took_ms)
        spent.waited_ms += waited_ms

    def transition(self, controller_epoch: int, change: StateChange[Any, Any]) -> None:
        """Of a partition, or of one replica of it."""
        self._transitions.append((self._clock.wall_ms(), controller_epoch, change))

    def facts(self, limit: int) -> Mapping[str, Any]:
        """As plain values; the newest ``limit`` transitions, newest first."""
        return {
            "events": [
                {
                    "event": kind,
                    "count": spent.count,
                    "total_ms": spent.total_ms,
                    "mean_ms": round(spent.total_ms / spent.count, 1),
                    "longest_ms": spent.longest_ms,
                    "mean_queue_ms": round(spent.waited_ms / spent.count, 1),
                }
                for kind, spent in sorted(self._spent.items())
            ],
            "transitions": [_facts(*row) for row in islice(reversed(self._transitions), limit)],
        }


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
