"""ListOffsets (key 2): the offset that belongs to a timestamp, or an end of a log."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import TOPIC_PARTITIONS, Places
from minikafka.protocol.schema import (
    MANY,
    In,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class ListOffsetsPartition:
    """The question for one partition."""

    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, In("4+", ignorable=True)] = -1
    timestamp: Int64 = 0
    max_num_offsets: Annotated[Int32, In("0")] = 1


@dataclass(slots=True)
class ListOffsetsTopic:
    """The partitions of one topic."""

    name: String = ""
    partitions: list[ListOffsetsPartition] = field(default_factory=list)


@dataclass(slots=True)
class ListOffsetsRequest(Message):
    """``timestamp`` -1 asks for the end, -2 for the start, -3 for the latest timestamp.

    ``timeout_ms`` is for reads from remote storage."""

    SPEC = request(
        ApiKey.LIST_OFFSETS,
        Places(TOPIC_PARTITIONS, TOPIC_PARTITIONS),
        Places(TOPIC_PARTITIONS, TOPIC_PARTITIONS, since=1, values={"timestamp": -1, "offset": -1}),
        max_elements=MANY,
    )

    # -1 from consumers.
    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, In("2+")] = 0
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: Annotated[Int32, In("10+", ignorable=True)] = 0


@dataclass(slots=True)
class ListOffsetsPartitionResponse:
    """An offset with its timestamp; -1, -1 when there is none."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    # Version 0 answers with several offsets, the latest first.
    old_style_offsets: Annotated[list[Int64], In("0")] = field(default_factory=list)
    timestamp: Annotated[Int64, In("1+")] = -1
    offset: Annotated[Int64, In("1+")] = -1
    leader_epoch: Annotated[Int32, In("4+")] = -1


@dataclass(slots=True)
class ListOffsetsTopicResponse:
    """The results for one topic."""

    name: String = ""
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)


@dataclass(slots=True)
class ListOffsetsResponse(Message):
    """One result per partition of the request."""

    SPEC = response(ApiKey.LIST_OFFSETS)

    throttle_time_ms: Annotated[Int32, In("2+", ignorable=True)] = 0
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)
