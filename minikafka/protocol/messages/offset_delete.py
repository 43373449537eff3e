"""OffsetDelete (key 47): offsets of topics that a group no longer consumes."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import PARTITION_ERRORS, TOPIC_PARTITIONS, Places
from minikafka.protocol.schema import MANY, Int16, Int32, Message, String, request, response


@dataclass(slots=True)
class OffsetDeleteRequestPartition:
    """One partition."""

    partition_index: Int32 = 0


@dataclass(slots=True)
class OffsetDeleteRequestTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)


@dataclass(slots=True)
class OffsetDeleteRequest(Message):
    """Whose offsets are to go (KIP-496)."""

    SPEC = request(
        ApiKey.OFFSET_DELETE,
        Places(
            TOPIC_PARTITIONS,
            TOPIC_PARTITIONS,
            group="group_id",
            error_level=0,
            row_errors=PARTITION_ERRORS | {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC},
        ),
        max_elements=MANY,
    )

    group_id: String = ""
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)


@dataclass(slots=True)
class OffsetDeleteResponsePartition:
    """How it went for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(slots=True)
class OffsetDeleteResponseTopic:
    """How it went for partitions of one topic."""

    name: String = ""
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)


@dataclass(slots=True)
class OffsetDeleteResponse(Message):
    """One result per partition, unless the group as a whole is refused."""

    SPEC = response(ApiKey.OFFSET_DELETE)

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)
