"""The group coordinator of one broker: its parts, its purgatories, the routes that lead to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from minikafka import node_config as views
from minikafka.broker.admin.auto_topic_creation import AutoTopicCreation
from minikafka.broker.coordinator_log import CoordinatorLog
from minikafka.broker.metadata.cache import MetadataCache
from minikafka.broker.metadata.coordinators import CoordinatorLookup, InternalTopicSizes
from minikafka.broker.reaper import Reaper, expiration_reaper_name
from minikafka.broker.replication.replica_manager import ReplicaManager
from minikafka.broker.requests.apis import Route
from minikafka.broker.requests.cluster import CoordinatorType
from minikafka.broker.requests.consumer_groups import refuse_description, refuse_heartbeat
from minikafka.broker.requests.group_offsets import (
    OffsetCommitHandler,
    OffsetDeleteHandler,
    OffsetFetchHandler,
    OffsetStore,
    ZookeeperOffsets,
)
from minikafka.broker.requests.groups import (
    DeleteGroupsHandler,
    DescribeGroupsHandler,
    HeartbeatHandler,
    JoinGroupHandler,
    LeaveGroupHandler,
    ListGroupsHandler,
    SyncGroupHandler,
)
from minikafka.coordinator.group_facts import group_facts
from minikafka.coordinator.group_service import GroupService
from minikafka.coordinator.metrics import register_gauges
from minikafka.coordinator.shards import GroupShards
from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.kernel.cluster import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
)
from minikafka.kernel.config import Config
from minikafka.kernel.events import event_log
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import World
from minikafka.protocol.api_keys import ApiKey


class GroupParts:
    """``creation`` makes ``__consumer_offsets`` when somebody first asks for a coordinator;
    ``sizes`` knows how large it is; ``store`` is ZooKeeper's, now."""

    def __init__(
        self,
        world: World,
        config: Config,
        broker_id: int,
        replicas: ReplicaManager,
        cache: MetadataCache,
        creation: AutoTopicCreation,
        sizes: InternalTopicSizes,
        store: Callable[[], OffsetStore],
        metrics: Metrics,
    ) -> None:
        self._world = world
        self._config = config
        self._cache = cache
        self.lookup = CoordinatorLookup(
            cache,
            creation,
            {
                CoordinatorType.GROUP: GROUP_METADATA_TOPIC,
                CoordinatorType.TRANSACTION: TRANSACTION_STATE_TOPIC,
            },
            sizes,
        )
        self.heartbeats = self._reaper(broker_id, "Heartbeat")
        self.rebalances = self._reaper(broker_id, "Rebalance")
        self.shards = GroupShards(
            world.clock,
            CoordinatorLog(
                replicas, GROUP_METADATA_TOPIC, config.integer("offsets.commit.timeout.ms")
            ),
            self.rebalances,
            self.heartbeats,
            views.group_coordinator(config),
            lambda: self.lookup.partition_count(CoordinatorType.GROUP),
            event_log("group-coordinator", broker=broker_id),
        )
        self.service = GroupService(self.shards)
        self._zookeeper_offsets = ZookeeperOffsets(store)
        register_gauges(self.shards, metrics)

    def _reaper(self, broker_id: int, name: str) -> Reaper[DelayedOperation]:
        purgatory: Purgatory[DelayedOperation] = Purgatory(name)
        return Reaper(self._world.clock, purgatory, expiration_reaper_name(broker_id, name))

    @property
    def reapers(self) -> tuple[Reaper[Any], ...]:
        return (self.heartbeats, self.rebalances)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self.shards.start(tasks)
        self._zookeeper_offsets.start(tasks)

    def close(self) -> None:
        self.shards.close()
        for reaper in self.reapers:
            reaper.close()

    def facts(self, limit: int, group_id: str | None) -> dict[str, Any]:
        return group_facts(self.shards, limit, group_id)

    # -- what the controller's requests mean here

    def role_taken(self, topic_partition: TopicPartition, leads: bool, epoch: int) -> None:
        topic, partition = topic_partition
        if topic == GROUP_METADATA_TOPIC:
            (self.shards.elected if leads else self.shards.resigned)(partition, epoch)

    def replica_gone(self, topic_partition: TopicPartition) -> None:
        if topic_partition.topic == GROUP_METADATA_TOPIC:
            self.shards.resigned(topic_partition.partition, None)

    def routes(self) -> list[Route]:
        service, cache = self.service, self._cache
        commit = OffsetCommitHandler(
            service,
            self._zookeeper_offsets,
            cache,
            self._world.clock,
            self._config.integer("offset.metadata.max.bytes"),
        )
        return [
            Route(ApiKey.OFFSET_COMMIT, commit),
            Route(ApiKey.OFFSET_FETCH, OffsetFetchHandler(service, self._zookeeper_offsets, cache)),
            Route(ApiKey.JOIN_GROUP, JoinGroupHandler(service, self._world.entropy)),
            Route(ApiKey.HEARTBEAT, HeartbeatHandler(service)),
            Route(ApiKey.LEAVE_GROUP, LeaveGroupHandler(service)),
            Route(ApiKey.SYNC_GROUP, SyncGroupHandler(service)),
            Route(ApiKey.DESCRIBE_GROUPS, DescribeGroupsHandler(service)),
            Route(ApiKey.LIST_GROUPS, ListGroupsHandler(service)),
            Route(ApiKey.DELETE_GROUPS, DeleteGroupsHandler(service)),
            Route(ApiKey.OFFSET_DELETE, OffsetDeleteHandler(service, cache)),
            Route(ApiKey.CONSUMER_GROUP_HEARTBEAT, refuse_heartbeat),
            Route(ApiKey.CONSUMER_GROUP_DESCRIBE, refuse_description),
        ]
