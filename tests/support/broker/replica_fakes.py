"""Fakes of ZooKeeper, of the metadata and of topic settings for replica managers.

These fakes stand above the ports: a test reads and fails the writes of single partitions, and needs
no session. ``tests.support.zookeeper.direct`` has the znodes themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from minikafka.kernel.cluster import (
    Broker,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    TopicPartition,
)
from minikafka.kernel.ports import CoordinationError
from minikafka.server.broker.metadata.topic_configs import TopicConfig


class StateZnodes:
    """The state znodes as ``ZkStore`` reads and writes them. ``away`` fails every request,
    ``forbidden`` the write of some partitions."""

    def __init__(self) -> None:
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        self.announced: list[list[TopicPartition]] = []
        self.log_dir_events: list[int] = []
        self.away = False
        self.tries = 0
        self.forbidden: set[TopicPartition] = set()
        self.held: asyncio.Event | None = None

    async def update_isrs(
        self, states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch]
    ) -> dict[TopicPartition, int | CoordinationError | None]:
        if self.held is not None:
            await self.held.wait()
        self.tries += 1
        if self.away:
            raise CoordinationError(", ".join(map(str, states)))
        return {tp: self._write(tp, state.leader_and_isr) for tp, state in states.items()}

    def _write(
        self, topic_partition: TopicPartition, new_state: LeaderAndIsr
    ) -> int | CoordinationError | None:
        if topic_partition in self.forbidden:
            return CoordinationError(str(topic_partition))
        if self.states[topic_partition].zk_version != new_state.zk_version:
            return None
        version = new_state.zk_version + 1
        self.states[topic_partition] = replace(new_state, zk_version=version)
        return version

    async def leader_isr_states(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
        if self.away:
            raise CoordinationError(", ".join(map(str, partitions)))
        return {
            tp: LeaderIsrAndControllerEpoch(self.states[tp], 1)
            for tp in partitions
            if tp in self.states
        }

    async def propagate_log_dir_event(self, broker_id: int) -> None:
        if self.away:
            raise CoordinationError("/log_dir_event_notification")
        self.log_dir_events.append(broker_id)

    async def propagate_isr_changes(self, partitions: Sequence[TopicPartition]) -> None:
        if self.away:
            raise CoordinationError("/isr_change_notification")
        self.announced.append(list(partitions))


@dataclass
class Metadata:
    """The metadata that all brokers of a test share, in place of a ``MetadataCache``."""

    alive: dict[int, Broker] = field(default_factory=dict)
    topic_ids: dict[UUID, str] = field(default_factory=dict)
    leaders: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)

    def topic_name(self, topic_id: UUID) -> str | None:
        return self.topic_ids.get(topic_id)

    def contains_topic(self, topic: str) -> bool:
        return topic in self.topic_ids.values()

    def contains(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self.leaders

    def broker(self, broker_id: int) -> Broker | None:
        return self.alive.get(broker_id)

    def partition_leader(self, topic_partition: TopicPartition) -> tuple[int, int] | None:
        return self.leaders.get(topic_partition)


class Configs:
    def __init__(self) -> None:
        self.by_topic: dict[str, TopicConfig] = {}
        self.failures = 0
        self.forgotten: list[str] = []

    async def load(self, topics: Iterable[str]) -> None:
        if self.failures:
            self.failures -= 1
            raise CoordinationError("/config/topics")

    def get(self, topic: str) -> TopicConfig:
        return self.by_topic.get(topic, TopicConfig())

    def forget(self, topic: str) -> None:
        self.forgotten.append(topic)
