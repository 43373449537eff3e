"""The reaper that drives a purgatory on the event loop, and the purgatories of Produce, Fetch and
DeleteRecords."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from minikafka.core.purgatory import DEFAULT_PURGE_INTERVAL, DelayedOperation, Purgatory
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import Clock, TimerHandle

OpT = TypeVar("OpT", bound=DelayedOperation)

# The poll interval of Kafka's reaper, and so the longest delay of a purge there.
PURGE_PERIOD_MS = 200


def expiration_reaper_name(broker_id: int, purgatory_name: str) -> str:
    """Kafka's thread name, e.g. ``ExpirationReaper-1-Produce``."""
    return f"ExpirationReaper-{broker_id}-{purgatory_name}"


class Reaper(Generic[OpT]):
    """Expires and purges the operations of one purgatory (Kafka's ``ExpiredOperationReaper``).

    Instead of a polling thread it sets at most one timer on the loop: for the time at which the
    next bucket of the timing wheel expires, or within ``PURGE_PERIOD_MS`` if a purge is due.
    """

    def __init__(self, clock: Clock, purgatory: Purgatory[OpT], name: str) -> None:
        self.name = name
        self.purgatory = purgatory
        self.wake_ups = 0
        self._clock = clock
        self._armed_ms = 0
        self._handle: TimerHandle | None = None
        self._closed = False

    def try_complete_else_watch(self, operation: OpT, keys: Sequence[Hashable]) -> bool:
        """Complete the operation now if its condition holds. Otherwise watch ``keys``, and set its
        time-out. True if it has completed."""
        return operation.try_complete() or self.watch_and_try(operation, keys)

    def watch_and_try(self, operation: OpT, keys: Sequence[Hashable]) -> bool:
        """Watch ``keys``, try once more, and set the time-out. For a caller that has just seen that
        the condition does not hold. True if the operation has completed."""
        now_ms = self._clock.monotonic_ms()
        if self.purgatory.watch_and_try(operation, keys, now_ms):
            return True
        if self._handle is None or self._armed_ms > now_ms + operation.delay_ms:
            self._arm(now_ms)
        return False

    @property
    def next_wake_up_ms(self) -> int | None:
        """The time of the next wake-up in ms of the monotonic clock; None without one."""
        return None if self._handle is None else self._armed_ms

    def check_and_complete(self, key: Hashable) -> int:
        """Try the operations that watch ``key``. Returns how many have completed."""
        return self._completed(self.purgatory.check_and_complete(key))

    def check_all_and_complete(self, keys: Iterable[Hashable]) -> int:
        """Try the operations that watch any of ``keys``, each once. Returns how many completed."""
        return self._completed(self.purgatory.check_all_and_complete(keys))

    def _completed(self, count: int) -> int:
        if count and self.purgatory.purge_due:
            self._arm(self._clock.monotonic_ms())
        return count

    def close(self) -> None:
        """Stop expiring operations. Parked operations stay parked."""
        self._closed = True
        self._disarm()

    def _arm(self, now_ms: int) -> None:
        purgatory = self.purgatory
        due_ms = purgatory.next_expiration_ms()
        if purgatory.purge_due:
            purge_ms = now_ms + PURGE_PERIOD_MS
            due_ms = purge_ms if due_ms is None else min(due_ms, purge_ms)
        if due_ms is None or self._closed:
            return
        if self._handle is not None:
            if self._armed_ms <= due_ms:
                return
            self._disarm()
        self._armed_ms = due_ms
        self._handle = self._clock.call_later(max(0, due_ms - now_ms), self._wake)

    def _disarm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _wake(self) -> None:
        self._handle = None
        self.wake_ups += 1
        self.purgatory.advance(self._clock.monotonic_ms())
        self._arm(self._clock.monotonic_ms())


# How long followers' fetches stay parked, at most, while more records arrive.
GATHER_MS = 2


class ReplicaPurgatories:
    """The four purgatories of Kafka's ``ReplicaManager``, keyed by partition.

    Code that changes a partition calls the method named after the change. The method completes the
    delayed operations whose condition holds now, synchronously except where stated."""

    def __init__(
        self,
        clock: Clock,
        broker_id: int,
        produce_purge_interval: int = DEFAULT_PURGE_INTERVAL,
        fetch_purge_interval: int = DEFAULT_PURGE_INTERVAL,
        delete_records_purge_interval: int = 1,
        share_fetch_purge_interval: int = DEFAULT_PURGE_INTERVAL,
    ) -> None:
        def make(name: str, purge_interval: int) -> Reaper[DelayedOperation]:
            purgatory: Purgatory[DelayedOperation] = Purgatory(name, purge_interval)
            return Reaper(clock, purgatory, expiration_reaper_name(broker_id, name))

        self._clock = clock
        self._grown: dict[TopicPartition, None] = {}  # used as an ordered set
        self._grew_this_turn = False
        self._complete_at_ms = 0
        self.produce = make("Produce", produce_purge_interval)
        self.fetch = make("Fetch", fetch_purge_interval)
        self.delete_records = make("DeleteRecords", delete_records_purge_interval)
        # ShareFetch also watches share-partitions, by their own keys.
        self.share_fetch = make("ShareFetch", share_fetch_purge_interval)
        self._in_order = (self.fetch, self.produce, self.delete_records, self.share_fetch)

    def log_end_moved(self, topic_partition: TopicPartition) -> None:
        """Try the parked fetches of followers, after records were appended that are not committed
        yet.

        The fetches are tried once no further records were appended for one turn of the loop, or
        after ``GATHER_MS``: one large Fetch response costs far less than several small ones."""
        if not self._grown:
            self._complete_at_ms = self._clock.monotonic_ms() + GATHER_MS
            asyncio.get_running_loop().call_soon(self._complete_fetches)
        self._grew_this_turn = True
        self._grown[topic_partition] = None

    def _complete_fetches(self) -> None:
        if self._grew_this_turn and self._clock.monotonic_ms() < self._complete_at_ms:
            self._grew_this_turn = False
            asyncio.get_running_loop().call_soon(self._complete_fetches)
            return
        grown, self._grown = self._grown, {}
        self.fetch.check_all_and_complete(grown)

    def is_watched(self, topic_partition: TopicPartition) -> bool:
        """Whether ``partition_changed`` would try any operation."""
        return any(reaper.purgatory.is_watched(topic_partition) for reaper in self.reapers)

    def partition_changed(self, topic_partition: TopicPartition) -> None:
        """Try all operations that watch the partition, after a change of a watermark or of its
        role, or after its removal."""
        for reaper in self._in_order:
            if reaper.purgatory.is_watched(topic_partition):  # mostly by none
                reaper.check_and_complete(topic_partition)

    def partitions_changed(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Try the operations that watch any of these partitions, each once, after a change of
        their states."""
        if len(topic_partitions) == 1:
            self.partition_changed(topic_partitions[0])
            return
        for reaper in self._in_order:
            reaper.check_all_and_complete(topic_partitions)

    def low_watermarks_changed(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Try the parked deletions of the partitions, each once, after a change of their low
        watermarks alone."""
        self.delete_records.check_all_and_complete(topic_partitions)

    @property
    def reapers(self) -> tuple[Reaper[DelayedOperation], ...]:
        return (self.produce, self.fetch, self.delete_records, self.share_fetch)

    def close(self) -> None:
        for reaper in self.reapers:
            reaper.close()
