"""The purgatories of requests that wait for replicas: Produce, Fetch and DeleteRecords."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from minikafka.broker.reaper import Reaper, expiration_reaper_name
from minikafka.core.purgatory import DEFAULT_PURGE_INTERVAL, DelayedOperation, Purgatory
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import Clock

# The longest that followers' fetches are kept while more records arrive.
GATHER_MS = 2


class ReplicaPurgatories:
    """The three purgatories of Kafka's ``ReplicaManager``, keyed by partition. Whoever changes a
    partition calls the method that says what has changed; it completes the delayed operations that
    were waiting for it, synchronously except where stated."""

    def __init__(
        self,
        clock: Clock,
        broker_id: int,
        produce_purge_interval: int = DEFAULT_PURGE_INTERVAL,
        fetch_purge_interval: int = DEFAULT_PURGE_INTERVAL,
        delete_records_purge_interval: int = 1,
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

    def log_end_moved(self, topic_partition: TopicPartition) -> None:
        """Records were appended and are not committed yet: parked fetches of followers may have
        enough to read.

        They are looked at once the connections have brought no further records for a turn of the
        loop, or after ``GATHER_MS``: one large Fetch response costs far less than several small
        ones."""
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

    def partition_changed(self, topic_partition: TopicPartition) -> None:
        """A watermark or the role of the partition has changed, or the partition is gone."""
        self.fetch.check_and_complete(topic_partition)
        self.produce.check_and_complete(topic_partition)
        self.delete_records.check_and_complete(topic_partition)

    def partitions_changed(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """As ``partition_changed`` for several partitions; an operation that watches many of them
        is tried once."""
        self.fetch.check_all_and_complete(topic_partitions)
        self.produce.check_all_and_complete(topic_partitions)
        self.delete_records.check_all_and_complete(topic_partitions)

    def low_watermark_changed(self, topic_partition: TopicPartition) -> None:
        """Only the low watermark may have moved."""
        self.delete_records.check_and_complete(topic_partition)

    @property
    def reapers(self) -> tuple[Reaper[DelayedOperation], ...]:
        return (self.produce, self.fetch, self.delete_records)

    def close(self) -> None:
        for reaper in self.reapers:
            reaper.close()
