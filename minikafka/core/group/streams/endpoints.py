"""The partitions of each endpoint of a streams group, for interactive queries (KIP-535)."""

from __future__ import annotations

from minikafka.core.group.streams.group import StreamsGroup
from minikafka.core.group.streams.member import NOT_JOINED
from minikafka.core.group.streams.tasks import Tasks
from minikafka.core.group.streams.topology import ConfiguredTopology
from minikafka.core.metadata_image import MetadataImage
from minikafka.protocol.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    TopicPartitions,
)
from minikafka.protocol.messages.streams_topology import UserEndpoint


def partitions_by_endpoint(
    group: StreamsGroup, configured: ConfiguredTopology, image: MetadataImage
) -> list[EndpointToPartitions]:
    """Return the partitions that the active and the standby tasks of each member read, for members
    with an endpoint."""
    rows = []
    for member_id, member in group.members.items():
        if member.endpoint is not None:
            assigned = group.current.get(member_id, NOT_JOINED).assigned
            active = _partitions(assigned.active, configured, image)
            standby = _partitions(assigned.standby, configured, image)
            rows.append(EndpointToPartitions(UserEndpoint(*member.endpoint), active, standby))
    return rows


def _partitions(
    tasks: Tasks, configured: ConfiguredTopology, image: MetadataImage
) -> list[TopicPartitions]:
    """Return the partitions that tasks read. As in Kafka, a topic with fewer partitions than there
    are ``tasks`` has as many rows, for the lowest of them."""
    subtopologies = configured.subtopologies or {}
    return [
        TopicPartitions(topic, sorted(partitions)[: len(image.topics[topic])])
        for name, partitions in sorted(tasks.items())
        if name in subtopologies
        for topic in subtopologies[name].sources
        if topic in image.topics
    ]
