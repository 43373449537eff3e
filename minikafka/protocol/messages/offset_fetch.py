"""OffsetFetch (key 9): how far groups had come, by their last commits."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Final

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import (
    PARTITION_ERRORS,
    TOPIC_PARTITIONS,
    Level,
    Places,
    topic_partitions,
)
from minikafka.protocol.schema import (
    MANY,
    Bool,
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

_GROUPS = Level("groups", "group_id", "group")
_IDS: Final = ("topic_id",)
_REQUESTED = topic_partitions(partitions="partition_indexes", index="")
_NO_OFFSET: Final = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": ""}


@dataclass(slots=True)
class OffsetFetchRequestTopic:
    """Partitions of one topic, up to version 7."""

    name: String = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class OffsetFetchRequestTopics:
    """Partitions of one topic, from version 8. From 10 on it has an id instead of a name."""

    name: Annotated[String, In("8-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, In("10+", ignorable=True)] = ZERO_UUID
    partition_indexes: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class OffsetFetchRequestGroup:
    """One of many groups; ``topics`` None asks for all that it has committed."""

    group_id: String = ""
    member_id: Annotated[String | None, In("9+", ignorable=True)] = None
    member_epoch: Annotated[Int32, In("9+", ignorable=True)] = -1
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list)


@dataclass(slots=True)
class OffsetFetchRequest(Message):
    """One group up to version 7, many from 8. ``require_stable``: no answer for partitions whose
    next commit is under way (KIP-447)."""

    SPEC = request(
        ApiKey.OFFSET_FETCH,
        Places(_REQUESTED, TOPIC_PARTITIONS, group="group_id", values=_NO_OFFSET),
        Places(
            _REQUESTED,
            TOPIC_PARTITIONS,
            since=2,
            group="group_id",
            error_level=0,
            row_errors=PARTITION_ERRORS,
            values=_NO_OFFSET,
        ),
        Places(
            (_GROUPS, *topic_partitions(partitions="partition_indexes", index="", also=_IDS)),
            (_GROUPS, *topic_partitions(also=_IDS)),
            since=8,
            error_level=1,
            row_errors=PARTITION_ERRORS,
            values=_NO_OFFSET,
        ),
        max_elements=MANY,
    )

    group_id: Annotated[String, In("0-7")] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, In("0-7", nullable="2-7")] = field(
        default_factory=list
    )
    groups: Annotated[list[OffsetFetchRequestGroup], In("8+")] = field(default_factory=list)
    require_stable: Annotated[Bool, In("7+")] = False


@dataclass(slots=True)
class OffsetFetchResponsePartition:
    """``committed_offset`` -1: there is none."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, In("5-7", ignorable=True)] = -1
    metadata: String | None = ""
    error_code: Int16 = 0


@dataclass(slots=True)
class OffsetFetchResponseTopic:
    """Partitions of one topic, up to version 7."""

    name: String = ""
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)


@dataclass(slots=True)
class OffsetFetchResponsePartitions:
    """``committed_offset`` -1: there is none."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: String | None = ""
    error_code: Int16 = 0


@dataclass(slots=True)
class OffsetFetchResponseTopics:
    """Partitions of one topic, from version 8. From 10 on it has an id instead of a name."""

    name: Annotated[String, In("8-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, In("10+", ignorable=True)] = ZERO_UUID
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list)


@dataclass(slots=True)
class OffsetFetchResponseGroup:
    """The offsets of one group, or why there are none."""

    group_id: String = ""
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)
    error_code: Int16 = 0


@dataclass(slots=True)
class OffsetFetchResponse(Message):
    """One group up to version 7, many from 8."""

    SPEC = response(ApiKey.OFFSET_FETCH)

    throttle_time_ms: Annotated[Int32, In("3+", ignorable=True)] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], In("0-7")] = field(default_factory=list)
    error_code: Annotated[Int16, In("2-7", ignorable=True)] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], In("8+")] = field(default_factory=list)
