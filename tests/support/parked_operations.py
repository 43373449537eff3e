"""Purgatories with real timing wheels over a clock by hand, and the facts that a page gets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.kernel.metrics import Metrics
from minikafka.server.broker.purgatories import Reaper, expiration_reaper_name
from minikafka.server.node.purgatories import BrokerPurgatories
from tests.support.world.manual_clock import ManualClock

BROKER = 1


class DelayedFetch(DelayedOperation):
    """Waits until its time is up."""

    def __init__(self, delay_ms: int, keys: Sequence[str]) -> None:
        super().__init__(delay_ms)
        self.keys = keys
        self.expired = False

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        """There is no response."""

    def on_expiration(self) -> None:
        self.expired = True

    def watched_keys(self) -> Sequence[str]:
        return self.keys


class ParkedOperations:
    """The purgatories of a broker by name, and a clock that a test advances."""

    def __init__(self, *names: str, now_ms: int = 0) -> None:
        self.clock = ManualClock(now_ms)
        self.reapers: dict[str, Reaper[DelayedOperation]] = {}
        for name in names:
            purgatory: Purgatory[DelayedOperation] = Purgatory(name)
            reaper_name = expiration_reaper_name(BROKER, name)
            self.reapers[name] = Reaper(self.clock, purgatory, reaper_name)
        self._all = BrokerPurgatories(self.clock, Metrics(), list(self.reapers.values()))

    def park(self, name: str, delay_ms: int, *keys: str) -> DelayedFetch:
        operation = DelayedFetch(delay_ms, keys)
        self.reapers[name].try_complete_else_watch(operation, keys)
        return operation

    def facts(self, name: str) -> dict[str, Any]:
        """Return the facts of one purgatory, as they arrive at a page."""
        (found,) = (facts for facts in self._all.facts(100) if facts["name"] == name)
        read: dict[str, Any] = json.loads(json.dumps(found))
        return read

    def state_message(self, *, reset: bool = False) -> dict[str, Any]:
        """Return a message to the page with the facts of all purgatories."""
        changed = [
            {"kind": "purgatory", "name": name, "facts": self.facts(name)} for name in self.reapers
        ]
        return {
            "type": "state", "at": self.clock.wall_ms(), "broker": BROKER, "reset": reset,
            "changed": changed, "removed": [],
        }  # fmt: skip
