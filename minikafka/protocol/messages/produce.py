"""Produce (key 0): append record batches to partitions."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Addresses, Places, topic_partitions
from minikafka.protocol.schema import (
    MANY,
    In,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    String,
    Uuid,
    request,
    response,
)


@dataclass(slots=True)
class PartitionProduceData:
    """The batches for one partition."""

    index: Int32 = 0
    records: Records | None = None


@dataclass(slots=True)
class TopicProduceData:
    """The batches for one topic, which has an id instead of a name from version 13 on."""

    name: Annotated[String, In("0-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, In("13+", ignorable=True)] = ZERO_UUID
    partition_data: list[PartitionProduceData] = field(default_factory=list)


@dataclass(slots=True)
class ProduceRequest(Message):
    """``acks``: 0 no answer, 1 when the leader has appended, -1 when the whole ISR has."""

    SPEC = request(
        ApiKey.PRODUCE,
        Places(
            topic_partitions("topic_data", "name", "partition_data", "index", also=("topic_id",)),
            topic_partitions(
                "responses", "name", "partition_responses", "index", also=("topic_id",)
            ),
            transactional_id="transactional_id",
            values={"base_offset": -1, "log_append_time_ms": -1, "log_start_offset": -1},
        ),
        max_elements=MANY,
    )

    transactional_id: Annotated[String | None, In("3+")] = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = field(default_factory=list)

    def copy_records(self) -> None:
        """Copy the records, which lie in the receive buffer of the connection."""
        for topic in self.topic_data:
            for data in topic.partition_data:
                if data.records is not None:
                    data.records = bytes(data.records)


@dataclass(slots=True)
class BatchIndexAndErrorMessage:
    """A record for which its batch was refused (KIP-467)."""

    batch_index: Int32 = 0
    batch_index_error_message: String | None = None


@dataclass(slots=True)
class LeaderIdAndEpoch:
    """Who leads instead, sent with NOT_LEADER_OR_FOLLOWER (KIP-951)."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@dataclass(slots=True)
class PartitionProduceResponse:
    """Where the batch went, or why it did not."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    # -1 where the topic keeps the time that producers give.
    log_append_time_ms: Annotated[Int64, In("2+", ignorable=True)] = -1
    log_start_offset: Annotated[Int64, In("5+", ignorable=True)] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], In("8+", ignorable=True)] = field(
        default_factory=list
    )
    error_message: Annotated[String | None, In("8+", ignorable=True)] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, In("10+", tag=0)] = None


@dataclass(slots=True)
class TopicProduceResponse:
    """The results for one topic, which has an id instead of a name from version 13 on."""

    name: Annotated[String, In("0-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, In("13+", ignorable=True)] = ZERO_UUID
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)


@dataclass(slots=True)
class NodeEndpoint:
    """Where a leader named in the response can be reached."""

    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@dataclass(slots=True)
class ProduceResponse(Message):
    """One result per partition of the request."""

    SPEC = response(ApiKey.PRODUCE, Addresses("node_endpoints", since=10))

    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: Annotated[Int32, In("1+", ignorable=True)] = 0
    node_endpoints: Annotated[list[NodeEndpoint], In("10+", tag=0)] = field(default_factory=list)
