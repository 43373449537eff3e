"""The broker that a consumer fetches each partition from: the leader, or a preferred replica."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.core.client.cluster_view import ClusterView
from minikafka.kernel.cluster import TopicPartition


class ReadReplicas:
    """Kafka's preferred read replicas (KIP-392). A replica that the leader has named is used for
    ``lease_ms``, or until it fails or responds with an error; then the leader is used again."""

    def __init__(self, lease_ms: int) -> None:
        self._lease_ms = lease_ms
        self._preferred: dict[TopicPartition, tuple[int, int]] = {}  # broker, until when

    def prefer(self, topic_partition: TopicPartition, broker_id: int, now_ms: int) -> None:
        """Use the replica that the leader has named."""
        self._preferred[topic_partition] = (broker_id, now_ms + self._lease_ms)

    def clear(self, topic_partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Use the leaders again. Returns the partitions that had another replica."""
        return [tp for tp in topic_partitions if self._preferred.pop(tp, None) is not None]

    def source(
        self, topic_partition: TopicPartition, cluster: ClusterView, now_ms: int
    ) -> int | None:
        """Return the broker to fetch from; None when the leader is not known."""
        preferred = self._preferred.get(topic_partition)
        if preferred is not None:
            broker_id, until_ms = preferred
            partition = cluster.partition(topic_partition)
            offline = partition is not None and broker_id in partition.offline_replicas
            if now_ms < until_ms and broker_id in cluster.nodes and not offline:
                return broker_id
            del self._preferred[topic_partition]
        return cluster.leaders.get(topic_partition)
