"""DescribeShareGroupOffsets (key 90), AlterShareGroupOffsets (91), DeleteShareGroupOffsets (92):
where the share-partitions of a group start (KIP-932)."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Level, Places, topic_partitions
from minikafka.protocol.schema import (
    MANY,
    ORDINARY,
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


@dataclass(slots=True)
class AlterShareGroupOffsetsRequestPartition:
    """Where a share-partition is to start."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0


@dataclass(slots=True)
class AlterShareGroupOffsetsRequestTopic:
    """Partitions of one topic."""

    topic_name: String = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(default_factory=list)


@dataclass(slots=True)
class AlterShareGroupOffsetsRequest(Message):
    """Start offsets of share-partitions."""

    SPEC = request(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        Places(
            topic_partitions(key="topic_name"),
            topic_partitions("responses", "topic_name"),
            group="group_id",
            error_level=0,
        ),
        max_elements=MANY,
    )

    group_id: String = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(default_factory=list)


@dataclass(slots=True)
class AlterShareGroupOffsetsResponsePartition:
    """How it went for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


@dataclass(slots=True)
class AlterShareGroupOffsetsResponseTopic:
    """How it went for partitions of one topic."""

    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(default_factory=list)


@dataclass(slots=True)
class AlterShareGroupOffsetsResponse(Message):
    """One result per partition, unless the group as a whole is refused."""

    SPEC = response(ApiKey.ALTER_SHARE_GROUP_OFFSETS)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(default_factory=list)


@dataclass(slots=True)
class DeleteShareGroupOffsetsRequestTopic:
    """One topic."""

    topic_name: String = ""


@dataclass(slots=True)
class DeleteShareGroupOffsetsRequest(Message):
    """Topics of one group."""

    SPEC = request(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        Places(
            (Level("topics", "topic_name"),),
            (Level("responses", "topic_name"),),
            group="group_id",
            error_level=0,
        ),
        max_elements=ORDINARY,
    )

    group_id: String = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(default_factory=list)


@dataclass(slots=True)
class DeleteShareGroupOffsetsResponseTopic:
    """How it went for one topic."""

    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    error_code: Int16 = 0
    error_message: String | None = None


@dataclass(slots=True)
class DeleteShareGroupOffsetsResponse(Message):
    """One result per topic, unless the group as a whole is refused."""

    SPEC = response(ApiKey.DELETE_SHARE_GROUP_OFFSETS)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(default_factory=list)
