"""This broker's copy of the cluster's metadata, as of the controller's last UpdateMetadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from minikafka.core.metadata_image import MetadataImage, PartitionMetadata, apply, regressions
from minikafka.kernel.cluster import ZERO_UUID, Broker, Endpoint, TopicPartition
from minikafka.kernel.events import EventLog, event_log
from minikafka.protocol.messages.update_metadata import UpdateMetadataRequest


class MetadataCache:
    """Kafka's ``ZkMetadataCache``. ``image`` is an immutable snapshot: take it once to read several
    facts that belong together. It may lag behind ZooKeeper, and never runs ahead."""

    def __init__(self, broker_id: int, log: EventLog | None = None) -> None:
        self.image = MetadataImage()
        self._broker_id = broker_id
        self._log = log or event_log("metadata", broker=broker_id)

    def update(self, request: UpdateMetadataRequest) -> list[TopicPartition]:
        """Apply a request of the controller. Returns the partitions that were deleted.

        Epochs that go back mean that ZooKeeper has lost data. They are applied, since ZooKeeper
        decides, and reported."""
        before = self.image
        self.image, deleted = apply(before, request)
        gone_back = regressions(before, self.image, request)
        if gone_back:
            self._log.error(
                "metadata_epochs_went_back",
                partitions=[str(topic_partition) for topic_partition in gone_back],
                controller=request.controller_id,
                controller_epoch=request.controller_epoch,
            )
        self._report_different_listeners()
        return deleted

    @property
    def controller_id(self) -> int | None:
        return self.image.controller_id

    def live_brokers(self) -> list[Broker]:
        """By id."""
        return [self.image.brokers[broker] for broker in sorted(self.image.brokers)]

    def broker(self, broker_id: int) -> Broker | None:
        """None when it is not alive."""
        return self.image.brokers.get(broker_id)

    def endpoint(self, broker_id: int, listener: str) -> Endpoint | None:
        return self.image.endpoint(broker_id, listener)

    def topics(self) -> Sequence[str]:
        return sorted(self.image.topics)

    def contains_topic(self, topic: str) -> bool:
        return topic in self.image.topics

    def contains(self, topic_partition: TopicPartition) -> bool:
        return self.image.partition(topic_partition) is not None

    def partitions(self, topic: str) -> Mapping[int, PartitionMetadata]:
        """Empty when the topic is unknown."""
        return self.image.topics.get(topic, {})

    def partition(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        return self.image.partition(topic_partition)

    def partition_leader(self, topic_partition: TopicPartition) -> tuple[int, int] | None:
        """(leader, leader epoch); the leader is ``NO_LEADER`` when there is none now. None when the
        partition is unknown."""
        state = self.image.partition(topic_partition)
        return None if state is None else (state.leader, state.leader_epoch)

    def topic_id(self, topic: str) -> UUID:
        """``ZERO_UUID`` when there is none."""
        return self.image.topic_ids.get(topic, ZERO_UUID)

    def topic_name(self, topic_id: UUID) -> str | None:
        return self.image.topic_names.get(topic_id)

    def _report_different_listeners(self) -> None:
        """Clients of one listener would not find the brokers that lack it."""
        mine = self.image.brokers.get(self._broker_id)
        if mine is None:
            return
        listeners = {endpoint.listener for endpoint in mine.endpoints}
        for broker in self.live_brokers():
            theirs = {endpoint.listener for endpoint in broker.endpoints}
            if theirs != listeners:
                self._log.error(
                    "listeners_differ",
                    mine=sorted(listeners),
                    theirs=sorted(theirs),
                    other_broker=broker.id,
                )


class LiveBrokers:
    """The ids of the live brokers, as a container."""

    __slots__ = ("_cache",)

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache

    def __contains__(self, broker_id: object) -> bool:
        return isinstance(broker_id, int) and self._cache.broker(broker_id) is not None
