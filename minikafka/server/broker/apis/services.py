"""What request handlers use: the parts of a broker, put together by the node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from minikafka.core.policies import AlterConfigPolicy
from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import Config
from minikafka.kernel.ports import World
from minikafka.server.broker.admin.auto_topic_creation import AutoTopicCreation
from minikafka.server.broker.admin.config_entries import ConfigEntries
from minikafka.server.broker.admin.delegation_tokens import DelegationTokens
from minikafka.server.broker.admin.dynamic_config import DynamicBrokerConfig
from minikafka.server.broker.admin.elections import LeaderElectionAdmin
from minikafka.server.broker.admin.topics import TopicAdmin
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.brokers.controller_fence import ControllerFence
from minikafka.server.broker.apis.forwarding import Forwarding
from minikafka.server.broker.client_telemetry import ClientTelemetry
from minikafka.server.broker.fetch.record_fetches import RecordFetches
from minikafka.server.broker.fetch.sessions import FetchSessions
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.metadata.coordinators import CoordinatorLookup, InternalTopicSizes
from minikafka.server.broker.metadata.finalized_features import FinalizedFeatures
from minikafka.server.broker.metadata.topic_rows import EncodedTopics
from minikafka.server.broker.ports import (
    Controller,
    GroupCoordination,
    ShareStateCoordination,
    TransactionCoordination,
)
from minikafka.server.broker.purgatories import Reaper
from minikafka.server.broker.quotas import ClientQuotas
from minikafka.server.broker.record_formats import FormatConversion
from minikafka.server.broker.replication.append_order import AppendOrder
from minikafka.server.broker.replication.replica_manager import ReplicaManager
from minikafka.server.broker.replication.stray_replicas import StrayReplicas
from minikafka.server.broker.replication.transaction_verification import TransactionVerification
from minikafka.server.broker.share.share_partitions import SharePartitions
from minikafka.server.broker.zookeeper_offsets import ZookeeperOffsets
from minikafka.server.storage.directories.log_manager import LogManager
from minikafka.server.zookeeper.store import ZkStore


@dataclass(frozen=True, kw_only=True)
class Services:
    """The parts of a broker that handlers and guards are made from.

    ``config`` is the configuration at the start, ``dynamic`` has the current one. ``store`` returns
    the store of the current ZooKeeper session. ``is_controller`` returns whether this broker is the
    controller. ``protocols`` are the security protocols by listener. Without ``encoded_topics`` all
    fields of a Metadata response can be changed. ``authorization`` is None without an authorizer.

    ``role_taken`` is called with a partition, whether this broker leads it, and the leader epoch;
    ``replica_gone`` with a partition whose replica was deleted or whose disk failed;
    ``topic_changed`` with a topic whose metadata has changed."""

    broker_id: int
    cluster_id: str
    world: World
    config: Config
    dynamic: DynamicBrokerConfig
    store: Callable[[], ZkStore]
    cache: MetadataCache
    features: FinalizedFeatures
    logs: LogManager
    replicas: ReplicaManager
    appends: AppendOrder
    fetches: RecordFetches
    fetch_sessions: FetchSessions
    conversion: FormatConversion
    stray_replicas: StrayReplicas
    topics: TopicAdmin
    topic_creation: AutoTopicCreation
    topic_reaper: Reaper[DelayedOperation]
    entries: ConfigEntries
    alter_config_policy: AlterConfigPolicy | None
    elections: LeaderElectionAdmin
    internal_sizes: InternalTopicSizes
    encoded_topics: EncodedTopics | None
    controller: Controller
    is_controller: Callable[[], bool]
    forwarding: Forwarding
    fence: ControllerFence
    groups: GroupCoordination
    coordinators: CoordinatorLookup
    zookeeper_offsets: ZookeeperOffsets
    transactions: TransactionCoordination
    share_states: ShareStateCoordination
    shares: SharePartitions
    verification: TransactionVerification
    authorization: Authorization | None
    tokens: DelegationTokens
    telemetry: ClientTelemetry
    quotas: ClientQuotas
    inter_broker_listener: str
    protocols: Mapping[str, str]
    role_taken: Callable[[TopicPartition, bool, int], None]
    replica_gone: Callable[[TopicPartition], None]
    topic_changed: Callable[[str], None]
