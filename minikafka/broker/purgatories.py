"""The purgatories of one broker: requests that wait for partitions, metrics, and contents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

from minikafka.broker.fetch.delayed_fetch import DelayedFetch
from minikafka.broker.reaper import Reaper, expiration_reaper_name
from minikafka.broker.replication.delayed_delete_records import DelayedDeleteRecords
from minikafka.broker.replication.delayed_produce import DelayedProduce
from minikafka.core.purgatory import DEFAULT_PURGE_INTERVAL, DelayedOperation, Purgatory
from minikafka.core.timer import WheelLevel
from minikafka.kernel.cluster import TopicPartition
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


GATHER_MS = 2  # for how long followers may wait for more than there is


class ParkedRequests:
    """The produce, fetch and delete-records purgatories of one broker, keyed by partition."""

    def __init__(
        self,
        clock: Clock,
        broker_id: int,
        produce_purge_interval: int = DEFAULT_PURGE_INTERVAL,
        fetch_purge_interval: int = DEFAULT_PURGE_INTERVAL,
        delete_records_purge_interval: int = 1,
    ) -> None:
        self._clock = clock
        self._grown: dict[TopicPartition, None] = {}  # as a set that keeps its order
        self._growing = False  # since the last look
        self._wake_at_ms = 0
        self.produce: Reaper[DelayedProduce] = Reaper(
            clock,
            Purgatory("Produce", produce_purge_interval),
            expiration_reaper_name(broker_id, "Produce"),
        )
        self.fetch: Reaper[DelayedFetch] = Reaper(
            clock,
            Purgatory("Fetch", fetch_purge_interval),
            expiration_reaper_name(broker_id, "Fetch"),
        )
        self.delete_records: Reaper[DelayedDeleteRecords] = Reaper(
            clock,
            Purgatory("DeleteRecords", delete_records_purge_interval),
            expiration_reaper_name(broker_id, "DeleteRecords"),
        )

    def appended(self, topic_partition: TopicPartition) -> None:
        """The log end moved: followers may have waited for it. They are answered when connections
        bring nothing more, with all that was appended until then: one fetch of much costs far less
        than several. While more and more comes they wait no longer than ``GATHER_MS``."""
        if not self._grown:
            self._wake_at_ms = self._clock.monotonic_ms() + GATHER_MS
            asyncio.get_running_loop().call_soon(self._wake_followers)
        self._growing = True
        self._grown[topic_partition] = None

    def _wake_followers(self) -> None:
        if self._growing and self._clock.monotonic_ms() < self._wake_at_ms:
            self._growing = False  # unless the loop's next look at its connections brings more
            asyncio.get_running_loop().call_soon(self._wake_followers)
            return
        grown, self._grown = self._grown, {}
        self.fetch.check_all_and_complete(grown)

    def changed(self, topic_partition: TopicPartition) -> None:
        """A watermark moved, or the role, or the partition is gone."""
        self.fetch.check_and_complete(topic_partition)
        self.produce.check_and_complete(topic_partition)
        self.delete_records.check_and_complete(topic_partition)

    def all_changed(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """As ``changed``, for many at once: what waits on many of them is looked at once."""
        self.fetch.check_all_and_complete(topic_partitions)
        self.produce.check_all_and_complete(topic_partitions)
        self.delete_records.check_all_and_complete(topic_partitions)

    def low_watermark_changed(self, topic_partition: TopicPartition) -> None:
        """It may have moved, and nothing else."""
        self.delete_records.check_and_complete(topic_partition)

    @property
    def reapers(self) -> tuple[Reaper[Any], ...]:
        """All there are: to be shown, and to be closed."""
        return (self.produce, self.fetch, self.delete_records)

    def close(self) -> None:
        for reaper in self.reapers:
            reaper.close()
