"""Znodes of notifications and of administrators' requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from minikafka.core.topic_names import name_problem
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.znodes.json_form import Fields, encode_json

_LOG_DIR_FAILURE = 1


def _partition_list(partitions: frozenset[TopicPartition]) -> list[dict[str, str | int]]:
    return [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(partitions)]


def _partition_set(fields: Fields) -> frozenset[TopicPartition]:
    return frozenset(_topic_partition(entry) for entry in fields.objects("partitions"))


def _topic_partition(entry: Fields) -> TopicPartition:
    """Return the partition that an entry names. Both of its parts become names in a path."""
    found = TopicPartition(entry.text("topic"), entry.integer("partition"))
    problem = name_problem(found.topic)
    if problem is not None or found.partition < 0:
        raise entry.broken(problem or f"partition {found.partition} is negative")
    return found


@dataclass(frozen=True, slots=True)
class ConfigChangeZnode:
    """``/config/changes/config_change_N``, sequential: this entity's configuration changed."""

    path: ClassVar[str] = paths.CONFIG_CHANGE_PREFIX

    entity_path: str  # e.g. topics/flights

    def encode(self) -> bytes:
        return encode_json({"version": 2, "entity_path": self.entity_path})

    @classmethod
    def decode(cls, data: bytes) -> ConfigChangeZnode:
        """Versions 1 (entity type and name) and 2. Raises ``MalformedZnode``."""
        fields = Fields(cls.path, data)
        version = fields.integer("version")
        if version == 1:
            return cls(f"{fields.text('entity_type')}/{fields.text('entity_name')}")
        if version != 2:
            raise fields.broken(f"version {version} is not supported")
        return cls(fields.text("entity_path"))


@dataclass(frozen=True, slots=True)
class IsrChangeZnode:
    """``/isr_change_notification/isr_change_N``, sequential: leaders changed these ISRs."""

    path: ClassVar[str] = paths.ISR_CHANGE_PREFIX

    partitions: frozenset[TopicPartition]

    def encode(self) -> bytes:
        return encode_json({"version": 1, "partitions": _partition_list(self.partitions)})

    @classmethod
    def decode(cls, data: bytes) -> IsrChangeZnode:
        """Raises ``MalformedZnode``."""
        return cls(_partition_set(Fields(cls.path, data)))


@dataclass(frozen=True, slots=True)
class LogDirEventZnode:
    """``/log_dir_event_notification/log_dir_event_N``, sequential: a log directory has failed."""

    path: ClassVar[str] = paths.LOG_DIR_EVENT_PREFIX

    broker_id: int

    def encode(self) -> bytes:
        return encode_json({"version": 1, "broker": self.broker_id, "event": _LOG_DIR_FAILURE})

    @classmethod
    def decode(cls, data: bytes) -> LogDirEventZnode:
        """Raises ``MalformedZnode``."""
        return cls(Fields(cls.path, data).integer("broker"))


@dataclass(frozen=True, slots=True)
class ReassignPartitionsZnode:
    """``/admin/reassign_partitions``: target replicas by partition, as before KIP-455."""

    path: ClassVar[str] = paths.REASSIGN_PARTITIONS

    replicas: Mapping[TopicPartition, tuple[int, ...]]

    def encode(self) -> bytes:
        partitions = [
            {"topic": tp.topic, "partition": tp.partition, "replicas": replicas}
            for tp, replicas in sorted(self.replicas.items())
        ]
        return encode_json({"version": 1, "partitions": partitions})

    @classmethod
    def decode(cls, data: bytes) -> ReassignPartitionsZnode:
        """Raises ``MalformedZnode``."""
        return cls(
            {
                _topic_partition(e): e.integers("replicas")
                for e in Fields(cls.path, data).objects("partitions")
            }
        )


@dataclass(frozen=True, slots=True)
class PreferredElectionZnode:
    """``/admin/preferred_replica_election``: partitions that should get their preferred leader."""

    path: ClassVar[str] = paths.PREFERRED_REPLICA_ELECTION

    partitions: frozenset[TopicPartition]

    def encode(self) -> bytes:
        return encode_json({"version": 1, "partitions": _partition_list(self.partitions)})

    @classmethod
    def decode(cls, data: bytes) -> PreferredElectionZnode:
        """Raises ``MalformedZnode``."""
        return cls(_partition_set(Fields(cls.path, data)))
