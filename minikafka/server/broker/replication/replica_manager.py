"""The replicas of one broker: makes the parts of this room, starts and stops them.

Handlers call the parts: ``appends`` (Produce), ``deletion`` (DeleteRecords), ``leadership``
(LeaderAndIsr, StopReplica), and ``hosted`` for a partition itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeVar

from minikafka.core.replication.quota import QuotaConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock, CoordinationError, NoAuth
from minikafka.server.broker.metadata.cache import LiveBrokers, MetadataCache
from minikafka.server.broker.metadata.topic_configs import TopicConfigCache
from minikafka.server.broker.purgatories import ReplicaPurgatories
from minikafka.server.broker.replication.fetcher_manager import OpenChannel, ReplicaFetcherManager
from minikafka.server.broker.replication.follower_logs import FollowerLogs
from minikafka.server.broker.replication.hosted_partitions import (
    HighWatermarkCheckpoint,
    HostedPartitions,
)
from minikafka.server.broker.replication.isr import (
    IsrConfig,
    IsrMaintenance,
    IsrWrites,
    ZnodeIsrWrites,
)
from minikafka.server.broker.replication.leader_session import ReplicaFetcherConfig
from minikafka.server.broker.replication.leadership import Leadership
from minikafka.server.broker.replication.log_dir_failures import LogDirFailures
from minikafka.server.broker.replication.mending import ReplicaMending
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.broker.replication.partition_metrics import register_partition_metrics
from minikafka.server.broker.replication.record_appends import RecordAppends
from minikafka.server.broker.replication.record_deletion import RecordDeletion
from minikafka.server.broker.replication.throttles import ReplicationThrottles
from minikafka.server.broker.topic_metrics import TopicMetrics
from minikafka.server.storage.directories.log_manager import LogManager, ReplicaCallbacks
from minikafka.server.storage.log.unified_log import UnifiedLog
from minikafka.server.zookeeper.store import ZkStore

T = TypeVar("T")

TOPIC_CONFIG_RETRY_MS = 500


@dataclass(frozen=True, slots=True)
class ReplicaManagerConfig:
    """Kafka's keys and defaults, in milliseconds and bytes; purge intervals in requests."""

    broker_id: int
    inter_broker_listener_name: str = "PLAINTEXT"
    replica_selector_class: str | None = None
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    producer_purgatory_purge_interval_requests: int = 1_000
    fetch_purgatory_purge_interval_requests: int = 1_000
    delete_records_purgatory_purge_interval_requests: int = 1
    share_fetch_purgatory_purge_interval_requests: int = 1000
    isr: IsrConfig = field(default_factory=IsrConfig)
    fetcher: ReplicaFetcherConfig = field(default_factory=ReplicaFetcherConfig)
    quota: QuotaConfig = field(default_factory=QuotaConfig)


