"""DescribeTopicPartitions (key 75): topics and their partitions, page by page (KIP-966)."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Level, Places
from minikafka.protocol.schema import (
    MANY,
    Bool,
    In,
    Int16,
    Int32,
    Message,
    String,
    Uuid,
    request,
    response,
)

AUTHORIZED_OPERATIONS_OMITTED = -(1 << 31)


@dataclass(slots=True)
class Cursor:
    """The partition that a page begins with."""

    topic_name: String = ""
    partition_index: Int32 = 0


@dataclass(slots=True)
class DescribedTopicName:
    """A topic by name. Kafka: ``TopicRequest``."""

    name: String = ""


@dataclass(slots=True)
class DescribeTopicPartitionsRequest(Message):
    """``topics`` empty: all topics. ``cursor`` None: the first page."""

    SPEC = request(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        Places((Level("topics"),), (Level("topics"),)),
        max_elements=MANY,
    )

    topics: list[DescribedTopicName] = field(default_factory=list)
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@dataclass(slots=True)
class DescribeTopicPartitionsResponsePartition:
    """Leader, replicas and ISR of a partition. Eligible leader replicas exist in KRaft only."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, In("0+", ignorable=True)] = -1
    replica_nodes: list[Int32] = field(default_factory=list)
    isr_nodes: list[Int32] = field(default_factory=list)
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class DescribeTopicPartitionsResponseTopic:
    """A topic with those of its partitions that are in the page, or an error."""

    error_code: Int16 = 0
    name: String | None = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: Bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(default_factory=list)
    # A bit per operation.
    topic_authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED


@dataclass(slots=True)
class DescribeTopicPartitionsResponse(Message):
    """One page, by topic name. ``next_cursor`` None: it is the last one."""

    SPEC = response(ApiKey.DESCRIBE_TOPIC_PARTITIONS)

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)
    next_cursor: Cursor | None = None
