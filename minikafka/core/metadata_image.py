"""The cluster's metadata from UpdateMetadata requests, as an immutable snapshot.

``with_newer_leaders`` adds what another broker knows of leaders: for a broker that the controller
does not reach."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Final
from uuid import UUID

from minikafka.kernel.cluster import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    ZERO_UUID,
    Broker,
    Endpoint,
    TopicPartition,
)
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.slices import run_at_once
from minikafka.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition
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
    """A partition's state in the controller's last UpdateMetadata request. ``zk_version`` is
    ``UNKNOWN_ZK_VERSION`` if another broker has told it, by Metadata."""

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


UNKNOWN_ZK_VERSION: Final = -1

Partitions = Mapping[int, PartitionMetadata]


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """An immutable snapshot; ``apply`` returns the next one and shares unchanged parts.

    ``brokers`` are the live brokers, ``topics`` the partitions by topic and index. A topic without
    an id (from a controller older than 2.8) is in ``topics``, not in ``topic_ids``. ``racks`` are
    those of all brokers that were alive: a topic keeps its racks when a broker dies.
    ``topic_hashes`` are the ones that ``topic_hash`` has computed of this image.
    """

    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, Partitions] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    controller_id: int | None = None
    racks: Mapping[int, str] = field(default_factory=dict)
    topic_hashes: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    def partition(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        partitions = self.topics.get(topic_partition.topic)
        return None if partitions is None else partitions.get(topic_partition.partition)

    def endpoint(self, broker: int, listener: str) -> Endpoint | None:
        """Return a broker's endpoint; None if the broker is not alive or has no such listener."""
        alive = self.brokers.get(broker)
        return None if alive is None else alive.endpoint(listener)


@dataclass(frozen=True, slots=True)
class MetadataUpdate:
    """What an UpdateMetadata request makes of an image.

    ``deleted`` are the partitions with the leader ``LEADER_DURING_DELETE``, in the order of the
    request. ``decreased`` are those whose leader epoch, or partition epoch in the same leader
    epoch, is lower than before. A topic that was deleted and created again, which shows by another
    topic id, begins again."""

    before: MetadataImage
    after: MetadataImage
    deleted: list[TopicPartition]
    decreased: list[TopicPartition]

    @property
    def deleted_topic_ids(self) -> set[UUID]:
        """The ids of topics that are gone, or that were created again with another id."""
        topics = {topic_partition.topic for topic_partition in self.deleted}
        ids = (self.before.topic_ids.get(topic, ZERO_UUID) for topic in topics)
        return {topic_id for topic_id in ids if topic_id in self.before.topic_names} - set(
            self.after.topic_names
        )


def update_steps(
    image: MetadataImage, request: UpdateMetadataRequest
) -> Generator[None, None, MetadataUpdate]:
    """Compute the next image; yield after each element of the request. What the request does not
    name is copied in whole, or shared, and costs no step: a controller sends a request for each
    topic that is created.

    The request replaces all live brokers and the controller; its partitions are added to those of
    the image. A topic is removed with its last partition.
    """
    touched, deleted = yield from _touched_topics(image, request)
    topics, topic_hashes = dict(image.topics), dict(image.topic_hashes)
    for topic, partitions in touched.items():
        if partitions:
            topics[topic] = partitions
        else:
            topics.pop(topic, None)
        topic_hashes.pop(topic, None)
        yield
    topic_ids = yield from _topic_ids(image, request, topics)
    topic_names = yield from _topic_names(image, request, topic_ids)
    brokers = {}
    for broker in request.live_brokers:
        brokers[broker.id] = _broker(broker)
        yield
    for state in request.topic_states:  # one without partitions may have another id
        topic_hashes.pop(state.topic_name, None)
        yield
    racks = {**image.racks, **{b.id: b.rack for b in brokers.values() if b.rack is not None}}
    after = MetadataImage(
        brokers=brokers,
        topics=topics if touched else image.topics,
        topic_ids=topic_ids,
        topic_names=topic_names,
        controller_id=request.controller_id if request.controller_id >= 0 else None,
        racks=racks,
        topic_hashes=topic_hashes if racks == image.racks else {},
    )
    decreased = yield from _decreased(image, after, request)
    return MetadataUpdate(image, after, list(deleted), decreased)


def apply(
    image: MetadataImage, request: UpdateMetadataRequest
) -> tuple[MetadataImage, list[TopicPartition]]:
    """Return the next image, and the deleted partitions; see ``update_steps``."""
    update = run_at_once(update_steps(image, request))
    return update.after, update.deleted


