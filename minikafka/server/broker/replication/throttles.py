"""Replication throttles (KIP-73) of leaders, followers and moves between log directories.

``minikafka reassign --throttle`` lists the throttled replicas of topics and sets the rates of
brokers. While a rate is exceeded, throttled replicas that are out of sync are left out of requests
and responses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from minikafka.core.replication import fetch_state as states
from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.core.replication.quota import QuotaConfig, ReplicationQuota
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.partition import Partition

# The longest delay of a throttled partition: the limit may be raised or removed meanwhile.
LOOK_AGAIN_MS: Final = 1_000


class LeaderThrottle:
    """Limits the byte rate that leaders send to followers (``leader.replication.throttled.*``).

    Bytes sent to in-sync replicas count, but these replicas are never held back, since they would
    leave the ISR (Kafka: ``shouldLeaderThrottle``). The methods need not be called while
    ``quota.limited`` is False."""

    def __init__(self, quota: ReplicationQuota, clock: Clock, hosted: HostedPartitions) -> None:
        self.quota = quota
        self._clock = clock
        self._hosted = hosted

    def holds_back(self, partition: Partition, replica_id: int) -> bool:
        """Whether no records may be sent to this follower now. Never true for a consumer."""
        return (
            replica_id >= 0
            and replica_id not in partition.state.isr.committed
            and _leads_throttled(partition)
            and self.quota.is_exceeded(self._clock.monotonic_ms())
        )

    def record(self, topic_partition: TopicPartition, size: int) -> None:
        """Count ``size`` bytes that were sent to followers of the partition."""
        partition = self._hosted.get(topic_partition)
        if partition is not None and _leads_throttled(partition):
            self.quota.record(size, self._clock.monotonic_ms())


class FollowerThrottle:
    """Limits the byte rate that this broker fetches (``follower.replication.throttled.*``).

    Bytes of in-sync replicas count, but these replicas are never held back (Kafka:
    ``shouldFollowerThrottle``). The methods need not be called while ``quota.limited`` is
    False."""

    def __init__(self, quota: ReplicationQuota, clock: Clock, hosted: HostedPartitions) -> None:
        self.quota = quota
        self._clock = clock
        self._hosted = hosted

    def is_throttled(self, topic_partition: TopicPartition) -> bool:
        """Whether a limit is set and applies to this partition."""
        if not self.quota.limited:
            return False
        partition = self._hosted.get(topic_partition)
        return partition is not None and _follows_throttled(partition)

    def record(self, partition: Partition, size: int) -> None:
        """Count ``size`` bytes that were fetched for the partition."""
        if _follows_throttled(partition):
            self.quota.record(size, self._clock.monotonic_ms())

    def held_back(
        self, known: Mapping[TopicPartition, PartitionFetchState], now_ms: int
    ) -> dict[TopicPartition, PartitionFetchState]:
        """Return delayed states for the partitions in ``known`` that must not be fetched now."""
        wait_ms = min(self.quota.wait_ms(now_ms), LOOK_AGAIN_MS)
        if not wait_ms:
            return {}
        return {
            topic_partition: states.held_back(state, now_ms, wait_ms)
            for topic_partition, state in known.items()
            if not state.in_sync and self.is_throttled(topic_partition)
        }


class ReplicationThrottles:
    """The throttles of one broker. ``log_dirs`` limits moves between log directories."""

    def __init__(
        self,
        config: QuotaConfig,
        clock: Clock,
        hosted: HostedPartitions,
        log_dirs: ReplicationQuota,
        metrics: Metrics,
    ) -> None:
        self._clock = clock
        self.leader = LeaderThrottle(ReplicationQuota(config), clock, hosted)
        self.follower = FollowerThrottle(ReplicationQuota(config), clock, hosted)
        self._log_dirs = log_dirs
        for kind, quota in (
            ("LeaderReplication", self.leader.quota),
            ("FollowerReplication", self.follower.quota),
            ("AlterLogDirsReplication", log_dirs),
        ):
            metrics.gauge(f"kafka.server:type={kind}:byte-rate", _rate(quota, clock))

    def facts(self) -> Mapping[str, Any]:
        """Return limits and rates in bytes per second, as JSON values."""
        now_ms = self._clock.monotonic_ms()
        return {
            name: {
                "limit": quota.bytes_per_second_limit,
                "rate": round(quota.bytes_per_second(now_ms)),
                "exceeded": quota.is_exceeded(now_ms),
            }
            for name, quota in (
                ("leader", self.leader.quota),
                ("follower", self.follower.quota),
                ("log_dirs", self._log_dirs),
            )
        }

    def limit(self, leader: int | None, follower: int | None, log_dirs: int | None) -> None:
        """Set the limits in bytes per second; None removes a limit."""
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
