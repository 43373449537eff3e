"""What messages and records of streams groups (KIP-1071) share: topologies, tasks, endpoints."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.schema import Int16, Int32, Int64, String, UInt16


@dataclass(slots=True)
class KeyValue:
    """A client tag, or the configuration of a topic."""

    key: String = ""
    value: String = ""


@dataclass(slots=True)
class TopicInfo:
    """An internal topic of a topology. ``partitions`` 0: the coordinator decides.
    ``replication_factor`` 0: the default of the broker."""

    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[KeyValue] = field(default_factory=list)


@dataclass(slots=True)
class CopartitionGroup:
    """Topics of a subtopology that need the same number of partitions: indices into its lists."""

    source_topics: list[Int16] = field(default_factory=list)
    source_topic_regex: list[Int16] = field(default_factory=list)
    repartition_source_topics: list[Int16] = field(default_factory=list)


@dataclass(slots=True)
class Subtopology:
    """A part of a topology that is connected to the others by repartition topics only.

    It has as many tasks as the largest of its source topics has partitions."""

    subtopology_id: String = ""
    source_topics: list[String] = field(default_factory=list)
    source_topic_regex: list[String] = field(default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)
    repartition_sink_topics: list[String] = field(default_factory=list)
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)
    copartition_groups: list[CopartitionGroup] = field(default_factory=list)


@dataclass(slots=True)
class TaskIds:
    """Tasks of one subtopology: the partitions of its source topics."""

    subtopology_id: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class TaskOffset:
    """The offset of a task in its changelog topics."""

    subtopology_id: String = ""
    partition: Int32 = 0
    offset: Int64 = 0


@dataclass(slots=True)
class UserEndpoint:
    """Where a member answers interactive queries (KIP-535)."""

    host: String = ""
    port: UInt16 = 0
