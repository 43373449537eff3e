"""The cluster's metadata from UpdateMetadata requests, as an immutable snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from uuid import UUID

from minikafka.kernel.cluster import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    ZERO_UUID,
    Broker,
    Endpoint,
    TopicPartition,
)
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)

# Kafka's SecurityProtocol ids.
SECURITY_PROTOCOLS: Mapping[int, str] = MappingProxyType(
    {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
)


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """A partition's state in the controller's last UpdateMetadata request."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    controller_epoch: int
    zk_version: int

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER


Partitions = Mapping[int, PartitionMetadata]


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """An immutable snapshot; ``apply`` returns the next one and shares unchanged parts.

    ``brokers`` are the live brokers, ``topics`` the partitions by topic and index. A topic without
    an id (from a controller older than 2.8) is in ``topics`` but not in ``topic_ids``.
    """

    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, Partitions] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    controller_id: int | None = None

    def partition(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        partitions = self.topics.get(topic_partition.topic)
        return None if partitions is None else partitions.get(topic_partition.partition)

    def endpoint(self, broker: int, listener: str) -> Endpoint | None:
        """Return a broker's endpoint; None if the broker is not alive or has no such listener."""
        alive = self.brokers.get(broker)
        return None if alive is None else alive.endpoint(listener)


def apply(
    image: MetadataImage, request: UpdateMetadataRequest
) -> tuple[MetadataImage, list[TopicPartition]]:
    """Return the next image, and the deleted partitions (those with the leader
    ``LEADER_DURING_DELETE``) in the order of the request.

    The request replaces all live brokers and the controller; its partitions are added to those of
    the image. A topic is removed with its last partition.
    """
    topics = dict(image.topics)
    topic_ids = _topic_ids(image, request)
    touched: dict[str, dict[int, PartitionMetadata]] = {}
    deleted: dict[TopicPartition, None] = {}
    for topic, state in _partition_states(request):
        partitions = touched.get(topic)
        if partitions is None:
            partitions = touched[topic] = dict(topics.get(topic, {}))
        if state.leader == LEADER_DURING_DELETE:
            partitions.pop(state.partition_index, None)
            deleted[TopicPartition(topic, state.partition_index)] = None
        else:
            partitions[state.partition_index] = _partition_state(state)
            deleted.pop(TopicPartition(topic, state.partition_index), None)
    for topic, partitions in touched.items():
        if partitions:
            topics[topic] = partitions
        else:
            topics.pop(topic, None)
    for told in request.topic_states:
        if told.topic_name not in topics:  # gone, or named without any partition
            topic_ids.pop(told.topic_name, None)
    same_ids = topic_ids == image.topic_ids
    next_image = MetadataImage(
        brokers={broker.id: _broker(broker) for broker in request.live_brokers},
        topics=topics if touched else image.topics,
        topic_ids=image.topic_ids if same_ids else topic_ids,
        topic_names=image.topic_names if same_ids else {i: name for name, i in topic_ids.items()},
        controller_id=request.controller_id if request.controller_id >= 0 else None,
    )
    return next_image, list(deleted)


def regressions(
    before: MetadataImage, after: MetadataImage, request: UpdateMetadataRequest
) -> list[TopicPartition]:
    """The partitions of ``request`` whose leader epoch, or partition epoch in the same leader
    epoch, is lower in ``after`` than in ``before``. A topic that was deleted and created again,
    which shows by another topic id, begins again."""
    found = []
    for topic, state in _partition_states(request):
        topic_partition = TopicPartition(topic, state.partition_index)
        old, new = before.partition(topic_partition), after.partition(topic_partition)
        if (
            old is not None
            and new is not None
            and (new.leader_epoch, new.zk_version) < (old.leader_epoch, old.zk_version)
            and before.topic_ids.get(topic) == after.topic_ids.get(topic)
        ):
            found.append(topic_partition)
    return found


def topics_of(request: UpdateMetadataRequest) -> list[str]:
    """Return the topics that a request contains, each once, in its order."""
    return list(dict.fromkeys(topic for topic, _ in _partition_states(request)))


def _topic_ids(image: MetadataImage, request: UpdateMetadataRequest) -> dict[str, UUID]:
    topic_ids = dict(image.topic_ids)
    for topic in request.topic_states:
        if topic.topic_id != ZERO_UUID:
            topic_ids[topic.topic_name] = topic.topic_id
        else:
            topic_ids.pop(topic.topic_name, None)
    for state in request.ungrouped_partition_states:
        topic_ids.pop(state.topic_name, None)
    return topic_ids


def _partition_states(
    request: UpdateMetadataRequest,
) -> Iterable[tuple[str, UpdateMetadataPartitionState]]:
    for state in request.ungrouped_partition_states:  # versions 0-4
        yield state.topic_name, state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, state


def _partition_state(state: UpdateMetadataPartitionState) -> PartitionMetadata:
    return PartitionMetadata(
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=tuple(state.isr),
        replicas=tuple(state.replicas),
        offline_replicas=tuple(state.offline_replicas),
        controller_epoch=state.controller_epoch,
        zk_version=state.zk_version,
    )


def _broker(broker: UpdateMetadataBroker) -> Broker:
    if not broker.endpoints and broker.v0_host:  # version 0 knew one plaintext endpoint
        return Broker(broker.id, (Endpoint(broker.v0_host, broker.v0_port),), broker.rack or None)
    endpoints = []
    for endpoint in broker.endpoints:
        protocol = SECURITY_PROTOCOLS.get(endpoint.security_protocol, "PLAINTEXT")
        # Before version 3 a listener was its security protocol.
        endpoints.append(
            Endpoint(endpoint.host, endpoint.port, endpoint.listener or protocol, protocol)
        )
    return Broker(broker.id, tuple(endpoints), broker.rack or None)
