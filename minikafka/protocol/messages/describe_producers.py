"""DescribeProducers (key 61): the producers that a leader knows of partitions."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import TOPIC_PARTITIONS, Places, topic_partitions
from minikafka.protocol.schema import (
    LOOK_UPS,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class TopicRequest:
    """Partitions of one topic."""

    name: String = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class DescribeProducersRequest(Message):
    """Partitions that the receiver leads."""

    SPEC = request(
        ApiKey.DESCRIBE_PRODUCERS,
        Places(topic_partitions(partitions="partition_indexes", index=""), TOPIC_PARTITIONS),
        max_elements=LOOK_UPS,
    )

    topics: list[TopicRequest] = field(default_factory=list)


@dataclass(slots=True)
class ProducerState:
    """``current_txn_start_offset`` -1: not in a transaction."""

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


@dataclass(slots=True)
class PartitionResponse:
    """The producers of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: list[ProducerState] = field(default_factory=list)


@dataclass(slots=True)
class TopicResponse:
    """Partitions of one topic."""

    name: String = ""
    partitions: list[PartitionResponse] = field(default_factory=list)


@dataclass(slots=True)
class DescribeProducersResponse(Message):
    """One result per partition."""

    SPEC = response(ApiKey.DESCRIBE_PRODUCERS)

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = field(default_factory=list)
