"""AlterShareGroupOffsets (key 91): move share-partitions of a group without members."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Places, topic_partitions
from minikafka.protocol.schema import (
    MANY,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Uuid,
    request,
    response,
)


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
