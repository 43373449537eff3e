"""DeleteTopics (key 20): topics to delete, by name or by id."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Level, Places
from minikafka.protocol.schema import (
    MANY,
    In,
    Int16,
    Int32,
    Message,
    String,
    Uuid,
    request,
    response,
)


@dataclass(slots=True)
class DeleteTopicState:
    """A topic by name or by id."""

    name: String | None = None
    topic_id: Uuid = ZERO_UUID


@dataclass(slots=True)
class DeleteTopicsRequest(Message):
    """``topic_names`` up to version 5, ``topics`` from 6."""

    SPEC = request(
        ApiKey.DELETE_TOPICS,
        Places((Level("topic_names", ""),), (Level("responses"),)),
        Places(
            (Level("topics", also=("topic_id",)),),
            (Level("responses", also=("topic_id",)),),
            since=6,
        ),
        max_elements=MANY,
    )

    topics: Annotated[list[DeleteTopicState], In("6+")] = field(default_factory=list)
    topic_names: Annotated[list[String], In("0-5", ignorable=True)] = field(default_factory=list)
    timeout_ms: Int32 = 0


@dataclass(slots=True)
class DeletableTopicResult:
    """How it went for one topic."""

    name: Annotated[String | None, In("0+", nullable="6+")] = ""
    topic_id: Annotated[Uuid, In("6+", ignorable=True)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, In("5+", ignorable=True)] = None


@dataclass(slots=True)
class DeleteTopicsResponse(Message):
    """One result per topic."""

    SPEC = response(ApiKey.DELETE_TOPICS)

    throttle_time_ms: Annotated[Int32, In("1+", ignorable=True)] = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)
