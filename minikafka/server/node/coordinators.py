"""Creates the group and the transaction coordinator of one broker, and their routes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from minikafka.core.group.settings import SettingsOf
from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.core.share.persister import SharePersister
from minikafka.kernel.cluster import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    CoordinatorType,
    TopicPartition,
)
from minikafka.kernel.config import Config
from minikafka.kernel.events import event_log
from minikafka.kernel.features import TRANSACTION_VERSION
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import World
from minikafka.network.broker_senders import BrokerSenderConfig, BrokerSenders
from minikafka.server.broker.admin.dynamic_config import DynamicBrokerConfig
from minikafka.server.broker.coordinator_log import CoordinatorLog
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.metadata.coordinators import CoordinatorLookup, InternalTopicSizes
from minikafka.server.broker.metadata.finalized_features import FinalizedFeatures
from minikafka.server.broker.producer_ids import AllocateBlock, ProducerIds
from minikafka.server.broker.purgatories import Reaper, expiration_reaper_name
from minikafka.server.broker.replication.replica_manager import ReplicaManager
from minikafka.server.broker.replication.transaction_verification import (
    TransactionVerification,
    VerificationItem,
    can_verify,
    complete_verifications,
    verification_key,
    verification_request,
)
from minikafka.server.broker.zookeeper_offsets import ZookeeperOffsets
from minikafka.server.coordinator.end_offsets import (
    EndOffsetsItem,
    LeaderEndOffsets,
    complete_end_offsets,
    end_offsets_key,
    end_offsets_request,
)
from minikafka.server.coordinator.group_coordinator import GroupCoordinator
from minikafka.server.coordinator.group_facts import register_group_gauges
from minikafka.server.coordinator.runtime import CoordinatorRuntime
from minikafka.server.coordinator.transaction_coordinator import TransactionCoordinator
from minikafka.server.coordinator.transaction_markers import (
    MarkerItem,
    complete_markers,
    marker_key,
    markers_request,
)
from minikafka.server.node import config_views as views
from minikafka.server.zookeeper.store import ZkStore

# The longest wait for the replication of a record, or for the response of another broker.
REQUEST_TIMEOUT_MS = 30_000


def coordinator_lookup(cache: MetadataCache, sizes: InternalTopicSizes) -> CoordinatorLookup:
    """Return the look-up of coordinators of all types. ``sizes`` has the number of partitions of
    their internal topics."""
    topics = {
        CoordinatorType.GROUP: GROUP_METADATA_TOPIC,
        CoordinatorType.TRANSACTION: TRANSACTION_STATE_TOPIC,
        CoordinatorType.SHARE: SHARE_GROUP_STATE_TOPIC,
    }
    return CoordinatorLookup(cache, topics, sizes)


class GroupParts:
    """Creates and connects the group coordinator of one broker.

    ``listener`` is the inter-broker listener. ``store`` returns the store of the current ZooKeeper
    session."""

    def __init__(
        self,
        world: World,
        config: Config,
        broker_id: int,
        listener: str,
        replicas: ReplicaManager,
        cache: MetadataCache,
        lookup: CoordinatorLookup,
        persister: SharePersister,
        settings: SettingsOf,
        store: Callable[[], ZkStore],
        metrics: Metrics,
    ) -> None:
        self._world = world
        self._config = config
        self._cache = cache
        events = event_log("group-coordinator", broker=broker_id)
        self._end_offset_senders: BrokerSenders[EndOffsetsItem] = BrokerSenders(
            world.network,
            world.clock,
            BrokerSenderConfig(f"broker-{broker_id}-end-offsets", REQUEST_TIMEOUT_MS),
            partial(_address, cache, listener),
            end_offsets_key,
            end_offsets_request,
            complete_end_offsets,
            events,
        )
        self.heartbeats = self._reaper(broker_id, "Heartbeat")
        self.rebalances = self._reaper(broker_id, "Rebalance")
        self.coordinator = GroupCoordinator(
            world.clock,
            CoordinatorLog(
                replicas,
                GROUP_METADATA_TOPIC,
                config.integer("offsets.commit.timeout.ms"),
                world.workers,
            ),
            self.rebalances,
            self.heartbeats,
            views.group_coordinator(config),
            settings,
            lambda: lookup.partition_count(CoordinatorType.GROUP),
            lambda: cache.image,
            persister,
            LeaderEndOffsets(cache, self._end_offset_senders.put),
            events,
        )
        self.zookeeper_offsets = ZookeeperOffsets(store)
        register_group_gauges(self.coordinator, metrics)

    def _reaper(self, broker_id: int, name: str) -> Reaper[DelayedOperation]:
        purgatory: Purgatory[DelayedOperation] = Purgatory(name)
        return Reaper(self._world.clock, purgatory, expiration_reaper_name(broker_id, name))

    @property
    def reapers(self) -> tuple[Reaper[DelayedOperation], ...]:
        return (self.heartbeats, self.rebalances)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._end_offset_senders.start(tasks)
        self.coordinator.start(tasks)
        self.zookeeper_offsets.start(tasks)

    def close(self) -> None:
        self.coordinator.close()
        self._end_offset_senders.close()
        for reaper in self.reapers:
            reaper.close()

    # -- leadership

    def role_taken(self, topic_partition: TopicPartition, leads: bool, epoch: int) -> None:
        """Load or unload a coordinator partition whose role on this broker has changed."""
        follow_leadership(
            self.coordinator.runtime, GROUP_METADATA_TOPIC, topic_partition, leads, epoch
        )

    def replica_gone(self, topic_partition: TopicPartition) -> None:
        """Unload a coordinator partition whose replica was deleted or whose disk failed."""
        if topic_partition.topic == GROUP_METADATA_TOPIC:
            self.coordinator.runtime.replica_removed(topic_partition.partition)


class TransactionParts:
    """Creates and connects the transaction coordinator of one broker. ``listener`` is the
    inter-broker listener."""

    def __init__(
        self,
        world: World,
        dynamic: DynamicBrokerConfig,
        broker_id: int,
        listener: str,
        replicas: ReplicaManager,
        cache: MetadataCache,
        lookup: CoordinatorLookup,
        allocate_producer_ids: AllocateBlock,
        features: FinalizedFeatures,
        metrics: Metrics,
    ) -> None:
        events = event_log("transaction-coordinator", broker=broker_id)
        self.markers: BrokerSenders[MarkerItem] = BrokerSenders(
            world.network,
            world.clock,
            BrokerSenderConfig(f"broker-{broker_id}-txn-marker-sender", REQUEST_TIMEOUT_MS),
            partial(_address, cache, listener),
            marker_key,
            partial(markers_request, protocol=views.inter_broker_protocol(dynamic.current)),
            complete_markers,
            events,
        )
        self.coordinator = TransactionCoordinator(
            world.clock,
            CoordinatorLog(replicas, TRANSACTION_STATE_TOPIC, REQUEST_TIMEOUT_MS, world.workers),
            cache,
            ProducerIds(allocate_producer_ids, broker_id),
            self.markers.put,
            views.transaction_coordinator(dynamic.current),
            lambda: lookup.partition_count(CoordinatorType.TRANSACTION),
            lambda: features.level(TRANSACTION_VERSION),
            events,
        )
        self._verification_senders: BrokerSenders[VerificationItem] = BrokerSenders(
            world.network,
            world.clock,
            BrokerSenderConfig(f"broker-{broker_id}-add-partitions-to-txn", REQUEST_TIMEOUT_MS),
            partial(_address, cache, listener),
            verification_key,
            verification_request,
            complete_verifications,
            event_log("transaction-verification", broker=broker_id),
        )
        can_be_verified = can_verify(views.release(dynamic.current))
        self.verification = TransactionVerification(
            lambda: (
                can_be_verified
                and dynamic.current.boolean("transaction.partition.verification.enable")
            ),
            world.clock,
            replicas.hosted,
            partial(lookup.broker, CoordinatorType.TRANSACTION),
            self._verification_senders.put,
            views.addition_retry(dynamic.current, REQUEST_TIMEOUT_MS),
            metrics,
        )
        metrics.gauge(
            "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,"
            "name=UnknownDestinationQueueSize",
            lambda: self.coordinator.markers.num_retrying,
        )

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self.markers.start(tasks)
        self._verification_senders.start(tasks)
        self.coordinator.start(tasks)

    def close(self) -> None:
        self.coordinator.close()
        self._verification_senders.close()
        self.markers.close()

    # -- leadership

    def role_taken(self, topic_partition: TopicPartition, leads: bool, epoch: int) -> None:
        """Load or unload a coordinator partition whose role on this broker has changed."""
        follow_leadership(
            self.coordinator.runtime, TRANSACTION_STATE_TOPIC, topic_partition, leads, epoch
        )

    def replica_gone(self, topic_partition: TopicPartition) -> None:
        """Unload a coordinator partition whose replica was deleted or whose disk failed."""
        if topic_partition.topic == TRANSACTION_STATE_TOPIC:
            self.coordinator.runtime.replica_removed(topic_partition.partition)


def follow_leadership(
    runtime: CoordinatorRuntime[Any, Any, Any, Any],
    topic: str,
    topic_partition: TopicPartition,
    leads: bool,
    epoch: int,
) -> None:
    """Notify ``runtime`` of a partition's changed role if the partition belongs to ``topic``."""
    if topic_partition.topic != topic:
        return
    if leads:
        runtime.elected(topic_partition.partition, epoch)
    else:
        runtime.resigned(topic_partition.partition, epoch)


def _address(cache: MetadataCache, listener: str, broker_id: int) -> tuple[str, int] | None:
    endpoint = cache.endpoint(broker_id, listener)
    return None if endpoint is None else (endpoint.host, endpoint.port)
