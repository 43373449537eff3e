"""DescribeShareGroupOffsets (key 90): where share-partitions start, and what they still lack."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Level, Places
from minikafka.protocol.schema import (
    MANY,
    In,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Uuid,
    request,
    response,
)

UNKNOWN_LAG: Final = -1


@dataclass(slots=True)
class DescribeShareGroupOffsetsRequestTopic:
    """Partitions of one topic."""

    topic_name: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class DescribeShareGroupOffsetsRequestGroup:
    """One group; ``topics`` None stands for all that it has."""

    group_id: String = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(default_factory=list)


@dataclass(slots=True)
class DescribeShareGroupOffsetsRequest(Message):
    """Share-partitions of groups."""

    SPEC = request(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        Places(
            (Level("groups", "group_id", "group"),),
            (Level("groups", "group_id", "group"),),
        ),
        max_elements=MANY,
    )

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(default_factory=list)


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponsePartition:
    """One share-partition. ``start_offset`` -1: it has none. ``lag`` is the number of records to
    the end that need delivery, or -1."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Annotated[Int64, In("1+", ignorable=True)] = UNKNOWN_LAG
    error_code: Int16 = 0
    error_message: String | None = None


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponseTopic:
    """Share-partitions of one topic."""

    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(default_factory=list)


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponseGroup:
    """One group, or why it cannot be described."""

    group_id: String = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(default_factory=list)
    error_code: Int16 = 0
    error_message: String | None = None


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponse(Message):
    """One result per group."""

    SPEC = response(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)

    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(default_factory=list)
