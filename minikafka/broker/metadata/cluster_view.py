"""What the data path has to know of the rest of the cluster."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from minikafka.kernel.cluster import Broker, TopicPartition


class ClusterView(Protocol):
    """The part of the metadata cache that produce, fetch and replication look at."""

    def topic_name(self, topic_id: UUID) -> str | None: ...

    def contains(self, topic_partition: TopicPartition) -> bool: ...

    def broker(self, broker_id: int) -> Broker | None:
        """A live broker, or None."""
        ...

    def partition_leader(self, topic_partition: TopicPartition) -> tuple[int, int] | None:
        """(leader, leader epoch) as last heard; None for an unknown partition."""
        ...


class LiveBrokers:
    """The ids of live brokers, as a container."""

    __slots__ = ("_cluster",)

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster

    def __contains__(self, broker_id: object) -> bool:
        return isinstance(broker_id, int) and self._cluster.broker(broker_id) is not None
