"""What is shown of each partition (Kafka's ``Partition``, ``Log`` and ``FetcherLagMetrics``), and
of the replica fetchers together."""

from __future__ import annotations

from collections.abc import Iterator

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.metrics import MetricKind, Metrics
from minikafka.kernel.ports import Clock
from minikafka.server.broker.replication.fetcher_manager import ReplicaFetcherManager
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.partition import Partition

_PARTITION = "kafka.cluster:type=Partition"
_LOG = "kafka.log:type=Log"
_FETCHERS = "kafka.server:type=ReplicaFetcherManager"
_LAG = "kafka.server:type=FetcherLagMetrics,name=ConsumerLag"


def register_partition_metrics(
    metrics: Metrics, hosted: HostedPartitions, fetchers: ReplicaFetcherManager, clock: Clock
) -> None:
    def of_partitions() -> Iterator[tuple[str, float]]:
        for partition in hosted:
            if partition.has_log:  # it may have been closed since
                yield from _of_partition(partition)

    def lags() -> Iterator[tuple[str, float]]:
        for topic_partition, source, lag in fetchers.lags():
            client = f"ReplicaFetcherThread-0-{source}"
            yield f"{_LAG},clientId={client},{_tags(topic_partition)}", lag

    metrics.family(of_partitions, MetricKind.GAUGE, of_partitions=True)
    metrics.family(lags, MetricKind.GAUGE, of_partitions=True)
    metrics.gauge(
        "kafka.server:type=ReplicaManager,name=AtMinIsrPartitionCount",
        lambda: sum(partition.is_at_min_isr for partition in hosted),
    )
    metrics.gauge(
        f"{_FETCHERS},name=MaxLag,clientId=Replica",
        lambda: max((lag for _, _, lag in fetchers.lags()), default=0),
    )
    metrics.gauge(
        f"{_FETCHERS},name=MinFetchRate,clientId=Replica",
        lambda: fetchers.min_fetch_rate(clock.monotonic_ms()),
    )
    metrics.gauge(
        f"{_FETCHERS},name=FailedPartitionsCount,clientId=Replica", lambda: fetchers.failing_count
    )


def _of_partition(partition: Partition) -> Iterator[tuple[str, float]]:
    log, tags = partition.log, _tags(partition.topic_partition)
    is_leader = partition.is_leader
    for name, value in (
        ("UnderReplicated", partition.is_under_replicated),
        ("UnderMinIsr", partition.is_under_min_isr),
        ("AtMinIsr", partition.is_at_min_isr),
        ("ReplicasCount", partition.state.replication_factor if is_leader else 0),
        ("InSyncReplicasCount", len(partition.state.isr.committed) if is_leader else 0),
        ("LastStableOffsetLag", partition.high_watermark - partition.last_stable_offset),
    ):
        yield f"{_PARTITION},name={name},{tags}", int(value)
    for name, value in (
        ("Size", log.size_bytes),
        ("LogEndOffset", log.log_end_offset),
        ("LogStartOffset", log.log_start_offset),
        ("NumLogSegments", len(log.segments)),
    ):
        yield f"{_LOG},name={name},{tags}", value


def _tags(topic_partition: TopicPartition) -> str:
    return f"topic={topic_partition.topic},partition={topic_partition.partition}"
