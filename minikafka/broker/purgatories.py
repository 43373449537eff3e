"""The purgatories of one broker, all of them: their metrics, and what they show of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeAlias

from minikafka.broker.timer_driver import Reaper
from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.core.timer import WheelLevel
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock

Facts: TypeAlias = dict[str, Any]  # what ``json.dumps`` takes

KEYS_SHOWN = 20  # of one operation: a fetch may wait on a thousand partitions
COUNTED_PER_BUCKET = 100  # a bucket may hold any number of tasks, and knows it only by counting


class Purgatories:
    """Whoever makes a reaper adds it here. ``facts`` takes no longer for 100,000 parked operations
    than for a few: it looks at ``limit`` of them, counts buckets up to a bound, and only the size
    of the watch lists takes a walk, over their keys."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._reapers: list[Reaper[Any]] = []

    def add(self, *reapers: Reaper[Any]) -> None:
        """Register Kafka's two gauges of each ``DelayedOperationPurgatory``."""
        for reaper in reapers:
            self._reapers.append(reaper)
            for name, read in _gauges(reaper.purgatory):
                tag = f"delayedOperation={reaper.purgatory.name}"
                self._metrics.gauge(f"kafka.server:{name},{tag}", read)

    def __iter__(self) -> Iterator[Reaper[Any]]:
        return iter(self._reapers)

    def facts(self, limit: int) -> list[Facts]:
        """Each purgatory with its reaper and its wheels, and up to ``limit`` of the operations that
        wait in it: about those that expire first."""
        now_ms = self._clock.monotonic_ms()
        return [_purgatory_facts(reaper, now_ms, limit) for reaper in self._reapers]


def _gauges(purgatory: Purgatory[Any]) -> Any:
    return (
        ("PurgatorySize", lambda: purgatory.watched),
        ("NumDelayedOperations", lambda: purgatory.delayed),
    )


def _purgatory_facts(reaper: Reaper[Any], now_ms: int, limit: int) -> Facts:
    purgatory = reaper.purgatory
    next_wake_up_ms = reaper.next_wake_up_ms
    waiting = sorted(purgatory.waiting(limit), key=lambda pair: pair[0])
    return {
        "name": purgatory.name,
        "reaper": reaper.name,
        "wake_ups": reaper.wake_ups,
        "next_wake_up_in_ms": None if next_wake_up_ms is None else next_wake_up_ms - now_ms,
        "purgatory_size": purgatory.watched,
        "num_delayed_operations": purgatory.delayed,
        "watched_keys": purgatory.watched_keys,
        "operations": [_operation_facts(op, expires_ms, now_ms) for expires_ms, op in waiting],
        "wheels": [_wheel_facts(level) for level in purgatory.levels(COUNTED_PER_BUCKET + 1)],
    }


def _operation_facts(operation: DelayedOperation, expiration_ms: int, now_ms: int) -> Facts:
    """Nobody notes when an operation was parked: it follows from when it expires."""
    keys = [str(key) for key in islice(operation.watched_keys(), KEYS_SHOWN + 1)]
    return {
        "kind": type(operation).__name__,
        "keys": keys[:KEYS_SHOWN],
        "more_keys": len(keys) > KEYS_SHOWN,
        "delay_ms": operation.delay_ms,
        "age_ms": now_ms - (expiration_ms - operation.delay_ms),
        "remaining_ms": max(0, expiration_ms - now_ms),
    }


def _wheel_facts(level: WheelLevel) -> Facts:
    return {
        "level": level.level,
        "tick_ms": level.tick_ms,
        "wheel_size": level.wheel_size,
        "interval_ms": level.interval_ms,
        "current_time_ms": level.current_time_ms,
        "buckets": [
            {
                "slot": slot,
                "tasks": min(tasks, COUNTED_PER_BUCKET),
                "more": tasks > COUNTED_PER_BUCKET,
            }
            for slot, tasks in enumerate(level.tasks_by_slot)
            if tasks
        ],
    }
