"""The door through which others look inside a running broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from minikafka.core.replication.fetch_session import FetchSessionCache
from minikafka.kernel.ports import Clock
from minikafka.server.broker.apis.pipeline import Apis
from minikafka.server.broker.client_telemetry import ClientTelemetry
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.quotas import ClientQuotas
from minikafka.server.broker.replication.fetcher_manager import ReplicaFetcherManager
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.mending import ReplicaMending
from minikafka.server.broker.replication.throttles import ReplicationThrottles
from minikafka.server.broker.share.share_partitions import SharePartitions
from minikafka.server.controller.kafka_controller import KafkaController
from minikafka.server.coordinator.group_coordinator import GroupCoordinator
from minikafka.server.coordinator.transaction_coordinator import TransactionCoordinator
from minikafka.server.listeners.server import Server
from minikafka.server.node.purgatories import BrokerPurgatories
from minikafka.server.storage.directories.log_manager import LogManager


class BrokerEntities(NamedTuple):
    """The entities of a running broker, by kind, for whoever looks inside it.

    The debug listener, learn mode, the simulator's checks and the clusters of ``testing`` show and
    check what these objects say. Only ``server/node`` reaches deeper, into ``BrokerParts``; a test
    of the house refuses any other access. A reader calls nothing that changes the broker.
    """

    clock: Clock
    broker_id: int
    broker: Callable[[], Mapping[str, Any]]  # the facts about the broker as a whole
    controller: KafkaController
    metadata: MetadataCache
    partitions: HostedPartitions
    fetchers: ReplicaFetcherManager
    mending: ReplicaMending
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    shares: SharePartitions
    purgatories: BrokerPurgatories
    fetch_sessions: FetchSessionCache[Any]
    apis: Apis
    servers: Callable[[], Sequence[Server]]
    client_quotas: ClientQuotas
    throttles: ReplicationThrottles
    telemetry: ClientTelemetry
    logs: LogManager
