"""Which replicas wait while throttled replication moves more than it may, on either side of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.broker.replication.partition import Partition
from minikafka.core.replication import fetch_state as states
from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.core.replication.quota import QuotaConfig, ReplicationQuota
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock

LOOK_AGAIN_MS: Final = 1_000  # a limit may be raised or lifted meanwhile


class LeaderThrottle:
    """What throttled replicas are sent (``leader.replication.throttled.*``). Those in sync count,
    and are never held back: they would leave the ISR. Kafka: ``shouldLeaderThrottle``.

    While ``quota.limited`` is False there is nothing to ask or to tell."""

    def __init__(self, quota: ReplicationQuota, clock: Clock, hosted: HostedPartitions) -> None:
        self.quota = quota
        self._clock = clock
        self._hosted = hosted

    def holds_back(self, partition: Partition, replica_id: int) -> bool:
        """Whether this follower (never a consumer) is to be sent nothing of the partition now."""
        return (
            replica_id >= 0
            and replica_id not in partition.state.isr.committed
            and _leads_throttled(partition)
            and self.quota.is_exceeded(self._clock.monotonic_ms())
        )

    def sent(self, topic_partition: TopicPartition, size: int) -> None:
        partition = self._hosted.get(topic_partition)
        if partition is not None and _leads_throttled(partition):
            self.quota.record(size, self._clock.monotonic_ms())


class FollowerThrottle:
    """What throttled replicas here fetch (``follower.replication.throttled.*``). Those in sync
    count, and are never held back. Kafka: ``shouldFollowerThrottle``.

    While ``quota.limited`` is False there is nothing to ask or to tell."""

    def __init__(self, quota: ReplicationQuota, clock: Clock, hosted: HostedPartitions) -> None:
        self.quota = quota
        self._clock = clock
        self._hosted = hosted

    def is_throttled(self, topic_partition: TopicPartition) -> bool:
        """Whether its bytes count."""
        if not self.quota.limited:
            return False
        partition = self._hosted.get(topic_partition)
        return partition is not None and _follows_throttled(partition)

    def took(self, partition: Partition, size: int) -> None:
        if _follows_throttled(partition):
            self.quota.record(size, self._clock.monotonic_ms())

    def hold_back(self, asked: dict[TopicPartition, PartitionFetchState], now_ms: int) -> None:
        """Have those wait that are not to be asked for now."""
        wait_ms = min(self.quota.wait_ms(now_ms), LOOK_AGAIN_MS)
        if wait_ms:
            for topic_partition, state in asked.items():
                if not state.in_sync and self.is_throttled(topic_partition):
                    asked[topic_partition] = states.held_back(state, now_ms, wait_ms)


class ReplicationThrottles:
    """Both, and the limit of moves between log directories (``log_dirs``), as rates are set."""

    def __init__(
        self,
        config: QuotaConfig,
        clock: Clock,
        hosted: HostedPartitions,
        log_dirs: ReplicationQuota,
        metrics: Metrics,
    ) -> None:
        self.leader = LeaderThrottle(ReplicationQuota(config), clock, hosted)
        self.follower = FollowerThrottle(ReplicationQuota(config), clock, hosted)
        self._log_dirs = log_dirs
        for kind, quota in (
            ("LeaderReplication", self.leader.quota),
            ("FollowerReplication", self.follower.quota),
            ("AlterLogDirsReplication", log_dirs),
        ):
            metrics.gauge(f"kafka.server:type={kind},name=byte-rate", _rate(quota, clock))

    def limit(self, leader: int | None, follower: int | None, log_dirs: int | None) -> None:
        """Bytes a second; None: as many as there are."""
        self.leader.quota.limit(leader)
        self.follower.quota.limit(follower)
        self._log_dirs.limit(log_dirs)


def _leads_throttled(partition: Partition) -> bool:
    listed = partition.config.leader_throttled
    return listed.includes(partition.topic_partition.partition, partition.broker_id)


def _follows_throttled(partition: Partition) -> bool:
    listed = partition.config.follower_throttled
    return listed.includes(partition.topic_partition.partition, partition.broker_id)


def _rate(quota: ReplicationQuota, clock: Clock) -> Callable[[], float]:
    return lambda: quota.bytes_per_second(clock.monotonic_ms())
