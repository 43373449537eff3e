"""The metadata cache: brokers, topics and leaders as of the controller's last UpdateMetadata."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from uuid import UUID

from minikafka.core.metadata_image import (
    MetadataImage,
    MetadataUpdate,
    PartitionMetadata,
    update_steps,
    with_newer_leaders,
)
from minikafka.kernel.cluster import ZERO_UUID, Broker, Endpoint, TopicPartition
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.slices import run_at_once
from minikafka.protocol.messages.metadata import MetadataResponse
from minikafka.protocol.messages.update_metadata import UpdateMetadataRequest
from minikafka.server.broker.metadata.suspects import Suspects


class MetadataCache:
    """Kafka's ``ZkMetadataCache``. ``image`` is an immutable snapshot: take it once to read several
    facts that belong together. It may lag behind ZooKeeper, and never runs ahead."""

    def __init__(self, broker_id: int, log: EventLog | None = None) -> None:
        self.image = MetadataImage()
        self.suspects = Suspects()
        self._broker_id = broker_id
        self._new_controller: list[Callable[[], None]] = []
        self._new_brokers: list[Callable[[], None]] = []
        self._log = log or event_log("metadata", broker=broker_id)

    def update(self, request: UpdateMetadataRequest) -> list[TopicPartition]:
        """Apply an UpdateMetadata request without a pause. Returns the partitions it deletes."""
        update = run_at_once(update_steps(self.image, request))
        self.replace(update, request)
        run_at_once(self.report_different_listeners())
        return update.deleted

    def replace(self, update: MetadataUpdate, request: UpdateMetadataRequest) -> None:
        """Replace the image by that of ``update``, which must have been computed from it.

        An epoch that decreases means that ZooKeeper has lost data. It is logged and applied, since
        ZooKeeper is authoritative."""
        assert update.before is self.image
        self.image = update.after
        if self.suspects:
            self.suspects.look_at(update.before, update.after)
        if update.after.controller_id != update.before.controller_id:
            for notify in self._new_controller:
                notify()
        if update.after.brokers != update.before.brokers:
            for notify in self._new_brokers:
                notify()
        if update.decreased:
            self._log.error(
                "metadata_epochs_decreased",
                partitions=[str(topic_partition) for topic_partition in update.decreased],
                controller=request.controller_id,
                controller_epoch=request.controller_epoch,
            )

    def learn(self, response: MetadataResponse, broker_id: int) -> None:
        """Take the partitions with newer leader epochs from a Metadata response of another broker.
        See ``PeerMetadata``."""
        before = self.image
        self.image, newer = with_newer_leaders(before, response)
        if newer:
            self.suspects.look_at(before, self.image)
            self._log.warning("newer_leaders_learned", source=broker_id, partitions=len(newer))

    def report_different_listeners(self) -> Generator[None, None, None]:
        """Log the live brokers whose listeners differ from this broker's. Clients of a listener
        cannot reach the brokers that lack it. Yields after each broker."""
        mine = self.image.brokers.get(self._broker_id)
        if mine is None:
            return
        listeners = {endpoint.listener for endpoint in mine.endpoints}
        for broker in self.live_brokers():
            theirs = {endpoint.listener for endpoint in broker.endpoints}
            if theirs != listeners:
                self._log.error(
                    "listener_mismatch_found",
                    mine=sorted(listeners),
                    theirs=sorted(theirs),
                    other_broker=broker.id,
                )
            yield

    def on_new_controller(self, notify: Callable[[], None]) -> None:
        """Call ``notify`` whenever another broker is the controller."""
        self._new_controller.append(notify)

    def on_new_brokers(self, notify: Callable[[], None]) -> None:
        """Call ``notify`` whenever the live brokers or their endpoints have changed."""
        self._new_brokers.append(notify)

    @property
    def controller_id(self) -> int | None:
        return self.image.controller_id

    def live_brokers(self) -> list[Broker]:
        """Return the live brokers, sorted by id."""
        return [self.image.brokers[broker] for broker in sorted(self.image.brokers)]

    def broker(self, broker_id: int) -> Broker | None:
        """Return a live broker; None if it is not alive."""
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
        """Return the partitions of a topic by number; empty if the topic is unknown."""
        return self.image.topics.get(topic, {})

    def partition(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        return self.image.partition(topic_partition)

    def partition_leader(self, topic_partition: TopicPartition) -> tuple[int, int] | None:
        """Return (leader, leader epoch); None if the partition is unknown. The leader is
        ``NO_LEADER`` while the partition has none."""
        state = self.image.partition(topic_partition)
        return None if state is None else (state.leader, state.leader_epoch)

    def topic_id(self, topic: str) -> UUID:
        """Return the topic id; ``ZERO_UUID`` if the topic is unknown or has no id."""
        return self.image.topic_ids.get(topic, ZERO_UUID)

    def topic_name(self, topic_id: UUID) -> str | None:
        return self.image.topic_names.get(topic_id)


class LiveBrokers:
    """The ids of the live brokers, as a container."""

    __slots__ = ("_cache",)

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache

    def __contains__(self, broker_id: object) -> bool:
        return isinstance(broker_id, int) and self._cache.broker(broker_id) is not None
