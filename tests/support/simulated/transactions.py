"""Checks of transactions in a simulated cluster that look into its brokers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minikafka.kernel.cluster import TopicPartition
from minikafka.server.broker.replication.partition import Partition
from minikafka.testing.simulator.cluster import LogEvent, SimCluster


class StableOffsetChecker:
    """An observer that checks that the last stable offset does not decrease while one broker leads
    in one epoch. A leader that restarts and leads on in that epoch begins below it, as its high
    watermark does."""

    def __init__(self, cluster: SimCluster, partitions: Sequence[TopicPartition]) -> None:
        self._cluster = cluster
        self._partitions = partitions
        self._seen: dict[tuple[TopicPartition, int, int], tuple[Partition, int]] = {}

    def __call__(self, event: LogEvent) -> None:
        for topic_partition in self._partitions:
            for broker_id, replica in self._cluster.replicas(topic_partition).items():
                if not replica.is_leader or not replica.has_log:
                    continue
                key = (topic_partition, broker_id, replica.leader_epoch)
                stable = replica.last_stable_offset
                process, before = self._seen.get(key, (replica, 0))
                assert stable >= before or process is not replica, (
                    f"{event}: {topic_partition} from {before} to {stable}"
                )
                self._seen[key] = (replica, stable)


def none_hangs(cluster: SimCluster, partitions: Sequence[TopicPartition]) -> Callable[[], bool]:
    """Check that no replica of these partitions has an open transaction."""

    def look() -> bool:
        replicas = [r for tp in partitions for r in cluster.replicas(tp).values()]
        return all(
            r.has_log and r.last_stable_offset == r.high_watermark == r.log.log_end_offset
            for r in replicas
        )

    return look
