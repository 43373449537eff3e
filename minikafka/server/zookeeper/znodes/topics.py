"""Znodes of topics: assignment, partition state, configuration."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from minikafka.kernel.cluster import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
    parse_topic_id,
    topic_id_text,
)
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.znodes.json_form import (
    MAX_EPOCH,
    Fields,
    encode_json,
    properties_order,
    scala_order,
)

RECOVERY_STATES = (0, 1)  # recovered, recovering (KIP-704)


def _replica_map(replicas: Mapping[int, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {name: replicas[int(name)] for name in scala_order(str(p) for p in replicas)}


@dataclass(frozen=True, slots=True)
class TopicZnode:
    """``/brokers/topics/<topic>``: id and replica assignment. Version 3 is written (topic ids,
    Kafka 2.8), 1 to 3 are read; ``topic_id`` is None where an old cluster wrote it."""

    topic: str
    topic_id: UUID | None
    assignment: Mapping[int, ReplicaAssignment]

    @property
    def path(self) -> str:
        return paths.topic(self.topic)

    def encode(self) -> bytes:
        plan = self.assignment
        topic_id = {} if self.topic_id is None else {"topic_id": topic_id_text(self.topic_id)}
        return encode_json(
            {
                "partitions": _replica_map({p: plan[p].replicas for p in plan}),
                "removing_replicas": _replica_map(
                    {p: plan[p].removing for p in plan if plan[p].removing}
                ),
                **topic_id,
                "adding_replicas": _replica_map(
                    {p: plan[p].adding for p in plan if plan[p].adding}
                ),
                "version": 3,
            }
        )

    @classmethod
    def decode(cls, topic: str, data: bytes) -> TopicZnode:
        """Raises ``MalformedZnode``."""
        fields = Fields(paths.topic(topic), data)
        topic_id = None
        if "topic_id" in fields:
            try:
                topic_id = parse_topic_id(fields.text("topic_id"))
            except ValueError as error:
                raise fields.broken("the topic id is broken") from error
        partitions = fields.object("partitions")
        adding = fields.object("adding_replicas")
        removing = fields.object("removing_replicas")
        assignment: dict[int, ReplicaAssignment] = {}
        for name in partitions.names():
            number = paths.number_of(name)
            if number is None:
                raise fields.broken("a partition is not a number")
            assignment[number] = ReplicaAssignment(
                partitions.integers(name), adding.integers(name, ()), removing.integers(name, ())
            )
        return cls(topic, topic_id, dict(sorted(assignment.items())))


@dataclass(frozen=True, slots=True)
class PartitionStateZnode:
    """``/brokers/topics/<topic>/partitions/<n>/state``: leader, ISR and their epochs."""

    topic_partition: TopicPartition
    state: LeaderIsrAndControllerEpoch

    @property
    def path(self) -> str:
        return paths.partition_state(self.topic_partition)

    def encode(self) -> bytes:
        leader = self.state.leader_and_isr
        recovery = leader.leader_recovery_state
        return encode_json(
            {
                "controller_epoch": self.state.controller_epoch,
                "leader": leader.leader,
                "version": 1,
                **({"leader_recovery_state": recovery} if recovery else {}),
                "leader_epoch": leader.leader_epoch,
                "isr": leader.isr,
            }
        )

    @classmethod
    def decode(
        cls, topic_partition: TopicPartition, data: bytes, zk_version: int, mzxid: int = -1
    ) -> PartitionStateZnode:
        """Raises ``MalformedZnode``."""
        fields = Fields(paths.partition_state(topic_partition), data)
        leader_epoch = fields.integer("leader_epoch")
        if not 0 <= leader_epoch <= MAX_EPOCH:
            raise fields.broken(f"{leader_epoch} is no leader epoch")
        recovery = fields.integer("leader_recovery_state", 0)
        if recovery not in RECOVERY_STATES:
            raise fields.broken(f"leader_recovery_state {recovery} is unknown")
        leader_and_isr = LeaderAndIsr(
            fields.integer("leader"), leader_epoch, fields.integers("isr"), zk_version, recovery
        )
        epoch = fields.integer("controller_epoch")
        return cls(topic_partition, LeaderIsrAndControllerEpoch(leader_and_isr, epoch, mzxid))


@dataclass(frozen=True, slots=True)
class ConfigZnode:
    """``/config/<entity type>/<entity name>``: the dynamic configuration of one entity."""

    entity_type: str
    entity_name: str
    config: Mapping[str, str]

    @property
    def path(self) -> str:
        return paths.config(self.entity_type, self.entity_name)

    def encode(self) -> bytes:
        ordered = {name: self.config[name] for name in properties_order(self.config)}
        return encode_json({"version": 1, "config": ordered})

    @classmethod
    def decode(cls, entity_type: str, entity_name: str, data: bytes) -> ConfigZnode:
        """An empty node, or one without ``config``, configures nothing. Raises
        ``MalformedZnode``."""
        if not data:
            return cls(entity_type, entity_name, {})
        fields = Fields(paths.config(entity_type, entity_name), data)
        config = fields.text_map("config") if "config" in fields else {}
        return cls(entity_type, entity_name, config)
