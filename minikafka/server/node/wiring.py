"""Creates the replicas and coordinators of one broker, and what its request handlers use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.kernel.cluster import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
)
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import World
from minikafka.kernel.settings import BROKER_CONFIG, TOPIC_CONFIG, topic_defaults
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.server.broker.admin.auto_topic_creation import AutoTopicCreation
from minikafka.server.broker.admin.config_entries import ConfigEntries
from minikafka.server.broker.admin.delegation_tokens import DelegationTokens
from minikafka.server.broker.admin.dynamic_config import DynamicBrokerConfig
from minikafka.server.broker.admin.elections import LeaderElectionAdmin
from minikafka.server.broker.admin.topics import TopicAdmin
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.brokers.controller_fence import ControllerFence
from minikafka.server.broker.apis.forwarding import Forwarding
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.client_telemetry import ClientTelemetry
from minikafka.server.broker.fetch.reader import FetchReader, PreferredReplicas
from minikafka.server.broker.fetch.record_fetches import RecordFetches
from minikafka.server.broker.fetch.sessions import FetchSessions
from minikafka.server.broker.group_configs import GroupConfigs
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.metadata.coordinators import InternalTopicSizes
from minikafka.server.broker.metadata.finalized_features import FinalizedFeatures
from minikafka.server.broker.metadata.peers import PeerMetadata
from minikafka.server.broker.metadata.topic_configs import TopicConfigCache
from minikafka.server.broker.metadata.topic_rows import EncodedTopics
from minikafka.server.broker.node_to_controller import NodeToController
from minikafka.server.broker.producer_ids import AllocateBlock, ControllerBlocks, ZooKeeperBlocks
from minikafka.server.broker.purgatories import Reaper, expiration_reaper_name
from minikafka.server.broker.quotas import ClientQuotas
from minikafka.server.broker.record_formats import FormatConversion
from minikafka.server.broker.replication.append_order import AppendOrder
from minikafka.server.broker.replication.isr import (
    ControllerIsrWrites,
    IsrWrites,
    ZnodeIsrWrites,
)
from minikafka.server.broker.replication.record_preparation import RecordPreparation
from minikafka.server.broker.replication.replica_manager import ReplicaManager
from minikafka.server.broker.replication.stray_replicas import OrphanedLogs, StrayReplicas
from minikafka.server.broker.share.share_partitions import SharePartitions
from minikafka.server.controller.kafka_controller import KafkaController
from minikafka.server.node import config_views as views
from minikafka.server.node.coordinators import GroupParts, TransactionParts, coordinator_lookup
from minikafka.server.node.plugins import alter_config_policy, create_topic_policy
from minikafka.server.node.purgatories import BrokerPurgatories
from minikafka.server.node.share import ShareStateParts, share_partitions
from minikafka.server.storage.directories.log_manager import LogManager
from minikafka.server.zookeeper.session import ZkSession

FORWARDING_LINKS: Final = 4  # so many requests of clients may wait at the controller at a time


class BrokerParts:
    """The parts of a broker between its connections and its logs. ``broker_epoch`` returns the
    epoch of this broker's current registration."""

    def __init__(
        self,
        world: World,
        dynamic: DynamicBrokerConfig,
        broker_id: int,
        cluster_id: str,
        listener: str,
        zk: ZkSession,
        logs: LogManager,
        controller: KafkaController,
        broker_epoch: Callable[[], int],
        metrics: Metrics,
        tokens: DelegationTokens,
        protocols: Mapping[str, str],
        features: FinalizedFeatures,
        authorization: Authorization | None = None,
    ) -> None:
        self._world = world
        self._tokens = tokens
        self._listener = listener
        self._protocols = protocols
        self._features = features
        self._authorization = authorization
        self._config = config = dynamic.current
        self._broker_epoch = broker_epoch
        self._dynamic = dynamic
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._zk = zk
        self.logs = logs
        self._controller = controller
        self.memory = views.memory_budget(config)
        self.cache = MetadataCache(broker_id)
        self.fence = ControllerFence(broker_id, broker_epoch)
        self._entries = ConfigEntries(dynamic, BROKER_CONFIG, TOPIC_CONFIG)
        self._topic_reaper = self._make_reaper("topic")
        self._topics = self._make_topic_admin()
        self._alter_config_policy = alter_config_policy(config)
        self._election_reaper = self._make_reaper("ElectLeader")
        self._elections = LeaderElectionAdmin(controller, self.cache, self._election_reaper)
        self._to_controller = self._make_controller_link(listener)
        self._alter_partition = self._make_controller_link(listener)
        self._forwarding = self._make_forwarding(listener)
        self.topic_creation = self._make_auto_topic_creation()
        self._internal_sizes = self._make_internal_sizes()
        self.topic_configs = TopicConfigCache(self._read_topic_configs, topic_defaults(config))
        self.replicas = ReplicaManager(
            views.replica_manager(config, broker_id, listener),
            world.clock,
            logs,
            self.cache,
            self.topic_configs,
            lambda: zk.store,
            self._open_channel,
            broker_epoch,
            metrics,
            self._isr_writes(),
        )
        self.fetches = self._make_fetches(metrics)
        self._orphans = self._make_orphaned_logs()
        self._strays = StrayReplicas(self.replicas, self.logs, self._replica_gone)
        self.fetch_sessions = self._make_fetch_sessions(metrics)
        self._peers = self._make_peer_metadata(listener)
        self._make_coordinators(listener, metrics)
        self._make_worker_users()
        self.telemetry = self._make_telemetry(metrics)
        self.replicas.hosted.on_offline(self._replica_gone)
        self.purgatories = BrokerPurgatories(world.clock, metrics, self._reapers())

    def _make_reaper(self, name: str) -> Reaper[DelayedOperation]:
        reaper_name = expiration_reaper_name(self._broker_id, name)
        return Reaper(self._world.clock, Purgatory(name), reaper_name)

    def _make_peer_metadata(self, listener: str) -> PeerMetadata:
        return PeerMetadata(
            self._world.network,
            self._world.clock,
            self.cache,
            self._broker_id,
            listener,
            views.inter_broker_protocol(self._config).metadata_version,
            self._zk.disconnected,
        )

    def _make_coordinators(self, listener: str, metrics: Metrics) -> None:
        self._lookup = coordinator_lookup(self.cache, self._internal_sizes)
        self.share_states = self._make_share_states(listener)
        self.group_configs = GroupConfigs(lambda: self._zk.store, lambda: self._dynamic.current)
        self.groups = self._make_groups(listener, metrics)
        self.transactions = self._make_transactions(listener, metrics)
        self.shares = self._make_shares(metrics)

    def _make_worker_users(self) -> None:
        """Create the parts whose work on large record batches is done by workers."""
        clock, workers, replicas = self._world.clock, self._world.workers, self.replicas
        self._preparation = RecordPreparation(
            workers, clock, replicas.hosted, replicas.topic_metrics.produce_converted
        )
        self._append_order = AppendOrder(
            replicas.appends, self._preparation, self.transactions.verification
        )
        self._conversion = FormatConversion(workers)

    def _reapers(self) -> list[Reaper[DelayedOperation]]:
        others = [self._topic_reaper, self._election_reaper]
        return [*self.replicas.purgatories.reapers, *self.groups.reapers, *others]

    def _make_groups(self, listener: str, metrics: Metrics) -> GroupParts:
        return GroupParts(
            self._world,
            self._config,
            self._broker_id,
            listener,
            self.replicas,
            self.cache,
            self._lookup,
            self.share_states.persister,
            self.group_configs.settings,
            lambda: self._zk.store,
            metrics,
        )

    def _make_telemetry(self, metrics: Metrics) -> ClientTelemetry:
        return ClientTelemetry(
            lambda: self._zk.store,
            self._world.clock,
            self._world.entropy,
            metrics,
            self._config.integer("telemetry.max.bytes"),
        )

    def _make_topic_admin(self) -> TopicAdmin:
        return TopicAdmin(
            lambda: self._zk.store,
            self.cache,
            self._topic_reaper,
            self._world.entropy,
            views.topic_admin(self._config),
            self._entries.check_topic,
            policy=create_topic_policy(self._config),
        )

    def _make_internal_sizes(self) -> InternalTopicSizes:
        async def read(topic: str) -> int | None:
            found = await self._zk.store.topic_assignments([topic])
            return len(found[topic].partitions) if topic in found else None

        configured = {
            GROUP_METADATA_TOPIC: self._config.integer("offsets.topic.num.partitions"),
            TRANSACTION_STATE_TOPIC: self._config.integer("transaction.state.log.num.partitions"),
            SHARE_GROUP_STATE_TOPIC: self._config.integer(
                "share.coordinator.state.topic.num.partitions"
            ),
        }
        return InternalTopicSizes(configured, self.cache.contains_topic, read, self._world.clock)

    def _make_orphaned_logs(self) -> OrphanedLogs:
        return OrphanedLogs(
            self._world.clock,
            self.replicas,
            self.logs,
            lambda: self._zk.store.topics(),
            lambda: self.fence.controller_epoch > 0,
        )

    def _make_controller_link(self, listener: str) -> NodeToController:
        world = self._world
        return NodeToController(
            world.network,
            world.clock,
            world.entropy,
            self.cache,
            self._broker_id,
            views.to_controller(self._config, listener),
        )

    def _make_forwarding(self, listener: str) -> Forwarding:
        links = [self._make_controller_link(listener) for _ in range(FORWARDING_LINKS)]
        return Forwarding(self._world, links, lambda: self._controller.is_active)

    def _isr_writes(self) -> IsrWrites:
        of_znodes = ZnodeIsrWrites(lambda: self._zk.store)
        protocol = views.inter_broker_protocol(self._config)
        if not protocol.has_alter_partition:
            return of_znodes
        return ControllerIsrWrites(
            self._alter_partition,
            self._broker_id,
            self._broker_epoch,
            protocol.has_topic_ids,
            of_znodes,
        )

    def _make_auto_topic_creation(self) -> AutoTopicCreation:
        return AutoTopicCreation(
            views.auto_topic_creation(self._config),
            self._world.clock,
            self._topics,
            lambda: self._controller.is_active,
            self._to_controller,
            lambda: len(self.cache.live_brokers()),
        )

    def _make_fetches(self, metrics: Metrics) -> RecordFetches:
        replicas, hosted = self.replicas, self.replicas.hosted
        preferred = PreferredReplicas(self.cache, replicas.config.replica_selector_class)
        throttle = replicas.throttles.leader
        reader = FetchReader(hosted, preferred, replicas.disk_failed, throttle, self.memory)
        return RecordFetches(
            self._world.clock,
            hosted,
            replicas.purgatories,
            reader,
            metrics,
            self.memory,
            replicas.topic_metrics,
        )

    def _make_fetch_sessions(self, metrics: Metrics) -> FetchSessions:
        return FetchSessions(
            self._world.clock,
            self._world.entropy,
            metrics,
            self.replicas.hosted,
            self.logs.starts,
            self._config.integer("max.incremental.fetch.session.cache.slots"),
            self.memory,
        )

    def _make_transactions(self, listener: str, metrics: Metrics) -> TransactionParts:
        return TransactionParts(
            self._world,
            self._dynamic,
            self._broker_id,
            listener,
            self.replicas,
            self.cache,
            self._lookup,
            self._producer_id_blocks(),
            self._features,
            metrics,
        )

    def _make_share_states(self, listener: str) -> ShareStateParts:
        return ShareStateParts(
            self._world,
            self._config,
            self._broker_id,
            listener,
            self.replicas,
            self.cache,
            self._lookup,
            self.topic_creation,
        )

    def _make_shares(self, metrics: Metrics) -> SharePartitions:
        return share_partitions(
            self._world,
            self._config,
            self._broker_id,
            self.replicas,
            self.share_states.persister,
            self.group_configs,
            metrics,
        )

    def _producer_id_blocks(self) -> AllocateBlock:
        of_zookeeper = ZooKeeperBlocks(lambda: self._zk.store, self._broker_id).allocate
        if not views.inter_broker_protocol(self._config).has_allocate_producer_ids:
            return of_zookeeper
        return ControllerBlocks(
            self._to_controller, self._broker_id, self._broker_epoch, of_zookeeper
        ).allocate

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self.fetches.start(tasks)
        await self.replicas.start(tasks)
        self._orphans.start(tasks)
        self._peers.start(tasks)
        self._to_controller.start(tasks)
        self._alter_partition.start(tasks)
        self._forwarding.start(tasks)
        self.topic_creation.start(tasks)
        self.groups.start(tasks)
        self.transactions.start(tasks)
        self.share_states.start(tasks)
        self.shares.start(tasks)
        self._preparation.start(tasks)
        self._conversion.start(tasks)

    async def stop(self) -> None:
        self.shares.close()
        self.share_states.close()
        self.transactions.close()
        self.groups.close()
        await self._to_controller.close()
        await self._alter_partition.close()
        await self._forwarding.close()
        self._topic_reaper.close()
        self._election_reaper.close()
        await self._orphans.stop()
        await self._peers.stop()
        await self.fetches.stop()
        await self.replicas.stop()

    async def _read_topic_configs(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        return await self._zk.store.topic_configs(topics)

    async def _open_channel(self, host: str, port: int) -> Channel:
        return await Channel.open(
            self._world.network,
            self._world.clock,
            host,
            port,
            f"broker-{self._broker_id}-fetcher",
            ChannelConfig(
                max_in_flight=1,
                reuse_memory=True,
                kept_bytes=2 * self._config.integer("replica.fetch.response.max.bytes"),
            ),
        )

    def services(self, encoded_topics: EncodedTopics | None, quotas: ClientQuotas) -> Services:
        """Return what request handlers use. Without ``encoded_topics`` all fields of a Metadata
        response can be changed."""
        return Services(
            broker_id=self._broker_id,
            cluster_id=self._cluster_id,
            world=self._world,
            config=self._config,
            dynamic=self._dynamic,
            store=lambda: self._zk.store,
            cache=self.cache,
            features=self._features,
            logs=self.logs,
            replicas=self.replicas,
            appends=self._append_order,
            fetches=self.fetches,
            fetch_sessions=self.fetch_sessions,
            conversion=self._conversion,
            stray_replicas=self._strays,
            topics=self._topics,
            topic_creation=self.topic_creation,
            topic_reaper=self._topic_reaper,
            entries=self._entries,
            alter_config_policy=self._alter_config_policy,
            elections=self._elections,
            internal_sizes=self._internal_sizes,
            encoded_topics=encoded_topics,
            controller=self._controller,
            is_controller=lambda: self._controller.is_active,
            forwarding=self._forwarding,
            fence=self.fence,
            groups=self.groups.coordinator,
            coordinators=self._lookup,
            zookeeper_offsets=self.groups.zookeeper_offsets,
            transactions=self.transactions.coordinator,
            share_states=self.share_states.coordinator,
            shares=self.shares,
            verification=self.transactions.verification,
            authorization=self._authorization,
            tokens=self._tokens,
            telemetry=self.telemetry,
            quotas=quotas,
            inter_broker_listener=self._listener,
            protocols=self._protocols,
            role_taken=self._role_taken,
            replica_gone=self._replica_gone,
            topic_changed=self._topic_changed,
        )

    def _role_taken(self, topic_partition: TopicPartition, leads: bool, epoch: int) -> None:
        self.groups.role_taken(topic_partition, leads, epoch)
        self.transactions.role_taken(topic_partition, leads, epoch)
        self.share_states.role_taken(topic_partition, leads, epoch)
        if not leads:
            self.shares.partition_lost(topic_partition)

    def _replica_gone(self, topic_partition: TopicPartition) -> None:
        """Notify the coordinators of a replica that was deleted or whose disk failed."""
        self.groups.replica_gone(topic_partition)
        self.transactions.replica_gone(topic_partition)
        self.share_states.replica_gone(topic_partition)
        self.shares.partition_lost(topic_partition)

    def _topic_changed(self, topic: str) -> None:
        self._topics.topic_changed(topic)
        self._elections.topic_changed(topic)
