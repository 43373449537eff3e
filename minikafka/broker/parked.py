"""The requests that wait on partitions, and what wakes them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from minikafka.broker.delayed_delete_records import DelayedDeleteRecords
from minikafka.broker.delayed_fetch import DelayedFetch
from minikafka.broker.delayed_produce import DelayedProduce
from minikafka.broker.timer_driver import Reaper, expiration_reaper_name
from minikafka.core.purgatory import DEFAULT_PURGE_INTERVAL, Purgatory
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import Clock

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
