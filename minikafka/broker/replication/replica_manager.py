"""The replicas of one broker: appends, fetches, and the machinery that keeps them replicated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar
from uuid import UUID

from minikafka.broker.fetch.cold_reads import ColdReads
from minikafka.broker.fetch.delayed_fetch import DelayedFetch, FetchReply
from minikafka.broker.fetch.high_watermark_news import HighWatermarkNews
from minikafka.broker.fetch.read_replicas import PreferredReplicas
from minikafka.broker.fetch.reader import FetchEntry, FetchParams, FetchReader, Reading, ReadResult
from minikafka.broker.metadata.cache import LiveBrokers, MetadataCache
from minikafka.broker.metadata.topic_configs import TopicConfigCache
from minikafka.broker.purgatories import ParkedRequests
from minikafka.broker.replication.fetcher_manager import OpenChannel, ReplicaFetcherManager
from minikafka.broker.replication.follower_logs import FollowerLogs
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.broker.replication.isr import IsrConfig, IsrMaintenance
from minikafka.broker.replication.leader_session import ReplicaFetcherConfig
from minikafka.broker.replication.leadership import Leadership
from minikafka.broker.replication.log_dir_failures import LogDirFailures
from minikafka.broker.replication.partition import Partition
from minikafka.broker.replication.record_appends import RecordAppends
from minikafka.broker.replication.record_deletion import RecordDeletion
from minikafka.broker.replication.throttles import ReplicationThrottles
from minikafka.broker.replication.truncation_flushes import CutFlushes
from minikafka.core.replication.quota import QuotaConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock, CoordinationError
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.log.unified_log import UnifiedLog
from minikafka.zookeeper.store import ZkStore

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
    isr: IsrConfig = field(default_factory=IsrConfig)
    fetcher: ReplicaFetcherConfig = field(default_factory=ReplicaFetcherConfig)
    quota: QuotaConfig = field(default_factory=QuotaConfig)


class ReplicaManager:
    """Composes the parts and owns their tasks.

    ``append_records`` and ``fetch`` answer in the same breath or park; ``leadership`` is told by
    the controller's requests. ``open_channel`` connects to another broker. ``broker_epoch`` is the
    epoch of this broker's registration, which its fetches carry.
    """

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
    ) -> None:
        self.config, self.topic_configs = config, topic_configs
        self._clock, self._log_manager, self._metrics = clock, log_manager, metrics
        self._live = LiveBrokers(cluster)
        self._log = event_log("replica-manager", broker=config.broker_id)
        self.hosted = HostedPartitions(cluster)
        self.parked = _parked(clock, config)
        self.isr = IsrMaintenance(
            clock, config.broker_id, self.hosted, self.parked, store, metrics, config.isr
        )
        self.throttles = ReplicationThrottles(
            config.quota, clock, self.hosted, log_manager.moves.quota, metrics
        )
        self._cuts = CutFlushes(log_manager)
        throttle = self.throttles.follower
        logs = FollowerLogs(
            self.hosted, self.parked, self.disk_failed, log_manager, self._cuts, throttle, self._log
        )
        self.fetchers = ReplicaFetcherManager(
            clock,
            config.broker_id,
            broker_epoch,
            logs,
            cluster,
            config.inter_broker_listener_name,
            open_channel,
            config.fetcher,
        )
        self.leadership = Leadership(
            clock,
            config.broker_id,
            self.hosted,
            self.parked,
            self.fetchers,
            self._cuts,
            cluster,
            log_manager,
            topic_configs,
            self._new_partition,
            self.disk_failed,
        )
        write_log_starts = log_manager.write_log_starts
        self.deletion = RecordDeletion(
            config.broker_id, self.hosted, self.parked, write_log_starts, self.disk_failed, metrics
        )
        self._appends = RecordAppends(
            clock, self.hosted, self.parked, log_manager, self.disk_failed, metrics
        )
        self.append_records = self._appends.append_records
        preferred = PreferredReplicas(cluster, config.replica_selector_class)
        self._reader = FetchReader(self.hosted, preferred, self.disk_failed, self.throttles.leader)
        self._news = HighWatermarkNews(clock, self.hosted, self.parked.fetch.check_all_and_complete)
        self._cold_reads = ColdReads(self.hosted)
        self.log_dir_failures = LogDirFailures(
            clock, self.hosted, self.parked, self._forget, store, config.broker_id, self._log
        )
        self._background: list[asyncio.Task[None]] = []
        self._count(metrics)

    def _count(self, metrics: Metrics) -> None:
        counter = metrics.counter
        self._bytes_out = counter("kafka.server:BytesOutPerSec")
        self._replicated_out = counter("kafka.server:ReplicationBytesOutPerSec")
        self._fetch_expired = {
            True: counter("kafka.server:DelayedFetchFollowerExpiresPerSec"),
            False: counter("kafka.server:DelayedFetchConsumerExpiresPerSec"),
        }

    # -------------------------------------------------------------------------------------- life

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """After the logs are loaded, before the first LeaderAndIsr."""
        self._appends.start(tasks)
        self._cold_reads.start(tasks)
        self.leadership.checkpointed = self._log_manager.read_high_watermarks()
        self._log_manager.on_failure = self.log_dir_failures.failed
        self._log_manager.on_moved = self._log_moved
        self._log_manager.upkeep.high_watermark = self.hosted.high_watermark
        self._log_manager.cleaner.stable_offset = self.hosted.stable_offset
        self._register_gauges()
        self.isr.start(tasks)
        self.fetchers.start(tasks)
        self._cuts.flushed = self.fetchers.resume
        self._cuts.start(tasks)
        self._background = [
            tasks.create_task(self._checkpoint_forever(), name="highwatermark-checkpoint"),
            tasks.create_task(self.log_dir_failures.run(), name="LogDirFailureHandler"),
        ]

    async def stop(self) -> None:
        """Copy nothing, wake nobody, and leave the high watermarks on disk."""
        await self.fetchers.stop()
        await self._cuts.stop()
        await self.isr.stop()
        await self._cold_reads.stop()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self._news.close()
        self.parked.close()
        self.checkpoint_high_watermarks()

    def _register_gauges(self) -> None:
        hosted, metrics = self.hosted, self._metrics
        self._log_manager.cleaner.register(metrics)
        metrics.gauge("kafka.server:PartitionCount", lambda: len(hosted))
        metrics.gauge("kafka.server:LeaderCount", lambda: sum(p.is_leader for p in hosted))
        metrics.gauge("kafka.server:OfflineReplicaCount", lambda: hosted.offline_count)
        metrics.gauge(
            "kafka.log:OfflineLogDirectoryCount",
            lambda: len(self._log_manager.directories.offline),
        )
        metrics.gauge(
            "kafka.server:UnderReplicatedPartitions",
            lambda: sum(p.is_under_replicated for p in hosted),
        )
        metrics.gauge(
            "kafka.server:UnderMinIsrPartitionCount",
            lambda: sum(p.is_under_min_isr for p in hosted),
        )

    def _new_partition(self, topic_partition: TopicPartition) -> Partition:
        return Partition(
            topic_partition,
            self.config.broker_id,
            self.config.isr.replica_lag_time_max_ms,
            self._live,
            self.isr.submit,
        )

    async def load_topic_configs(self, topics: Sequence[str]) -> None:
        """Have the settings of ``topics`` ready. Waits for as long as ZooKeeper is away: roles that
        the controller has given are not to be lost for that."""
        while True:
            try:
                await self.topic_configs.load(topics)
                return
            except CoordinationError as error:
                self._log.warning("topic_settings_unreadable", error=repr(error))
                await self._clock.sleep(TOPIC_CONFIG_RETRY_MS)

    def topic_configs_changed(self, topics: Container[str] | None = None) -> None:
        """The settings of these (None: of all) were read anew: their partitions here take them
        over. A smaller min.insync.replicas lets high watermarks move."""
        now_ms = self._clock.monotonic_ms()
        for partition in self.hosted:
            topic_partition = partition.topic_partition
            if topics is None or topic_partition.topic in topics:
                partition.configure(self.topic_configs.get(topic_partition.topic))
                if partition.advance_high_watermark(now_ms):
                    self.parked.changed(topic_partition)

    def disk_failed(self, topic_partition: TopicPartition, error: OSError) -> bool:
        """A read or write of this partition's log failed, and with it the log directory: nothing
        of it is served any more. False when the disk is only full, and the replica stays."""
        self._log.error("disk_failed", partition=str(topic_partition), error=repr(error))
        if not self._log_manager.storage_failed(topic_partition, error):
            return False
        if not self.hosted.is_offline(topic_partition):
            self.log_dir_failures.take_offline([topic_partition])
        return True

    def _log_moved(self, log: UnifiedLog) -> None:
        partition = self.hosted.get(log.topic_partition)
        if partition is not None and partition.has_log:
            partition.replace_log(log)

    def _forget(self, topic_partitions: Sequence[TopicPartition]) -> None:
        self.fetchers.remove(topic_partitions)
        for topic_partition in topic_partitions:
            self.leadership.forget_checkpoint(topic_partition)

    # ------------------------------------------------------------------------ high watermarks

    def checkpoint_high_watermarks(self) -> None:
        """Write them all to disk. A partition not told of yet keeps the one it had there. Replicas
        that had no room are asked for again when this does find room."""
        watermarks = dict(self.leadership.checkpointed)
        for partition in self.hosted:
            if partition.has_log:
                watermarks[partition.topic_partition] = partition.high_watermark
        if self._log_manager.write_high_watermarks(watermarks) and self.leadership.lacked_space:
            self.leadership.lacked_space = False
            self.log_dir_failures.space_returned()

    async def _checkpoint_forever(self) -> None:
        while True:
            await self._clock.sleep(self.config.replica_high_watermark_checkpoint_interval_ms)
            self.checkpoint_high_watermarks()

    # -------------------------------------------------------------------------------------- fetch

    def fetch(self, params: FetchParams, entries: Sequence[FetchEntry], reply: FetchReply) -> None:
        """Read, and ``reply`` now if there is a reason to; else park until there is one.

        A follower's fetch also says how far it has come: the high watermarks that moved by it wake
        who waits for them, in this breath. What is not in the page cache is read off the loop
        first."""
        self._fetch(params, entries, reply, [])

    def _fetch(
        self,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        reply: FetchReply,
        cold: list[FetchEntry] | None,
    ) -> None:
        reading = self._reader.read(params, entries, self._clock.monotonic_ms(), cold)
        if cold:
            self._moved(reading)
            proceed = partial(self._fetch, params, entries, reply, None)
            self._cold_reads.then(params, cold, proceed)
            return
        size = 0
        reason = params.max_wait_ms <= 0 or not entries
        for result in reading.news:
            size += len(result.records)
            if result.is_urgent:
                reason = True
        operation: DelayedFetch | None = None
        if not reason and size < params.min_bytes:
            # Before others are woken: what they read may end in a failed disk, and then this one,
            # which knows the partitions as they were, is answered with that.
            counted = self._counting(params, reply)
            operation = DelayedFetch(
                params, entries, self.hosted, self._reader, counted, self._expired
            )
        self._moved(reading)
        if operation is None:
            self._count_out(params, reading.results, size)
            if reading.untold:
                self._told(params, reading.untold)
            reply(reading.results)
            return
        if reading.untold:
            self._news.add(reading.untold)
        self.parked.fetch.try_complete_else_watch(
            operation, [entry.topic_partition for entry in entries]
        )

    def _told(self, params: FetchParams, untold: Sequence[TopicPartition]) -> None:
        for topic_partition in untold:
            partition = self.hosted.get(topic_partition)
            if partition is not None:
                partition.answers.told[params.replica_id] = partition.high_watermark

    def _moved(self, reading: Reading) -> None:
        """A follower's first fetch tells of every log start: only deletions wait for that. Parked
        fetches look at all that they wait for, which may be thousands of partitions."""
        for topic_partition in reading.advanced:
            self.parked.changed(topic_partition)
        if reading.advanced:
            self._news.add(reading.advanced)
        for topic_partition in reading.lowered:
            self.parked.low_watermark_changed(topic_partition)

    def _counting(self, params: FetchParams, reply: FetchReply) -> FetchReply:
        def counted(results: Sequence[ReadResult]) -> None:
            self._count_out(params, results, sum(len(result.records) for result in results))
            reply(results)

        return counted

    def _count_out(self, params: FetchParams, results: Sequence[ReadResult], size: int) -> None:
        if not params.is_from_follower:
            self._bytes_out.mark(size)
            return
        self._replicated_out.mark(size)
        if self.throttles.leader.quota.limited:
            for result in results:
                self.throttles.leader.sent(result.topic_partition, len(result.records))

    def _expired(self, params: FetchParams) -> None:
        self._fetch_expired[params.is_from_follower].mark()

    # ------------------------------------------------------------------------------------ deletion

    async def delete_logs(
        self, topic_partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Delete the logs of stopped partitions; the errors, where there were any."""
        errors: dict[TopicPartition, ErrorCode] = {}
        for topic_partition in topic_partitions:
            if self.hosted.get(topic_partition) is not None:
                continue  # a new controller wants it here again
            self.leadership.forget_checkpoint(topic_partition)
            try:
                await self._log_manager.delete(topic_partition)
            except OSError as error:
                self.disk_failed(topic_partition, error)
                errors[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
        return errors

    def guarded(self, topic_partition: TopicPartition, read: Callable[[], T]) -> T:
        """``read()``; a failing disk becomes KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            return read()
        except OSError as error:
            self.disk_failed(topic_partition, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error

    def topic_name(self, topic_id: UUID) -> str | None:
        return self.hosted.topic_name(topic_id)


def _parked(clock: Clock, config: ReplicaManagerConfig) -> ParkedRequests:
    return ParkedRequests(
        clock,
        config.broker_id,
        config.producer_purgatory_purge_interval_requests,
        config.fetch_purgatory_purge_interval_requests,
        config.delete_records_purgatory_purge_interval_requests,
    )
