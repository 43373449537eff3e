"""The small frozen views of a broker's configuration, one for each part of the node."""

from __future__ import annotations

from minikafka.broker.admin.auto_topic_creation import (
    OFFSETS_TOPIC_CONFIG,
    TRANSACTION_TOPIC_CONFIG,
    AutoTopicCreationConfig,
    TopicShape,
)
from minikafka.broker.admin.topics import TopicAdminConfig
from minikafka.broker.controlled_shutdown import ControlledShutdownConfig
from minikafka.broker.metadata.topic_configs import topic_config
from minikafka.broker.node_to_controller import NodeToControllerConfig
from minikafka.broker.replication.isr import IsrConfig
from minikafka.broker.replication.leader_session import ReplicaFetcherConfig
from minikafka.broker.replication.replica_manager import ReplicaManagerConfig
from minikafka.controller.config import ControllerConfig
from minikafka.coordinator.config import GroupCoordinatorConfig, TransactionCoordinatorConfig
from minikafka.core.group.config import GroupConfig
from minikafka.core.replication.quota import QuotaConfig
from minikafka.core.transaction.config import TransactionConfig
from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from minikafka.kernel.config import Config
from minikafka.kernel.settings import topic_defaults
from minikafka.network.server import ServerConfig
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.releases import Release
from minikafka.storage.cleaner.log_cleaner import LogCleanerConfig
from minikafka.storage.directories.log_manager import LogManagerConfig
from minikafka.zookeeper.session import ZkSessionConfig


def release(config: Config) -> Release:
    return Release.of(config.string("inter.broker.protocol.version"))


def zookeeper(config: Config) -> ZkSessionConfig:
    return ZkSessionConfig(
        config.string("zookeeper.connect"),
        config.integer("zookeeper.session.timeout.ms"),
        config.optional("zookeeper.connection.timeout.ms"),
    )


def server(config: Config) -> ServerConfig:
    return ServerConfig(
        socket_request_max_bytes=config.integer("socket.request.max.bytes"),
        max_connections=config.integer("max.connections"),
        connections_max_idle_ms=config.integer("connections.max.idle.ms"),
        queued_max_requests=config.integer("queued.max.requests"),
    )


def log_dirs(config: Config) -> tuple[str, ...]:
    dirs = config.optional("log.dirs") or (config.string("log.dir"),)
    return tuple(dirs)


def log_manager(config: Config) -> LogManagerConfig:
    return LogManagerConfig(
        log_dirs=log_dirs(config),
        num_recovery_threads_per_data_dir=config.integer("num.recovery.threads.per.data.dir"),
        num_replica_alter_log_dirs_threads=config.optional("num.replica.alter.log.dirs.threads"),
        log_initial_task_delay_ms=config.integer("log.initial.task.delay.ms"),
        log_retention_check_interval_ms=config.integer("log.retention.check.interval.ms"),
        log_flush_scheduler_interval_ms=config.integer("log.flush.scheduler.interval.ms"),
        log_flush_start_offset_checkpoint_interval_ms=config.integer(
            "log.flush.start.offset.checkpoint.interval.ms"
        ),
        log_flush_offset_checkpoint_interval_ms=config.integer(
            "log.flush.offset.checkpoint.interval.ms"
        ),
        file_delete_delay_ms=config.integer("log.segment.delete.delay.ms"),
        producer_id_expiration_ms=config.integer("producer.id.expiration.ms"),
        producer_id_expiration_check_interval_ms=config.integer(
            "producer.id.expiration.check.interval.ms"
        ),
        log=topic_config(topic_defaults(config)).log,
        cleaner=log_cleaner(config),
        moves_quota=QuotaConfig(
            window_num=config.integer("alter.log.dirs.replication.quota.window.num"),
            window_size_seconds=config.integer(
                "alter.log.dirs.replication.quota.window.size.seconds"
            ),
        ),
    )


def log_cleaner(config: Config) -> LogCleanerConfig:
    return LogCleanerConfig(
        enable=config.boolean("log.cleaner.enable"),
        threads=config.integer("log.cleaner.threads"),
        dedupe_buffer_size=config.integer("log.cleaner.dedupe.buffer.size"),
        io_buffer_size=config.integer("log.cleaner.io.buffer.size"),
        io_buffer_load_factor=config.double("log.cleaner.io.buffer.load.factor"),
        io_max_bytes_per_second=config.double("log.cleaner.io.max.bytes.per.second"),
        backoff_ms=config.integer("log.cleaner.backoff.ms"),
    )


