"""The requests that wait on partitions, and what wakes them."""

from __future__ import annotations

from minikafka.broker.delayed_fetch import DelayedFetch
from minikafka.broker.delayed_produce import DelayedProduce
from minikafka.broker.timer_driver import Reaper, expiration_reaper_name
from minikafka.core.purgatory import DEFAULT_PURGE_INTERVAL, Purgatory
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import Clock


class ParkedRequests:
    """The produce and the fetch purgatory of one broker, keyed by partition."""

    def __init__(
        self,
        clock: Clock,
        broker_id: int,
        produce_purge_interval: int = DEFAULT_PURGE_INTERVAL,
        fetch_purge_interval: int = DEFAULT_PURGE_INTERVAL,
    ) -> None:
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

    def appended(self, topic_partition: TopicPartition) -> None:
        """The log end moved: followers may have waited for it."""
        self.fetch.check_and_complete(topic_partition)

    def changed(self, topic_partition: TopicPartition) -> None:
        """The high watermark moved, or the role, or the partition is gone."""
        self.fetch.check_and_complete(topic_partition)
        self.produce.check_and_complete(topic_partition)

    def close(self) -> None:
        self.produce.close()
        self.fetch.close()
