"""OffsetCommit (key 8): how far a group has come in partitions."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Places, topic_partitions
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

_TOPICS: Final = topic_partitions(also=("topic_id",))


@dataclass(slots=True)
class OffsetCommitRequestPartition:
    """The next offset to consume. ``commit_timestamp``: milliseconds, -1 for the broker's time."""

    partition_index: Int32 = 0
    committed_offset: Annotated[Int64, In("0+", varies=True)] = 0
    committed_leader_epoch: Annotated[Int32, In("6+", ignorable=True)] = -1
    commit_timestamp: Annotated[Int64, In("1")] = -1
    committed_metadata: String | None = ""


@dataclass(slots=True)
class OffsetCommitRequestTopic:
    """Partitions of one topic, which has an id instead of a name from version 10 on."""

    name: Annotated[String, In("0-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, In("10+", ignorable=True)] = ZERO_UUID
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


@dataclass(slots=True)
class OffsetCommitRequest(Message):
    """``retention_time_ms`` -1: as the broker is configured."""

    SPEC = request(
        ApiKey.OFFSET_COMMIT,
        Places(_TOPICS, _TOPICS, group="group_id"),
        max_elements=MANY,
    )

    group_id: String = ""
    generation_id_or_member_epoch: Annotated[Int32, In("1+", ignorable=True)] = -1
    member_id: Annotated[String, In("1+", ignorable=True)] = ""
    group_instance_id: Annotated[String | None, In("7+")] = None
    retention_time_ms: Annotated[Int64, In("2-4", ignorable=True)] = -1
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


@dataclass(slots=True)
class OffsetCommitResponsePartition:
    """How it went for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(slots=True)
class OffsetCommitResponseTopic:
    """How it went for partitions of one topic, which has an id instead of a name from 10 on."""

    name: Annotated[String, In("0-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, In("10+", ignorable=True)] = ZERO_UUID
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)


@dataclass(slots=True)
class OffsetCommitResponse(Message):
    """One result per partition."""

    SPEC = response(ApiKey.OFFSET_COMMIT)

    throttle_time_ms: Annotated[Int32, In("3+", ignorable=True)] = 0
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)
