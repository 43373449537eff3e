"""The broker from which a consumer fetches each partition: the leader or a preferred replica."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.core.client.cluster_view import ClusterView
from minikafka.kernel.cluster import TopicPartition


class ReadReplicas:
    """The preferred read replicas of a consumer (KIP-392).

    The consumer fetches from the replica that the leader has named for ``lease_ms``, or until a
    fetch from it fails; then from the leader again.
    """

    def __init__(self, lease_ms: int) -> None:
        self._lease_ms = lease_ms
        self._preferred: dict[TopicPartition, tuple[int, int]] = {}  # broker, until when

    def prefer(self, topic_partition: TopicPartition, broker_id: int, now_ms: int) -> None:
        """Fetch the partition from ``broker_id`` from now on: the leader has named that replica."""
        self._preferred[topic_partition] = (broker_id, now_ms + self._lease_ms)

    def clear(self, topic_partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Fetch these partitions from their leaders again. Return those that had a preferred
        replica."""
        return [tp for tp in topic_partitions if self._preferred.pop(tp, None) is not None]

    def source(
        self, topic_partition: TopicPartition, cluster: ClusterView, now_ms: int
    ) -> int | None:
        """Return the broker to fetch from, None if the leader is unknown.

        It is the preferred replica until its lease ends or it is offline, otherwise the leader.
        """
        preferred = self._preferred.get(topic_partition)
        if preferred is not None:
            broker_id, until_ms = preferred
            partition = cluster.partition(topic_partition)
            offline = partition is not None and broker_id in partition.offline_replicas
            if now_ms < until_ms and broker_id in cluster.nodes and not offline:
                return broker_id
            del self._preferred[topic_partition]
        return cluster.leaders.get(topic_partition)
