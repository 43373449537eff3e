"""The replicas of one broker: appends, fetches, and the machinery that keeps them replicated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from minikafka.broker.cluster_view import ClusterView, LiveBrokers
from minikafka.broker.delayed_fetch import DelayedFetch, FetchReply
from minikafka.broker.delayed_produce import NO_APPEND, AppendReply, AppendResult, DelayedProduce
from minikafka.broker.fetch_reader import FetchEntry, FetchParams, FetchReader, ReadResult
from minikafka.broker.follower_logs import FollowerLogs
from minikafka.broker.hosted_partitions import HostedPartitions
from minikafka.broker.isr_maintenance import IsrConfig, IsrMaintenance, IsrStore
from minikafka.broker.leadership import Leadership
from minikafka.broker.parked import ParkedRequests
from minikafka.broker.partition import Partition
from minikafka.broker.record_deletion import RecordDeletion
from minikafka.broker.replica_fetcher import ReplicaFetcherConfig
from minikafka.broker.replica_fetcher_manager import OpenChannel, ReplicaFetcherManager
from minikafka.broker.topic_config import TopicConfigs
from minikafka.core.log.append import AppendOrigin
from minikafka.kernel.cluster import INTERNAL_TOPICS, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Buffer, Clock, CoordinationError
from minikafka.storage.log_manager import LogManager

T = TypeVar("T")

TOPIC_CONFIG_RETRY_MS = 500


@dataclass(frozen=True, slots=True)
class ReplicaManagerConfig:
    """Kafka's keys and defaults, in milliseconds and bytes; purge intervals in requests."""

    broker_id: int
    inter_broker_listener_name: str = "PLAINTEXT"
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    producer_purgatory_purge_interval_requests: int = 1_000
    fetch_purgatory_purge_interval_requests: int = 1_000
    delete_records_purgatory_purge_interval_requests: int = 1
    isr: IsrConfig = field(default_factory=IsrConfig)
    fetcher: ReplicaFetcherConfig = field(default_factory=ReplicaFetcherConfig)


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
        cluster: ClusterView,
        topic_configs: TopicConfigs,
        isr_store: IsrStore,
        open_channel: OpenChannel,
        broker_epoch: Callable[[], int],
        metrics: Metrics,
    ) -> None:
        self.config = config
        self.topic_configs = topic_configs
        self._clock = clock
        self._log_manager = log_manager
        self._metrics = metrics
        self._live = LiveBrokers(cluster)
        self._log = event_log("replica-manager", broker=config.broker_id)
        self.hosted = HostedPartitions(cluster)
        self.parked = ParkedRequests(
            clock,
            config.broker_id,
            config.producer_purgatory_purge_interval_requests,
            config.fetch_purgatory_purge_interval_requests,
            config.delete_records_purgatory_purge_interval_requests,
        )
        self.isr = IsrMaintenance(
            clock, config.broker_id, self.hosted, self.parked, isr_store, metrics, config.isr
        )
        self.fetchers = ReplicaFetcherManager(
            clock,
            config.broker_id,
            broker_epoch,
            FollowerLogs(
                self.hosted,
                self.parked,
                self.disk_failed,
                log_manager.write_log_starts,
                self._log,
            ),
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
            cluster,
            log_manager,
            topic_configs,
            self._new_partition,
            self.disk_failed,
        )
        self.deletion = RecordDeletion(
            config.broker_id,
            self.hosted,
            self.parked,
            log_manager.write_log_starts,
            self.disk_failed,
            metrics,
        )
        self._reader = FetchReader(self.hosted, self.disk_failed)
        self._checkpointing: asyncio.Task[None] | None = None
        self._messages_in = metrics.counter("kafka.server:MessagesInPerSec")
        self._bytes_in = metrics.counter("kafka.server:BytesInPerSec")
        self._bytes_out = metrics.counter("kafka.server:BytesOutPerSec")
        self._replicated_out = metrics.counter("kafka.server:ReplicationBytesOutPerSec")
        self._produce_expired = metrics.counter("kafka.server:DelayedProduceExpiresPerSec")
        self._fetch_expired = {
            True: metrics.counter("kafka.server:DelayedFetchFollowerExpiresPerSec"),
            False: metrics.counter("kafka.server:DelayedFetchConsumerExpiresPerSec"),
        }

    # -------------------------------------------------------------------------------------- life

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """After the logs are loaded, before the first LeaderAndIsr."""
        self.leadership.checkpointed = self._log_manager.read_high_watermarks()
        self._register_gauges()
        self.isr.start(tasks)
        self.fetchers.start(tasks)
        self._checkpointing = tasks.create_task(
            self._checkpoint_forever(), name="highwatermark-checkpoint"
        )

    async def stop(self) -> None:
        """Copy nothing, wake nobody, and leave the high watermarks on disk."""
        await self.fetchers.stop()
        await self.isr.stop()
        if self._checkpointing is not None:
            self._checkpointing.cancel()
            await asyncio.gather(self._checkpointing, return_exceptions=True)
        self.parked.close()
        self.checkpoint_high_watermarks()

    def _register_gauges(self) -> None:
        hosted, metrics = self.hosted, self._metrics
        metrics.gauge("kafka.server:PartitionCount", lambda: len(hosted))
        metrics.gauge("kafka.server:LeaderCount", lambda: sum(p.is_leader for p in hosted))
        metrics.gauge("kafka.server:OfflineReplicaCount", lambda: hosted.offline_count)
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

    def topic_config_changed(self, topic: str) -> None:
        """The settings of ``topic`` were read anew: its partitions here take them over."""
        config = self.topic_configs.get(topic)
        for partition in self.hosted:
            if partition.topic_partition.topic == topic:
                partition.configure(config)

    def disk_failed(self, topic_partition: TopicPartition, error: OSError) -> None:
        """A read or write of this partition's log failed: serve nothing of it any more."""
        self._log.error("disk_failed", partition=str(topic_partition), error=repr(error))
        self.fetchers.remove([topic_partition])
        self.hosted.mark_offline(topic_partition)
        self.parked.changed(topic_partition)

    # ------------------------------------------------------------------------ high watermarks

    def checkpoint_high_watermarks(self) -> None:
        """Write them all to disk. A partition not told of yet keeps the one it had there."""
        watermarks = dict(self.leadership.checkpointed)
        for partition in self.hosted:
            if partition.has_log:
                assert partition.high_watermark <= partition.log.log_end_offset
                watermarks[partition.topic_partition] = partition.high_watermark
        try:
            self._log_manager.write_high_watermarks(watermarks)
        except OSError as error:
            # The old ones stay: after a crash, followers start from further back, and no worse.
            self._log.error("high_watermark_checkpoint_failed", error=repr(error))

    async def _checkpoint_forever(self) -> None:
        while True:
            await self._clock.sleep(self.config.replica_high_watermark_checkpoint_interval_ms)
            self.checkpoint_high_watermarks()

    # ------------------------------------------------------------------------------------ produce

    def append_records(
        self,
        entries: Sequence[tuple[TopicPartition, Buffer]],
        acks: int,
        timeout_ms: int,
        reply: AppendReply,
        internal_topics_allowed: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> None:
        """Append to each partition, and ``reply`` with one result for each, in their order.

        With acks=-1 the reply waits for the in-sync replicas of every partition appended to, up to
        ``timeout_ms``; if none was appended to, or with acks 0 and 1, it comes in the same breath.
        """
        if acks not in (-1, 0, 1):
            reply([AppendResult(tp, ErrorCode.INVALID_REQUIRED_ACKS) for tp, _ in entries])
            return
        results: list[AppendResult] = []
        advanced: list[TopicPartition] = []
        appended: list[TopicPartition] = []
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        for topic_partition, records in entries:
            if topic_partition.topic in INTERNAL_TOPICS and not internal_topics_allowed:
                results.append(AppendResult(topic_partition, ErrorCode.INVALID_TOPIC_EXCEPTION))
                continue
            try:
                partition = self.hosted.require(topic_partition)
                info, moved = partition.append_as_leader(records, acks, wall_ms, now_ms, origin)
            except KafkaError as error:
                results.append(self._append_error(topic_partition, error))
                continue
            except OSError as error:
                self.disk_failed(topic_partition, error)
                results.append(AppendResult(topic_partition, ErrorCode.KAFKA_STORAGE_ERROR))
                continue
            (advanced if moved else appended).append(topic_partition)
            results.append(AppendResult(topic_partition, ErrorCode.NONE, info))
            self._messages_in.mark(info.last_offset - info.first_offset + 1)
            self._bytes_in.mark(len(records))
        for topic_partition in advanced:
            self.parked.changed(topic_partition)
        for topic_partition in appended:
            self.parked.appended(topic_partition)
        if acks == -1 and (advanced or appended):
            operation = DelayedProduce(
                timeout_ms, results, self.hosted, reply, self._produce_expired.mark
            )
            self.parked.produce.try_complete_else_watch(operation, advanced + appended)
        else:
            reply(results)

    def _append_error(self, topic_partition: TopicPartition, error: KafkaError) -> AppendResult:
        """With the log start offset, by which a producer that is out of sequence sees whether its
        past was deleted."""
        partition = self.hosted.get(topic_partition)
        info = NO_APPEND
        if partition is not None and partition.is_leader:
            info = info._replace(log_start_offset=partition.log.log_start_offset)
        return AppendResult(topic_partition, error.code, info, error.message)

    # -------------------------------------------------------------------------------------- fetch

    def fetch(self, params: FetchParams, entries: Sequence[FetchEntry], reply: FetchReply) -> None:
        """Read, and ``reply`` now if there is a reason to; else park until there is one.

        A follower's fetch also says how far it has come: the high watermarks that moved by it wake
        who waits for them, in this breath."""
        results, advanced = self._reader.read(params, entries, self._clock.monotonic_ms())
        for topic_partition in advanced:
            self.parked.changed(topic_partition)
        size = 0
        reason = params.max_wait_ms <= 0 or not entries
        for result in results:
            size += len(result.records)
            if result.error is not ErrorCode.NONE or result.diverging is not None:
                reason = True
        if reason or size >= params.min_bytes:
            self._count_out(params, size)
            reply(results)
            return
        operation = DelayedFetch(
            params, entries, self.hosted, self._reader, self._counting(params, reply), self._expired
        )
        self.parked.fetch.try_complete_else_watch(
            operation, [entry.topic_partition for entry in entries]
        )

    def _counting(self, params: FetchParams, reply: FetchReply) -> FetchReply:
        def counted(results: Sequence[ReadResult]) -> None:
            self._count_out(params, sum(len(result.records) for result in results))
            reply(results)

        return counted

    def _count_out(self, params: FetchParams, size: int) -> None:
        (self._replicated_out if params.is_from_follower else self._bytes_out).mark(size)

    def _expired(self, params: FetchParams) -> None:
        self._fetch_expired[params.is_from_follower].mark()

    # ------------------------------------------------------------------------------------ deletion

    async def delete_logs(
        self, topic_partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Delete the logs of stopped partitions; the errors, where there were any."""
        errors: dict[TopicPartition, ErrorCode] = {}
        for topic_partition in topic_partitions:
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
