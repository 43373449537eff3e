"""From whom a consumer reads each partition: the leader, or a replica that the leader named."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.core.client.cluster_view import ClusterView
from minikafka.kernel.cluster import TopicPartition


class ReadReplicas:
    """Kafka's preferred read replicas (KIP-392). Whom a leader named is asked for ``lease_ms``,
    then the leader once more; sooner when it fails or answers with an error."""

    def __init__(self, lease_ms: int) -> None:
        self._lease_ms = lease_ms
        self._preferred: dict[TopicPartition, tuple[int, int]] = {}  # broker, until when

    def prefer(self, topic_partition: TopicPartition, broker_id: int, now_ms: int) -> None:
        """The leader said so."""
        self._preferred[topic_partition] = (broker_id, now_ms + self._lease_ms)

    def clear(self, topic_partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Ask the leaders again. Returns those of which somebody else was asked."""
        return [tp for tp in topic_partitions if self._preferred.pop(tp, None) is not None]

    def source(
        self, topic_partition: TopicPartition, cluster: ClusterView, now_ms: int
    ) -> int | None:
        """The broker to fetch from; None when it is not known who leads."""
        preferred = self._preferred.get(topic_partition)
        if preferred is not None:
            broker_id, until_ms = preferred
            partition = cluster.partition(topic_partition)
            offline = partition is not None and broker_id in partition.offline_replicas
            if now_ms < until_ms and broker_id in cluster.nodes and not offline:
                return broker_id
            del self._preferred[topic_partition]
        return cluster.leaders.get(topic_partition)