def replica_manager(config: Config, broker_id: int, listener: str) -> ReplicaManagerConfig:
    return ReplicaManagerConfig(
        broker_id=broker_id,
        inter_broker_listener_name=listener,
        replica_selector_class=config.optional("replica.selector.class"),
        replica_high_watermark_checkpoint_interval_ms=config.integer(
            "replica.high.watermark.checkpoint.interval.ms"
        ),
        producer_purgatory_purge_interval_requests=config.integer(
            "producer.purgatory.purge.interval.requests"
        ),
        fetch_purgatory_purge_interval_requests=config.integer(
            "fetch.purgatory.purge.interval.requests"
        ),
        delete_records_purgatory_purge_interval_requests=config.integer(
            "delete.records.purgatory.purge.interval.requests"
        ),
        isr=IsrConfig(replica_lag_time_max_ms=config.integer("replica.lag.time.max.ms")),
        fetcher=ReplicaFetcherConfig(
            replica_fetch_wait_max_ms=config.integer("replica.fetch.wait.max.ms"),
            replica_fetch_min_bytes=config.integer("replica.fetch.min.bytes"),
            replica_fetch_max_bytes=config.integer("replica.fetch.max.bytes"),
            replica_fetch_response_max_bytes=config.integer("replica.fetch.response.max.bytes"),
            replica_fetch_backoff_ms=config.integer("replica.fetch.backoff.ms"),
            replica_socket_timeout_ms=config.integer("replica.socket.timeout.ms"),
            num_replica_fetchers=config.integer("num.replica.fetchers"),
            release=release(config),
        ),
        quota=QuotaConfig(
            window_num=config.integer("replication.quota.window.num"),
            window_size_seconds=config.integer("replication.quota.window.size.seconds"),
        ),
    )


def controller(config: Config, broker_id: int, listener: str) -> ControllerConfig:
    return ControllerConfig(
        broker_id=broker_id,
        inter_broker_listener_name=listener,
        delete_topic_enable=config.boolean("delete.topic.enable"),
        unclean_leader_election_enable=config.boolean("unclean.leader.election.enable"),
        auto_leader_rebalance_enable=config.boolean("auto.leader.rebalance.enable"),
        leader_imbalance_per_broker_percentage=config.integer(
            "leader.imbalance.per.broker.percentage"
        ),
        leader_imbalance_check_interval_seconds=config.integer(
            "leader.imbalance.check.interval.seconds"
        ),
        controller_socket_timeout_ms=config.integer("controller.socket.timeout.ms"),
        release=release(config),
        zookeeper_session_timeout_ms=config.integer("zookeeper.session.timeout.ms"),
        internal_replication_factors={
            GROUP_METADATA_TOPIC: config.integer("offsets.topic.replication.factor"),
            TRANSACTION_STATE_TOPIC: config.integer("transaction.state.log.replication.factor"),
        },
    )


def to_controller(config: Config, listener: str) -> NodeToControllerConfig:
    return NodeToControllerConfig(
        inter_broker_listener=listener,
        controller_socket_timeout_ms=config.integer("controller.socket.timeout.ms"),
    )


def topic_admin(config: Config) -> TopicAdminConfig:
    return TopicAdminConfig(
        num_partitions=config.integer("num.partitions"),
        default_replication_factor=config.integer("default.replication.factor"),
    )


def auto_topic_creation(config: Config) -> AutoTopicCreationConfig:
    segment_bytes = config.integer("offsets.topic.segment.bytes")
    return AutoTopicCreationConfig(
        auto_create_topics_enable=config.boolean("auto.create.topics.enable"),
        release=release(config),
        offsets_topic=TopicShape(
            config.integer("offsets.topic.num.partitions"),
            config.integer("offsets.topic.replication.factor"),
            {**OFFSETS_TOPIC_CONFIG, "segment.bytes": str(segment_bytes)},
        ),
        transaction_topic=TopicShape(
            config.integer("transaction.state.log.num.partitions"),
            config.integer("transaction.state.log.replication.factor"),
            {
                **TRANSACTION_TOPIC_CONFIG,
                "min.insync.replicas": str(config.integer("transaction.state.log.min.isr")),
                "segment.bytes": str(config.integer("transaction.state.log.segment.bytes")),
            },
        ),
    )


def group_coordinator(config: Config) -> GroupCoordinatorConfig:
    return GroupCoordinatorConfig(
        group=GroupConfig(
            group_min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
            group_max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
            group_initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
            group_max_size=config.integer("group.max.size"),
            offset_metadata_max_bytes=config.integer("offset.metadata.max.bytes"),
            offsets_retention_ms=config.integer("offsets.retention.minutes") * 60_000,
        ),
        compression=Compression(config.integer("offsets.topic.compression.codec")),
        offsets_load_buffer_size=config.integer("offsets.load.buffer.size"),
        offsets_retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
    )


def transaction_coordinator(config: Config) -> TransactionCoordinatorConfig:
    return TransactionCoordinatorConfig(
        transaction=TransactionConfig(
            transaction_max_timeout_ms=config.integer("transaction.max.timeout.ms"),
            transactional_id_expiration_ms=config.integer("transactional.id.expiration.ms"),
        ),
        load_buffer_size=config.integer("transaction.state.log.load.buffer.size"),
        abort_timed_out_interval_ms=config.integer(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        ),
        remove_expired_interval_ms=config.integer(
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ),
    )


def controlled_shutdown(config: Config, listener: str) -> ControlledShutdownConfig:
    return ControlledShutdownConfig(
        enable=config.boolean("controlled.shutdown.enable"),
        max_retries=config.integer("controlled.shutdown.max.retries"),
        retry_backoff_ms=config.integer("controlled.shutdown.retry.backoff.ms"),
        controller_socket_timeout_ms=config.integer("controller.socket.timeout.ms"),
        inter_broker_listener=listener,
        release=release(config),
    )
