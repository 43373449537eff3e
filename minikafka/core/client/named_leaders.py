"""The current leaders that responses name beside errors of old leaders (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from minikafka.core.client.cluster_view import (
    ClusterView,
    Node,
    PartitionView,
    TopicView,
    reachable_leaders,
)
from minikafka.kernel.cluster import TopicPartition


class NamedLeader(Protocol):
    """A leader and its epoch; both are -1 if the broker that responds knows none."""

    @property
    def leader_id(self) -> int: ...

    @property
    def leader_epoch(self) -> int: ...


class LeaderRow(Protocol):
    """The row of a partition in a response to Produce, Fetch, ShareFetch or ShareAcknowledge."""

    @property
    def error_code(self) -> int: ...

    @property
    def current_leader(self) -> NamedLeader | None: ...


class NodeEndpoint(Protocol):
    """The address of a named leader, beside the rows of a response."""

    @property
    def node_id(self) -> int: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def rack(self) -> str | None: ...


def with_named_leaders(
    view: ClusterView,
    rows: Mapping[TopicPartition, LeaderRow],
    endpoints: Iterable[NodeEndpoint],
) -> ClusterView:
    """Return the view with the leaders in ``rows`` and their addresses, or ``view`` itself if it
    has nothing to learn from them.

    A leader counts if its epoch is newer than the known one, and its address is among ``endpoints``
    or known. Partitions that are not in the view are ignored. Kafka's
    ``Metadata.updatePartitionLeadership``.
    """
    named = {row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in endpoints}
    nodes = dict(view.nodes)
    moved: dict[str, dict[int, PartitionView]] = {}
    for topic_partition, row in rows.items():
        known, leader = view.partition(topic_partition), row.current_leader
        if known is None or leader is None or leader.leader_epoch <= known.leader_epoch:
            continue
        node_id = leader.leader_id
        node = named.get(node_id) or view.nodes.get(node_id)
        if node is not None:
            nodes[node_id] = node
            moved.setdefault(topic_partition.topic, {})[topic_partition.partition] = known._replace(
                leader=node_id, leader_epoch=leader.leader_epoch
            )
    if not moved:
        return view
    topics = {name: _moved(topic, moved.get(name)) for name, topic in view.topics.items()}
    nodes = dict(sorted(nodes.items()))
    return replace(view, nodes=nodes, topics=topics, leaders=reachable_leaders(topics, nodes))


def _moved(topic: TopicView, moved: Mapping[int, PartitionView] | None) -> TopicView:
    return replace(topic, partitions={**topic.partitions, **moved}) if moved else topic