def with_newer_leaders(
    image: MetadataImage, response: MetadataResponse
) -> tuple[MetadataImage, list[TopicPartition]]:
    """Return the image with those partitions of another broker's Metadata response whose leader
    epoch is higher, and their names. The image itself if there is none.

    Only the controller raises a leader epoch, so the higher one is newer, whoever sends it. Topics
    and partitions that the image does not have are left out, and so are topics with another id:
    they were created again, and count their epochs from zero."""
    topics: dict[str, Partitions] = {}
    newer: list[TopicPartition] = []
    for topic in response.topics:
        name = topic.name or ""
        known = image.topics.get(name, {})
        if topic.topic_id not in (ZERO_UUID, image.topic_ids.get(name, ZERO_UUID)):
            continue
        changed = {
            row.partition_index: _state_elsewhere(row, before)
            for row in topic.partitions
            if (before := known.get(row.partition_index)) is not None
            and row.leader_epoch > before.leader_epoch
        }
        if changed:
            topics[name] = {**known, **changed}
            newer += [TopicPartition(name, index) for index in changed]
    if not newer:
        return image, newer
    return replace(image, topics={**image.topics, **topics}, topic_hashes={}), newer


def _state_elsewhere(
    row: MetadataResponsePartition, before: PartitionMetadata
) -> PartitionMetadata:
    return PartitionMetadata(
        leader=row.leader_id,
        leader_epoch=row.leader_epoch,
        isr=tuple(row.isr_nodes),
        replicas=tuple(row.replica_nodes),
        offline_replicas=tuple(row.offline_replicas),
        controller_epoch=before.controller_epoch,
        zk_version=UNKNOWN_ZK_VERSION,
    )


def partition_states(
    request: UpdateMetadataRequest,
) -> Iterator[tuple[str, UpdateMetadataPartitionState]]:
    """Yield the topic and the state of each partition, for any version of UpdateMetadata."""
    for state in request.ungrouped_partition_states:  # versions 0-4
        yield state.topic_name, state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, state


def _touched_topics(
    image: MetadataImage, request: UpdateMetadataRequest
) -> Generator[
    None, None, tuple[dict[str, dict[int, PartitionMetadata]], dict[TopicPartition, None]]
]:
    """Return the partitions of the topics in the request, and the deleted partitions."""
    touched: dict[str, dict[int, PartitionMetadata]] = {}
    deleted: dict[TopicPartition, None] = {}
    for topic, state in partition_states(request):
        partitions = touched.get(topic)
        if partitions is None:
            partitions = touched[topic] = dict(image.topics.get(topic, {}))
        if state.leader == LEADER_DURING_DELETE:
            partitions.pop(state.partition_index, None)
            deleted[TopicPartition(topic, state.partition_index)] = None
        else:
            partitions[state.partition_index] = _partition_state(state)
            deleted.pop(TopicPartition(topic, state.partition_index), None)
        yield
    return touched, deleted


def _topic_ids(
    image: MetadataImage, request: UpdateMetadataRequest, topics: Mapping[str, Partitions]
) -> Generator[None, None, Mapping[str, UUID]]:
    """Return the ids of ``topics``; the mapping of the image itself if none has changed."""
    topic_ids = dict(image.topic_ids)
    for topic in request.topic_states:
        if topic.topic_id != ZERO_UUID:
            topic_ids[topic.topic_name] = topic.topic_id
        else:
            topic_ids.pop(topic.topic_name, None)
        yield
    for state in request.ungrouped_partition_states:
        topic_ids.pop(state.topic_name, None)
        yield
    same = True
    for topic in request.topic_states:
        name = topic.topic_name
        if name not in topics:  # gone, or named without any partition
            topic_ids.pop(name, None)
        same = same and topic_ids.get(name) == image.topic_ids.get(name)
        yield
    return image.topic_ids if same and len(topic_ids) == len(image.topic_ids) else topic_ids


def _topic_names(
    image: MetadataImage, request: UpdateMetadataRequest, topic_ids: Mapping[str, UUID]
) -> Generator[None, None, Mapping[UUID, str]]:
    """Return the names by id; the mapping of the image itself if no id has changed."""
    if topic_ids is image.topic_ids:
        return image.topic_names
    topic_names = dict(image.topic_names)
    named = [topic.topic_name for topic in request.topic_states]
    named += [state.topic_name for state in request.ungrouped_partition_states]
    for name in named:
        before = image.topic_ids.get(name)
        if before is not None and topic_names.get(before) == name:
            del topic_names[before]
        yield
    for name in named:
        if name in topic_ids:
            topic_names[topic_ids[name]] = name
        yield
    return topic_names


def _decreased(
    before: MetadataImage, after: MetadataImage, request: UpdateMetadataRequest
) -> Generator[None, None, list[TopicPartition]]:
    found = []
    for topic, state in partition_states(request):
        topic_partition = TopicPartition(topic, state.partition_index)
        old, new = before.partition(topic_partition), after.partition(topic_partition)
        if (
            old is not None
            and new is not None
            and old.zk_version != UNKNOWN_ZK_VERSION  # else it was ahead of a request that was late
            and (new.leader_epoch, new.zk_version) < (old.leader_epoch, old.zk_version)
            and before.topic_ids.get(topic) == after.topic_ids.get(topic)
        ):
            found.append(topic_partition)
        yield
    return found


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
