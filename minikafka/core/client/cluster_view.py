"""What a client believes about the cluster: brokers, topics, leaders; and how news are merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

from minikafka.kernel.cluster import NO_EPOCH, NO_LEADER, ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode


class Node(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None = None


class PartitionView(NamedTuple):
    """One partition. ``leader`` is -1 while there is none."""

    partition: int
    leader: int = NO_LEADER
    leader_epoch: int = NO_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic. With an ``error`` there may be no partitions."""

    name: str
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False
    error: ErrorCode = ErrorCode.NONE
    partitions: Mapping[int, PartitionView] = field(default_factory=dict)

    @property
    def available(self) -> list[int]:
        """Partitions that have a leader."""
        return [number for number, view in self.partitions.items() if view.leader != NO_LEADER]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A value: every piece of news makes a new one. ``version`` counts them."""

    version: int = 0
    cluster_id: str | None = None
    controller_id: int = -1
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    leaders: Mapping[TopicPartition, int] = field(default_factory=dict)  # only those reachable

    def partition(self, topic_partition: TopicPartition) -> PartitionView | None:
        topic = self.topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)


class _BrokerRow(Protocol):
    node_id: int
    host: str
    port: int
    rack: str | None


class _PartitionRow(Protocol):
    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: list[int]
    isr_nodes: list[int]
    offline_replicas: list[int]


class _TopicRow(Protocol):
    error_code: int
    topic_id: UUID
    is_internal: bool

    @property
    def name(self) -> str | None: ...

    @property
    def partitions(self) -> Iterable[_PartitionRow]: ...


class MetadataAnswer(Protocol):
    """The fields of a MetadataResponse that count here."""

    cluster_id: str | None
    controller_id: int

    @property
    def brokers(self) -> Iterable[_BrokerRow]: ...

    @property
    def topics(self) -> Iterable[_TopicRow]: ...


def topic_view(row: _TopicRow) -> TopicView:
    """One topic of a MetadataResponse."""
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


def merge(old: ClusterView, answer: MetadataAnswer, wanted: Iterable[str]) -> ClusterView:
    """The view after a MetadataResponse: its brokers replace the old ones, its topics those of the
    same name; other topics that are still ``wanted`` stay.

    A partition whose leader epoch is older than the one known keeps the old view: a broker that
    lags must not send us back (KIP-320). A topic made anew under its name starts afresh.
    """
    topics = {name: old.topics[name] for name in wanted if name in old.topics}
    for row in answer.topics:
        new = topic_view(row)
        topics[new.name] = _newer(old.topics.get(new.name), new)
    nodes = {row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in answer.brokers}
    leaders = {
        TopicPartition(name, view.partition): view.leader
        for name, topic in topics.items()
        for view in topic.partitions.values()
        if view.leader in nodes
    }
    return ClusterView(
        version=old.version + 1,
        cluster_id=answer.cluster_id,
        controller_id=answer.controller_id,
        nodes=dict(sorted(nodes.items())),
        topics=dict(sorted(topics.items())),
        leaders=leaders,
    )


def _newer(old: TopicView | None, new: TopicView) -> TopicView:
    if old is None or old.topic_id != new.topic_id:
        return new
    partitions = dict(new.partitions)
    for number, known in old.partitions.items():
        told = partitions.get(number)
        if told is not None and NO_EPOCH != told.leader_epoch < known.leader_epoch:
            partitions[number] = known
    return TopicView(new.name, new.topic_id, new.is_internal, new.error, partitions)


def partition_counts(view: ClusterView, topics: Iterable[str]) -> dict[str, int]:
    """Of each topic; 0 for one that is not there."""
    known = {topic: view.topics.get(topic) for topic in topics}
    return {
        topic: 0 if row is None or row.error is not ErrorCode.NONE else len(row.partitions)
        for topic, row in known.items()
    }
