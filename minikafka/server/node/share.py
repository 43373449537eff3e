"""Creates the share coordinator of one broker, its way to those of other brokers, and what the
broker shares as the leader of partitions."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from minikafka.core.share.persister import SharePersister
from minikafka.core.share.records import SharePartitionKey
from minikafka.core.share.session import ShareSessions
from minikafka.core.share.settings import ShareGroupSettings
from minikafka.kernel.cluster import SHARE_GROUP_STATE_TOPIC, CoordinatorType, TopicPartition
from minikafka.kernel.config import Config
from minikafka.kernel.events import event_log
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import World
from minikafka.network.broker_senders import BrokerSenderConfig, BrokerSenders
from minikafka.server.broker.admin.auto_topic_creation import AutoTopicCreation
from minikafka.server.broker.coordinator_log import CoordinatorLog
from minikafka.server.broker.group_configs import GroupConfigs
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.metadata.coordinators import CoordinatorLookup
from minikafka.server.broker.replication.replica_manager import ReplicaManager
from minikafka.server.broker.share.share_partitions import SharePartitions
from minikafka.server.coordinator.share_coordinator import ShareCoordinator
from minikafka.server.coordinator.share_persister import (
    ShareStatePersister,
    StateItem,
    complete_items,
    item_batch,
    item_key,
    items_request,
)
from minikafka.server.node import config_views as views
from minikafka.server.node.coordinators import follow_leadership

REQUEST_TIMEOUT_MS = 30_000


class ShareStateParts:
    """Creates and connects the share coordinator of one broker, and the ``persister``, by which the
    group coordinator and the share-partitions of this broker reach all share coordinators.
    ``listener`` is the inter-broker listener."""

    def __init__(
        self,
        world: World,
        config: Config,
        broker_id: int,
        listener: str,
        replicas: ReplicaManager,
        cache: MetadataCache,
        lookup: CoordinatorLookup,
        creation: AutoTopicCreation,
    ) -> None:
        self._listener = listener
        self._replicas = replicas
        self._cache = cache
        self._lookup = lookup
        self._creation = creation
        events = event_log("share-coordinator", broker=broker_id)
        timeout_ms = config.integer("share.coordinator.write.timeout.ms")
        self.coordinator = ShareCoordinator(
            world.clock,
            CoordinatorLog(replicas, SHARE_GROUP_STATE_TOPIC, timeout_ms, world.workers),
            views.share_coordinator(config),
            lambda: lookup.partition_count(CoordinatorType.SHARE),
            lambda: cache.image,
            self._delete_records,
            events,
        )
        self._senders: BrokerSenders[StateItem] = BrokerSenders(
            world.network,
            world.clock,
            BrokerSenderConfig(f"broker-{broker_id}-share-state", REQUEST_TIMEOUT_MS),
            self._address,
            item_key,
            items_request,
            complete_items,
            events,
            item_batch,
        )
        self.persister = ShareStatePersister(
            world.clock,
            world.entropy,
            broker_id,
            self._coordinator_of,
            self.coordinator.serve,
            self._senders.put,
        )

    def _address(self, broker_id: int) -> tuple[str, int] | None:
        endpoint = self._cache.endpoint(broker_id, self._listener)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def _coordinator_of(self, key: SharePartitionKey) -> int | None:
        """Return the coordinator of a share-partition. The first call creates the internal
        topic."""
        missing = self._lookup.missing_topic(CoordinatorType.SHARE)
        if missing is not None:
            self._creation.begin([missing])
            return None
        return self._lookup.broker(CoordinatorType.SHARE, key.coordinator_key)

    def _delete_records(self, partition: int, offset: int) -> None:
        self._replicas.deletion.prune(TopicPartition(SHARE_GROUP_STATE_TOPIC, partition), offset)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._senders.start(tasks)
        self.coordinator.start(tasks)

    def close(self) -> None:
        self.coordinator.close()
        self._senders.close()

    # -- leadership

    def role_taken(self, topic_partition: TopicPartition, leads: bool, epoch: int) -> None:
        """Load or unload a coordinator partition whose role on this broker has changed."""
        runtime = self.coordinator.runtime
        follow_leadership(runtime, SHARE_GROUP_STATE_TOPIC, topic_partition, leads, epoch)

    def replica_gone(self, topic_partition: TopicPartition) -> None:
        """Unload a coordinator partition whose replica was deleted or whose disk failed."""
        if topic_partition.topic == SHARE_GROUP_STATE_TOPIC:
            self.coordinator.runtime.replica_removed(topic_partition.partition)


def share_partitions(
    world: World,
    config: Config,
    broker_id: int,
    replicas: ReplicaManager,
    persister: SharePersister,
    group_configs: GroupConfigs,
    metrics: Metrics,
) -> SharePartitions:
    """Create the share-partitions that a broker leads, and the share sessions of their members."""
    defaults = views.share_group_defaults(config)

    def settings(group_id: str) -> ShareGroupSettings:
        own = group_configs.settings(group_id)
        if own is None:
            return defaults
        return replace(
            defaults,
            lock_duration_ms=own.share_record_lock_duration_ms,
            isolation_level=own.share_isolation_level,
            auto_offset_reset=own.share_auto_offset_reset,
        )

    sessions = ShareSessions(config.integer("group.share.max.share.sessions"))
    prefix = "kafka.server:type=ShareSessionCache,name="
    metrics.gauge(f"{prefix}ShareSessionsCount", lambda: len(sessions))
    metrics.gauge(f"{prefix}SharePartitionsCount", lambda: sessions.partitions)
    return SharePartitions(
        world.clock,
        world.workers,
        replicas.hosted,
        persister,
        replicas.purgatories.share_fetch,
        settings,
        group_configs.read,
        sessions,
        event_log("share-partitions", broker=broker_id),
    )
