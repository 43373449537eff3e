"""A client's view of the cluster: brokers, topics and leaders, merged from Metadata responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from minikafka.kernel.cluster import NO_EPOCH, NO_LEADER, ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

V = TypeVar("V")


class Node(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None = None


class PartitionView(NamedTuple):
    """A partition in the view. ``leader`` is -1 while the partition has no leader."""

    partition: int
    leader: int = NO_LEADER
    leader_epoch: int = NO_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic in the view. With an ``error`` the partitions may be missing."""

    name: str
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False
    error: ErrorCode = ErrorCode.NONE
    partitions: Mapping[int, PartitionView] = field(default_factory=dict)

    @property
    def available(self) -> list[int]:
        """The numbers of the partitions that have a leader."""
        return [number for number, view in self.partitions.items() if view.leader != NO_LEADER]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """An immutable view of the cluster; ``version`` counts the merged Metadata responses."""

    version: int = 0
    cluster_id: str | None = None
    controller_id: int = -1
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    leaders: Mapping[TopicPartition, int] = field(default_factory=dict)  # only those reachable

    def partition(self, topic_partition: TopicPartition) -> PartitionView | None:
        topic = self.topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def leader_epoch(self, topic_partition: TopicPartition) -> int:
        """Return the epoch of a partition's leader, -1 if it is unknown."""
        partition = self.partition(topic_partition)
        return NO_EPOCH if partition is None else partition.leader_epoch


def metadata_request(
    topics: Iterable[str] | None, allow_auto_topic_creation: bool = False
) -> MetadataRequest:
    """Build a Metadata request for these topics, or for all topics if None."""
    return MetadataRequest(
        topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=allow_auto_topic_creation,
    )


def topic_view(row: MetadataResponseTopic) -> TopicView:
    """Convert a topic of a Metadata response into a TopicView."""
    partitions = {
        view.partition: view
        for view in sorted(
            PartitionView(
                partition=p.partition_index,
                leader=p.leader_id,
                leader_epoch=p.leader_epoch,
                replicas=tuple(p.replica_nodes),
                isr=tuple(p.isr_nodes),
                offline_replicas=tuple(p.offline_replicas),
                error=ErrorCode(p.error_code),
            )
            for p in row.partitions
        )
    }
    return TopicView(
        row.name or "", row.topic_id, row.is_internal, ErrorCode(row.error_code), partitions
    )


def check_metadata(response: MetadataResponse) -> None:
    """Raise KafkaError if a Metadata response has an error of the whole request (since version
    13), or no brokers: it comes from a broker that has just started and has no metadata yet.
    Kafka's ``NetworkClient.handleSuccessfulResponse`` ignores such a response, too."""
    if response.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(response.error_code))
    if not response.brokers:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "brokers are starting")


def merge(old: ClusterView, response: MetadataResponse, wanted: Iterable[str]) -> ClusterView:
    """Return a new view with the brokers and topics of a Metadata response.

    The brokers replace the old ones. The response's topics replace those of the same name; other
    topics stay if they are among ``wanted``.

    A partition is not replaced by one with an older leader epoch: the broker that sent it has stale
    metadata (KIP-320). A topic with another topic id was deleted and created again, and replaces
    the old one whole.

    Raises KafkaError as ``check_metadata`` does.
    """
    check_metadata(response)
    topics = {name: old.topics[name] for name in wanted if name in old.topics}
    for row in response.topics:
        new = topic_view(row)
        topics[new.name] = newer(old.topics.get(new.name), new)
    nodes = {
        row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in response.brokers
    }
    return ClusterView(
        version=old.version + 1,
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        nodes=dict(sorted(nodes.items())),
        topics=dict(sorted(topics.items())),
        leaders=reachable_leaders(topics, nodes),
    )


def reachable_leaders(
    topics: Mapping[str, TopicView], nodes: Mapping[int, Node]
) -> dict[TopicPartition, int]:
    """Return the leaders of all partitions whose leader is among ``nodes``."""
    return {
        TopicPartition(name, view.partition): view.leader
        for name, topic in topics.items()
        for view in topic.partitions.values()
        if view.leader in nodes
    }


def newer(old: TopicView | None, new: TopicView) -> TopicView:
    """Return ``new`` with those partitions of ``old`` whose leader epoch is higher there."""
    if old is None or old.topic_id != new.topic_id:
        return new
    higher = {
        number: known
        for number, known in old.partitions.items()
        if (received := new.partitions.get(number)) is not None
        and NO_EPOCH != received.leader_epoch < known.leader_epoch
    }
    if not higher:  # a large cluster is merged every few seconds
        return new
    partitions = {**new.partitions, **higher}
    return TopicView(new.name, new.topic_id, new.is_internal, new.error, partitions)


class LeaderGroups(NamedTuple, Generic[V]):
    """Values of partitions, grouped by the leader's broker id.

    ``leaderless`` are the partitions without a known leader.
    """

    by_leader: dict[int, dict[TopicPartition, V]]
    leaderless: list[TopicPartition]


def group_by_leader(
    values: Mapping[TopicPartition, V], leaders: Mapping[TopicPartition, int]
) -> LeaderGroups[V]:
    """Group partitions by their leaders; the partitions of each leader are sorted."""
    groups: LeaderGroups[V] = LeaderGroups({}, [])
    for tp in sorted(values):
        if tp in leaders:
            groups.by_leader.setdefault(leaders[tp], {})[tp] = values[tp]
        else:
            groups.leaderless.append(tp)
    return groups


def partition_counts(view: ClusterView, topics: Iterable[str]) -> dict[str, int]:
    """Return the number of partitions of each topic; 0 for an unknown topic or one with an
    error."""
    known = {topic: view.topics.get(topic) for topic in topics}
    return {
        topic: 0 if row is None or row.error is not ErrorCode.NONE else len(row.partitions)
        for topic, row in known.items()
    }