class ReplicaManager:
    """Creates, starts and stops the parts that replicate partitions (Kafka's ``ReplicaManager``).

    ``store`` returns the store of the current ZooKeeper session. ``broker_epoch`` returns the epoch
    of this broker's registration, which its fetches carry. ``open_channel`` connects to another
    broker. ``isr_writes`` writes the ISRs of partitions that this broker leads, otherwise than to
    ZooKeeper."""

    def __init__(
        self,
        config: ReplicaManagerConfig,
        clock: Clock,
        log_manager: LogManager,
        cluster: MetadataCache,
        topic_configs: TopicConfigCache,
        store: Callable[[], ZkStore],
        open_channel: OpenChannel,
        broker_epoch: Callable[[], int],
        metrics: Metrics,
        isr_writes: IsrWrites | None = None,
    ) -> None:
        self.config, self.topic_configs = config, topic_configs
        self._clock, self._log_manager, self._metrics = clock, log_manager, metrics
        self._live = LiveBrokers(cluster)
        self._log = event_log("replica-manager", broker=config.broker_id)
        self.hosted = hosted = HostedPartitions(cluster)
        self.topic_metrics = TopicMetrics(metrics, hosted.topics)
        self.purgatories = purgatories = _purgatories(clock, config)
        self.checkpoint = HighWatermarkCheckpoint(log_manager, hosted)
        self.isr = self._make_isr(isr_writes or ZnodeIsrWrites(store), store)
        self.throttles = ReplicationThrottles(
            config.quota, clock, hosted, log_manager.moves.quota, metrics
        )
        self.fetchers = self._make_fetchers(cluster, open_channel, broker_epoch)
        self.log_dir_failures = LogDirFailures(
            clock, hosted, purgatories, self._stop_replicating, store, config.broker_id, self._log
        )
        self.leadership = Leadership(
            clock,
            config.broker_id,
            hosted,
            purgatories,
            self.fetchers,
            self.checkpoint,
            self.log_dir_failures,
            log_manager,
            topic_configs,
            self._new_partition,
            self.disk_failed,
        )
        self.appends = self._make_appends()
        self.deletion = RecordDeletion(
            config.broker_id,
            hosted,
            purgatories,
            log_manager.starts,
            self.disk_failed,
            metrics,
        )
        self.mending = ReplicaMending(
            config.broker_id,
            clock,
            log_manager,
            hosted,
            self.fetchers,
            store,
            self.disk_failed,
            self._log,
        )
        self._background: list[asyncio.Task[None]] = []

    def _make_isr(self, writes: IsrWrites, store: Callable[[], ZkStore]) -> IsrMaintenance:
        return IsrMaintenance(
            self._clock,
            self.config.broker_id,
            self.hosted,
            self.purgatories,
            writes,
            store,
            self._metrics,
            self.config.isr,
        )

    def _make_appends(self) -> RecordAppends:
        return RecordAppends(
            self._clock,
            self.hosted,
            self.purgatories,
            self._log_manager,
            self.disk_failed,
            self._metrics,
            self.topic_metrics,
        )

    def _make_fetchers(
        self, cluster: MetadataCache, open_channel: OpenChannel, broker_epoch: Callable[[], int]
    ) -> ReplicaFetcherManager:
        logs = FollowerLogs(
            self.hosted,
            self.purgatories,
            self.disk_failed,
            self._log_manager,
            self.throttles.follower,
            self.topic_metrics,
            self._log,
        )
        return ReplicaFetcherManager(
            self._clock,
            self.config.broker_id,
            broker_epoch,
            logs,
            cluster,
            self.config.inter_broker_listener_name,
            open_channel,
            self.config.fetcher,
            self._log_manager,
        )

    # -------------------------------------------------------------------------------------- life

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Start the tasks of this room. Call this after the logs are loaded and before the first
        LeaderAndIsr."""
        self.checkpoint.read()
        self._log_manager.connect(
            ReplicaCallbacks(
                high_watermark=self.hosted.high_watermark,
                stable_offset=self.hosted.stable_offset,
                directory_failed=self.log_dir_failures.failed,
                log_replaced=self._log_replaced,
            )
        )
        self._register_gauges()
        self.appends.start(tasks)
        self.isr.start(tasks)
        self.fetchers.start(tasks)
        self._background = [
            tasks.create_task(self._checkpoint_forever(), name="highwatermark-checkpoint"),
            tasks.create_task(self.log_dir_failures.run(), name="LogDirFailureHandler"),
        ]
        if self._log_manager.scrubber.is_on:
            self._background.append(tasks.create_task(self.mending.run(), name="replica-mending"))

    async def stop(self) -> None:
        """Stop fetchers and purgatories, then checkpoint the high watermarks. Parked operations are
        not completed."""
        await self.fetchers.stop()
        await self.isr.stop()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self.purgatories.close()
        await self.checkpoint.write()

    def _register_gauges(self) -> None:
        hosted, metrics = self.hosted, self._metrics
        self._log_manager.cleaner.register(metrics)
        self._log_manager.scrubber.register(metrics)
        open_segments = self._log_manager.open_segments
        metrics.gauge(
            "minikafka.log:type=LogManager,name=OpenColdSegments", lambda: len(open_segments)
        )
        metrics.gauge(
            "minikafka.log:type=LogManager,name=SegmentsReopenedPerSec",
            lambda: open_segments.reopened,
        )
        metrics.gauge("kafka.server:type=ReplicaManager,name=PartitionCount", lambda: len(hosted))
        metrics.gauge(
            "kafka.server:type=ReplicaManager,name=LeaderCount",
            lambda: sum(p.is_leader for p in hosted),
        )
        metrics.gauge(
            "kafka.server:type=ReplicaManager,name=OfflineReplicaCount",
            lambda: hosted.offline_count,
        )
        register_partition_metrics(metrics, hosted, self.fetchers, self._clock)
        metrics.gauge(
            "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
            lambda: len(self._log_manager.directories.offline),
        )
        metrics.gauge(
            "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions",
            lambda: sum(p.is_under_replicated for p in hosted),
        )
        metrics.gauge(
            "kafka.server:type=ReplicaManager,name=UnderMinIsrPartitionCount",
            lambda: sum(p.is_under_min_isr for p in hosted),
        )

    def _new_partition(self, topic_partition: TopicPartition) -> Partition:
        return Partition(
            topic_partition,
            self.config.broker_id,
            self.config.isr.replica_lag_time_max_ms,
            self._live,
            self.isr.submit,
            self.checkpoint.moved,
        )

    async def load_topic_configs(self, topics: Sequence[str]) -> None:
        """Load the configurations of ``topics``. Retries while ZooKeeper is unreachable, since the
        controller does not repeat the LeaderAndIsr that waits for them."""
        while True:
            try:
                await self.topic_configs.load(topics)
                return
            except NoAuth:
                raise
            except CoordinationError as error:
                self._log.warning("topic_configs_read_failed", error=repr(error))
                await self._clock.sleep(TOPIC_CONFIG_RETRY_MS)

    def topic_configs_changed(self, topics: Container[str]) -> None:
        """Apply the loaded configurations of ``topics`` to their partitions. A smaller
        min.insync.replicas may move high watermarks."""
        self._configure(p for p in self.hosted if p.topic_partition.topic in topics)

    def all_topic_configs_changed(self) -> None:
        """Apply the configurations of all topics: the broker's defaults have changed."""
        self._configure(self.hosted)

    def _configure(self, partitions: Iterable[Partition]) -> None:
        now_ms = self._clock.monotonic_ms()
        advanced: list[TopicPartition] = []
        for partition in partitions:
            partition.configure(self.topic_configs.get(partition.topic_partition.topic))
            if partition.advance_high_watermark(now_ms):
                advanced.append(partition.topic_partition)
        self.purgatories.partitions_changed(advanced)

    def disk_failed(self, topic_partition: TopicPartition, error: OSError) -> bool:
        """Take the log directory of this partition offline, after a read or write of its log raised
        ``error``. False if the disk is only full: then the replica stays online."""
        self._log.error("disk_failed", partition=str(topic_partition), error=str(error))
        if not self._log_manager.storage_failed(topic_partition, error):
            return False
        if not self.hosted.is_offline(topic_partition):
            self.log_dir_failures.take_offline([topic_partition])
        return True

    def _log_replaced(self, log: UnifiedLog) -> None:
        partition = self.hosted.get(log.topic_partition)
        if partition is not None and partition.has_log:
            partition.replace_log(log)
            self.checkpoint.log_moved()

    def _stop_replicating(self, topic_partitions: Sequence[TopicPartition]) -> None:
        self.fetchers.remove(topic_partitions)
        for topic_partition in topic_partitions:
            self.checkpoint.forget(topic_partition)

    # ------------------------------------------------------------------------ high watermarks

    async def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks if any has changed, or if a disk was full."""
        checkpoint, failures = self.checkpoint, self.log_dir_failures
        write = checkpoint.write if failures.lacks_space else checkpoint.write_changes
        if await write():
            failures.found_space()

    async def _checkpoint_forever(self) -> None:
        while True:
            await self._clock.sleep(self.config.replica_high_watermark_checkpoint_interval_ms)
            await self.checkpoint_high_watermarks()

    # ------------------------------------------------------------------------------------ deletion

    async def delete_logs(
        self, topic_partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Delete the logs of stopped partitions. Returns the errors of those that failed."""
        errors: dict[TopicPartition, ErrorCode] = {}
        for topic_partition in topic_partitions:
            if self.hosted.get(topic_partition) is not None:
                continue  # a newer controller has created the replica again
            self.checkpoint.forget(topic_partition)
            try:
                await self._log_manager.delete(topic_partition)
            except OSError as error:
                self.disk_failed(topic_partition, error)
                errors[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
        return errors

    def guarded(self, topic_partition: TopicPartition, read: Callable[[], T]) -> T:
        """Return ``read()``. An OSError takes the disk offline (see ``disk_failed``) and becomes
        KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            return read()
        except OSError as error:
            self.disk_failed(topic_partition, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error


def _purgatories(clock: Clock, config: ReplicaManagerConfig) -> ReplicaPurgatories:
    return ReplicaPurgatories(
        clock,
        config.broker_id,
        config.producer_purgatory_purge_interval_requests,
        config.fetch_purgatory_purge_interval_requests,
        config.delete_records_purgatory_purge_interval_requests,
        config.share_fetch_purgatory_purge_interval_requests,
    )
