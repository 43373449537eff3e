"""DeleteShareGroupOffsets (key 92): forget topics that a group without members has read."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Level, Places
from minikafka.protocol.schema import (
    ORDINARY,
    Int16,
    Int32,
    Message,
    String,
    Uuid,
    request,
    response,
)


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
