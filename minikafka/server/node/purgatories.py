"""Metrics and debug output of all purgatories of one broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.core.timer import WheelLevel
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock
from minikafka.server.broker.purgatories import Reaper

Facts: TypeAlias = dict[str, Any]  # a JSON object
Gauge: TypeAlias = Callable[[], int]

MAX_LISTED_KEYS = 20  # of one operation: a fetch may wait on a thousand partitions
MAX_COUNTED_PER_BUCKET = 100  # the tasks of a bucket have to be counted one by one


class BrokerPurgatories:
    """The gauges and the debug output of each purgatory (Kafka's ``DelayedOperationPurgatory``).

    The cost of ``facts`` does not grow with the number of parked operations: it reads up to
    ``limit`` of them and counts the tasks of a bucket up to a bound."""

    def __init__(
        self, clock: Clock, metrics: Metrics, reapers: Sequence[Reaper[DelayedOperation]]
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._reapers: list[Reaper[DelayedOperation]] = []
        for reaper in reapers:
            self.add(reaper)

    def add(self, reaper: Reaper[DelayedOperation]) -> None:
        for name, read in _gauges(reaper.purgatory):
            tag = f"delayedOperation={reaper.purgatory.name}"
            mbean = f"kafka.server:type=DelayedOperationPurgatory,name={name},{tag}"
            self._metrics.gauge(mbean, read)
        self._reapers.append(reaper)

    def __iter__(self) -> Iterator[Reaper[DelayedOperation]]:
        return iter(self._reapers)

    def facts(self, limit: int) -> list[Facts]:
        """Return each purgatory with its reaper, its timing wheels and up to ``limit`` of its
        operations, approximately those that expire first. ``now_ms`` is the time of the wheels'
        clock; None for an empty purgatory, whose facts would otherwise always differ."""
        return list(self.facts_of_each(limit))

    def facts_of_each(self, limit: int) -> Iterator[Facts]:
        """Yield the same one by one. Other tasks may run between two of them."""
        for reaper in list(self._reapers):
            yield _purgatory_facts(reaper, self._clock.monotonic_ms(), limit)


def _gauges(purgatory: Purgatory[DelayedOperation]) -> tuple[tuple[str, Gauge], ...]:
    return (
        ("PurgatorySize", lambda: purgatory.watched),
        ("NumDelayedOperations", lambda: purgatory.delayed),
    )


def _purgatory_facts(reaper: Reaper[DelayedOperation], now_ms: int, limit: int) -> Facts:
    purgatory = reaper.purgatory
    next_wake_up_ms = reaper.next_wake_up_ms
    waiting = sorted(purgatory.waiting(limit), key=lambda pair: pair[0])
    return {
        "name": purgatory.name,
        "reaper": reaper.name,
        "now_ms": now_ms if waiting else None,
        "wake_ups": reaper.wake_ups,
        "next_wake_up_in_ms": None if next_wake_up_ms is None else next_wake_up_ms - now_ms,
        "purgatory_size": purgatory.watched,
        "num_delayed_operations": purgatory.delayed,
        "watched_keys": purgatory.watched_keys,
        "completed": purgatory.completed,
        "expired": purgatory.expired,
        "operations": [_operation_facts(op, expires_ms, now_ms) for expires_ms, op in waiting],
        "wheels": [_wheel_facts(level) for level in purgatory.levels(MAX_COUNTED_PER_BUCKET + 1)],
    }


def _operation_facts(operation: DelayedOperation, expiration_ms: int, now_ms: int) -> Facts:
    """Return one parked operation. Its age is computed from its expiration and its delay."""
    keys = [str(key) for key in islice(operation.watched_keys(), MAX_LISTED_KEYS + 1)]
    return {
        "kind": type(operation).__name__,
        "keys": keys[:MAX_LISTED_KEYS],
        "more_keys": len(keys) > MAX_LISTED_KEYS,
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
        "current_slot": level.current_time_ms // level.tick_ms % level.wheel_size,
        "buckets": [
            {
                "slot": slot,
                "tasks": min(tasks, MAX_COUNTED_PER_BUCKET),
                "more": tasks > MAX_COUNTED_PER_BUCKET,
            }
            for slot, tasks in enumerate(level.tasks_by_slot)
            if tasks
        ],
    }
