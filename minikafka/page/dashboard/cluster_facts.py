"""Entities that describe any Kafka: brokers, topics, transactions, reassignments. Groups have their
own file, ``group_facts``.

The functions turn what the protocol says into facts. Their lists are bounded by the constants here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from minikafka.core.client.admin.transactions import TransactionDescription
from minikafka.core.client.cluster_view import ClusterView, Node, PartitionView, TopicView
from minikafka.kernel.cluster import Endpoint, ReplicaAssignment, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.page.dashboard.messages import Facts

MAX_TOPICS: Final = 100
MAX_PARTITIONS: Final = 1000
MAX_GROUPS: Final = 100
MAX_TRANSACTIONS: Final = 100


class BrokerAbout(NamedTuple):
    """What DescribeConfigs says about a broker: ``version`` is None unless it is a minikafka."""

    version: str | None
    debug: Endpoint | None


class PartitionOffsets(NamedTuple):
    """None where they could not be read."""

    log_start: int | None = None
    high_watermark: int | None = None
    last_stable: int | None = None


class Totals(NamedTuple):
    topics: int
    partitions: int
    offline: int
    under_replicated: int


class FailedCall(NamedTuple):
    """A request of the last look at the cluster that failed. ``silent``: without a response."""

    call: str
    broker: int | None
    error: str
    silent: bool = False

    def facts(self) -> Facts:
        return {"call": self.call, "broker": self.broker, "error": self.error}


def shown_topics(topics: Mapping[str, TopicView], watched: Collection[str]) -> list[TopicView]:
    """Choose the topics that are described: the watched ones, then the first by name, as many as
    the bounds allow."""
    wanted = sorted(name for name in watched if name in topics)
    wanted += sorted(topics.keys() - wanted)
    chosen: list[TopicView] = []
    partitions = 0
    for name in wanted[:MAX_TOPICS]:
        topic = topics[name]
        partitions += len(topic.partitions)
        if partitions > MAX_PARTITIONS and chosen:
            break
        if topic.error is ErrorCode.NONE:
            chosen.append(topic)
    return sorted(chosen, key=lambda topic: topic.name)


def totals(topics: Iterable[TopicView]) -> Totals:
    count = partitions = offline = lagging = 0
    for topic in topics:
        count += 1
        for partition in topic.partitions.values():
            partitions += 1
            offline += is_offline(partition)
            lagging += is_under_replicated(partition)
    return Totals(count, partitions, offline, lagging)


def is_offline(partition: PartitionView) -> bool:
    return partition.leader < 0


def is_under_replicated(partition: PartitionView) -> bool:
    return len(partition.isr) < len(partition.replicas)


def node_facts(node: Node, online: bool, controller: bool, about: BrokerAbout | None) -> Facts:
    debug = None if about is None else about.debug
    version = None if about is None else about.version
    return {
        "id": node.id,
        "host": node.host,
        "port": node.port,
        "rack": node.rack,
        "online": online,
        "controller": controller,
        "version": None if version is None else f"minikafka {version}",
        "debug": None if debug is None else f"{debug.host}:{debug.port}",
    }


def topic_facts(
    topic: TopicView, offsets: Mapping[TopicPartition, PartitionOffsets]
) -> dict[str, Any]:
    rows = []
    for number, partition in list(topic.partitions.items())[:MAX_PARTITIONS]:
        known = offsets.get(TopicPartition(topic.name, number), PartitionOffsets())
        rows.append(
            {
                "partition": number,
                "leader": None if is_offline(partition) else partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
                "offline": list(partition.offline_replicas),
                "log_start_offset": known.log_start,
                "high_watermark": known.high_watermark,
                "last_stable_offset": known.last_stable,
            }
        )
    return {
        "name": topic.name,
        "internal": topic.is_internal,
        "partitions": rows,
        "configs": None,
    }


def transaction_facts(described: TransactionDescription) -> Facts:
    return {
        "transactional_id": described.transactional_id,
        "state": described.state,
        "coordinator": described.coordinator,
        "producer_id": described.producer_id,
        "producer_epoch": described.producer_epoch,
        "start_ms": None if described.start_ms < 0 else described.start_ms,
        "timeout_ms": described.timeout_ms,
        "partitions": [str(tp) for tp in sorted(described.partitions)[:MAX_PARTITIONS]],
    }


def reassignment_facts(assignment: ReplicaAssignment) -> Facts:
    return {
        "replicas": list(assignment.replicas),
        "adding": list(assignment.adding),
        "removing": list(assignment.removing),
    }


def cluster_facts(
    view: ClusterView,
    bootstrap: str,
    of_topics: Totals,
    groups: int,
    shown: Mapping[str, int],
    errors: Iterable[FailedCall],
) -> Facts:
    return {
        "cluster_id": view.cluster_id,
        "controller": view.controller_id if view.controller_id in view.nodes else None,
        "bootstrap": bootstrap,
        **of_topics._asdict(),
        "groups": groups,
        "shown": dict(shown),
        "errors": [error.facts() for error in errors],
    }
