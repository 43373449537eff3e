"""The configurations of the parts of a node, each a view of the broker's configuration."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.core.client_quota import RateConfig
from minikafka.core.group.consumer.assignors import ASSIGNORS
from minikafka.core.group.consumer.config import ConsumerGroupConfig, MigrationPolicy
from minikafka.core.group.group import GroupConfig
from minikafka.core.group.share.assignor import ASSIGNOR_NAME
from minikafka.core.group.share.config import ShareGroupConfig
from minikafka.core.group.streams.config import StreamsGroupConfig
from minikafka.core.replication.quota import QuotaConfig
from minikafka.core.security.delegation_tokens import TokenSettings
from minikafka.core.share.settings import ShareGroupSettings
from minikafka.core.share.state_shard import ShareStateConfig
from minikafka.core.stall_meter import StallMeterConfig
from minikafka.core.transaction.shard import TransactionConfig
from minikafka.kernel.cluster import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from minikafka.kernel.config import Config, ConfigError, view_of
from minikafka.kernel.features import Levels
from minikafka.kernel.features import supported_features as supported_by
from minikafka.kernel.inter_broker_protocol import InterBrokerProtocol
from minikafka.kernel.listeners import bound_names, connection_overrides, is_address
from minikafka.kernel.ports import Network
from minikafka.kernel.settings import topic_defaults
from minikafka.kernel.zookeeper_security import UNSECURED, CoordinationSecurity
from minikafka.protocol.api_keys import Release
from minikafka.protocol.records.compression import Compression
from minikafka.server.broker.admin.auto_topic_creation import (
    OFFSETS_TOPIC_CONFIG,
    SHARE_TOPIC_CONFIG,
    TRANSACTION_TOPIC_CONFIG,
    AutoTopicCreationConfig,
    TopicShape,
)
from minikafka.server.broker.admin.topics import TopicAdminConfig
from minikafka.server.broker.controlled_shutdown import ControlledShutdownConfig
from minikafka.server.broker.metadata.topic_configs import topic_config
from minikafka.server.broker.node_to_controller import NodeToControllerConfig
from minikafka.server.broker.replication.isr import IsrConfig
from minikafka.server.broker.replication.leader_session import ReplicaFetcherConfig
from minikafka.server.broker.replication.replica_manager import ReplicaManagerConfig
from minikafka.server.broker.replication.transaction_verification import AdditionRetry
from minikafka.server.controller.config import ControllerConfig
from minikafka.server.coordinator.config import (
    GroupCoordinatorConfig,
    ShareCoordinatorConfig,
    TransactionCoordinatorConfig,
)
from minikafka.server.listeners.connection_quotas import (
    RESERVED_SHARE,
    ConnectionQuotaConfig,
    ListenerLimits,
)
from minikafka.server.listeners.listener_resources import ServerConfig
from minikafka.server.listeners.memory_budget import MemoryBudget
from minikafka.server.storage.directories.log_manager import LogManagerConfig
from minikafka.server.storage.log_cleaner import LogCleanerConfig
from minikafka.server.storage.scrubber import LogScrubberConfig
from minikafka.server.zookeeper.session import ZkSessionConfig

CONNECTION_OVERRIDES = "max.connections.per.ip.overrides"


def release(config: Config) -> Release:
    return Release.of(config.string("inter.broker.protocol.version"))


def inter_broker_protocol(config: Config) -> InterBrokerProtocol:
    return InterBrokerProtocol.parse(config.string("inter.broker.protocol.version"))


def supported_features(config: Config) -> Mapping[str, Levels]:
    """Return the features of this broker; none before inter-broker protocol 2.7 (KIP-584)."""
    if not inter_broker_protocol(config).has_features:
        return {}
    return supported_by(config.values["group.coordinator.rebalance.protocols"])


def zookeeper(config: Config, security: CoordinationSecurity = UNSECURED) -> ZkSessionConfig:
    return ZkSessionConfig(
        config.string("zookeeper.connect"),
        config.integer("zookeeper.session.timeout.ms"),
        config.optional("zookeeper.connection.timeout.ms"),
        security,
    )


def server(config: Config) -> ServerConfig:
    return ServerConfig(
        socket_request_max_bytes=config.integer("socket.request.max.bytes"),
        connections_max_idle_ms=config.integer("connections.max.idle.ms"),
        queued_max_requests=config.integer("queued.max.requests"),
    )


def memory_budget(config: Config) -> MemoryBudget:
    """Return the limits of what clients make a broker hold. Raises ConfigError if the largest
    request would not fit."""
    limit = config.integer("queued.max.request.bytes")
    if 0 < limit < config.integer("socket.request.max.bytes"):
        raise ConfigError(
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
        )
    return MemoryBudget(config.integer("client.memory.max.bytes"), limit)


async def connection_quotas(config: Config, network: Network) -> ConnectionQuotaConfig:
    """Resolve the host names of the overrides. Raises ConfigError for an unknown host."""
    overrides: dict[str, int] = {}
    for host, limit in connection_overrides(config.string(CONNECTION_OVERRIDES)).items():
        try:
            addresses = [host] if is_address(host) else await network.addresses(host)
        except OSError as error:
            raise ConfigError(
                f"{CONNECTION_OVERRIDES}: host {host} is unknown: {error.strerror or error}"
            ) from error
        overrides |= dict.fromkeys(addresses, limit)
    names = bound_names(config)
    return view_of(
        ConnectionQuotaConfig,
        config.values,
        max_connections_per_ip_overrides=overrides,
        listeners={
            name: view_of(ListenerLimits, config.of_listener(name).values) for name in names
        },
    )


def quota_rates(config: Config) -> RateConfig:
    """Return the windows of the quotas of clients, and of the rates of new connections."""
    return view_of(RateConfig, config.values, "quota.")


def controller_quota_rates(config: Config) -> RateConfig:
    """Return the windows of ``controller_mutation_rate``."""
    return view_of(RateConfig, config.values, "controller.quota.")


def delegation_tokens(config: Config) -> TokenSettings:
    """As in Kafka, the newer name of the key counts if it is there, also without a value."""
    key = config.optional("delegation.token.secret.key")
    if key is None:
        key = config.optional("delegation.token.master.key")
    return TokenSettings(
        key or "",
        config.integer("delegation.token.max.lifetime.ms"),
        config.integer("delegation.token.expiry.time.ms"),
        config.integer("delegation.token.expiry.check.interval.ms"),
    )


def stall_meter(config: Config) -> StallMeterConfig:
    return StallMeterConfig(config.integer("event.loop.stall.threshold.ms"))


def log_dirs(config: Config) -> tuple[str, ...]:
    dirs = config.optional("log.dirs") or (config.string("log.dir"),)
    return tuple(dirs)


def log_manager(config: Config, descriptors: int) -> LogManagerConfig:
    """``descriptors`` is how many the process may open. Cold segments take half of those that no
    connection takes (``listeners/connection_quotas``); the rest is for active segments, indexes and
    the copies of threads."""
    return view_of(
        LogManagerConfig,
        config.values,
        max_open_cold_segments=descriptors // RESERVED_SHARE // 2,
        log_dirs=log_dirs(config),
        file_delete_delay_ms=config.integer("log.segment.delete.delay.ms"),
        log=topic_config(topic_defaults(config)).log,
        cleaner=log_cleaner(config),
        scrubber=view_of(LogScrubberConfig, config.values, "log.scrubber."),
        moves_quota=_quota(config, "alter.log.dirs.replication.quota."),
    )


def _quota(config: Config, prefix: str) -> QuotaConfig:
    return view_of(QuotaConfig, config.values, prefix)


def log_cleaner(config: Config) -> LogCleanerConfig:
    return view_of(LogCleanerConfig, config.values, "log.cleaner.")


def replica_manager(config: Config, broker_id: int, listener: str) -> ReplicaManagerConfig:
    return view_of(
        ReplicaManagerConfig,
        config.values,
        broker_id=broker_id,
        inter_broker_listener_name=listener,
        isr=IsrConfig(replica_lag_time_max_ms=config.integer("replica.lag.time.max.ms")),
        fetcher=view_of(
            ReplicaFetcherConfig, config.values, inter_broker_protocol=inter_broker_protocol(config)
        ),
        quota=_quota(config, "replication.quota."),
    )


def controller(
    config: Config, broker_id: int, listener: str, control_plane: str | None = None
) -> ControllerConfig:
    return view_of(
        ControllerConfig,
        config.values,
        broker_id=broker_id,
        inter_broker_listener_name=listener,
        control_plane_listener_name=control_plane,
        inter_broker_protocol=inter_broker_protocol(config),
        supported_features=supported_features(config),
        internal_replication_factors={
            GROUP_METADATA_TOPIC: config.integer("offsets.topic.replication.factor"),
            TRANSACTION_STATE_TOPIC: config.integer("transaction.state.log.replication.factor"),
            SHARE_GROUP_STATE_TOPIC: config.integer(
                "share.coordinator.state.topic.replication.factor"
            ),
        },
    )


def to_controller(config: Config, listener: str) -> NodeToControllerConfig:
    return NodeToControllerConfig(
        inter_broker_listener=listener,
        controller_socket_timeout_ms=config.integer("controller.socket.timeout.ms"),
    )


def topic_admin(config: Config) -> TopicAdminConfig:
    return view_of(
        TopicAdminConfig, config.values, inter_broker_protocol=inter_broker_protocol(config)
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
        share_topic=TopicShape(
            config.integer("share.coordinator.state.topic.num.partitions"),
            config.integer("share.coordinator.state.topic.replication.factor"),
            {
                **SHARE_TOPIC_CONFIG,
                "min.insync.replicas": str(config.integer("share.coordinator.state.topic.min.isr")),
                "segment.bytes": str(config.integer("share.coordinator.state.topic.segment.bytes")),
            },
        ),
    )


def group_coordinator(config: Config) -> GroupCoordinatorConfig:
    return GroupCoordinatorConfig(
        group=view_of(
            GroupConfig,
            config.values,
            inter_broker_protocol=inter_broker_protocol(config),
            offsets_retention_ms=config.integer("offsets.retention.minutes") * 60_000,
            consumer=ConsumerGroupConfig(
                session_timeout_ms=config.integer("group.consumer.session.timeout.ms"),
                heartbeat_interval_ms=config.integer("group.consumer.heartbeat.interval.ms"),
                max_size=config.integer("group.consumer.max.size"),
                assignors=_assignors(config),
                migration=MigrationPolicy(config.string("group.consumer.migration.policy")),
            ),
            share=_share_groups(config),
            streams=StreamsGroupConfig(
                session_timeout_ms=config.integer("group.streams.session.timeout.ms"),
                heartbeat_interval_ms=config.integer("group.streams.heartbeat.interval.ms"),
                max_size=config.integer("group.streams.max.size"),
                standby_replicas=config.integer("group.streams.num.standby.replicas"),
                initial_rebalance_delay_ms=config.integer(
                    "group.streams.initial.rebalance.delay.ms"
                ),
            ),
        ),
        compression=Compression(config.integer("offsets.topic.compression.codec")),
        offsets_load_buffer_size=config.integer("offsets.load.buffer.size"),
        offsets_retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
    )


def _share_groups(config: Config) -> ShareGroupConfig:
    """Raises ConfigError for an assignor that is not known."""
    key = "group.share.assignors"
    names = config.list(key)
    if len(names) != 1 or names[0].rpartition(".")[2] not in (ASSIGNOR_NAME, "SimpleAssignor"):
        raise ConfigError(f"{key} must name one assignor; the only one is {ASSIGNOR_NAME}")
    return ShareGroupConfig(
        session_timeout_ms=config.integer("group.share.session.timeout.ms"),
        heartbeat_interval_ms=config.integer("group.share.heartbeat.interval.ms"),
        max_size=config.integer("group.share.max.size"),
        initialize_retry_interval_ms=max(
            config.integer("group.share.initialize.retry.interval.ms"),
            config.integer("offsets.commit.timeout.ms"),
        ),
    )


def _assignors(config: Config) -> tuple[str, ...]:
    """Return the names of the assignors of consumer groups. Their Java classes are known, too.

    Raises ConfigError."""
    key = "group.consumer.assignors"
    names: list[str] = []
    for text in config.list(key):
        name = text.rpartition(".")[2].removesuffix("Assignor").lower()
        if name not in ASSIGNORS:
            known = ", ".join(ASSIGNORS)
            raise ConfigError(f"{key}: {text} is not known; the assignors are {known}")
        names.append(name)
    if not names:
        raise ConfigError(f"{key} names no assignor")
    return tuple(names)


def addition_retry(config: Config, request_timeout_ms: int) -> AdditionRetry:
    return AdditionRetry(
        config.integer("add.partitions.to.txn.retry.backoff.ms"),
        min(config.integer("add.partitions.to.txn.retry.backoff.max.ms"), request_timeout_ms),
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


def share_group_defaults(config: Config) -> ShareGroupSettings:
    return ShareGroupSettings(
        lock_duration_ms=config.integer("group.share.record.lock.duration.ms"),
        delivery_count_limit=config.integer("group.share.delivery.count.limit"),
        partition_max_record_locks=config.integer("group.share.partition.max.record.locks"),
    )


def share_coordinator(config: Config) -> ShareCoordinatorConfig:
    return ShareCoordinatorConfig(
        state=ShareStateConfig(
            config.integer("share.coordinator.snapshot.update.records.per.snapshot"),
            config.integer("share.coordinator.cold.partition.snapshot.interval.ms"),
        ),
        compression=Compression(config.integer("share.coordinator.state.topic.compression.codec")),
        load_buffer_size=config.integer("share.coordinator.load.buffer.size"),
        prune_interval_ms=config.integer("share.coordinator.state.topic.prune.interval.ms"),
    )


def controlled_shutdown(config: Config, listener: str) -> ControlledShutdownConfig:
    return view_of(
        ControlledShutdownConfig,
        config.values,
        "controlled.shutdown.",
        controller_socket_timeout_ms=config.integer("controller.socket.timeout.ms"),
        inter_broker_listener=listener,
        inter_broker_protocol=inter_broker_protocol(config),
    )
