"""CreateTopics (key 19): new topics, placed by the controller or by the request."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Level, Places
from minikafka.protocol.schema import (
    MANY,
    Bool,
    In,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Uuid,
    request,
    response,
)


@dataclass(slots=True)
class CreatableReplicaAssignment:
    """Which brokers hold one partition."""

    partition_index: Int32 = 0
    broker_ids: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class CreatableTopicConfig:
    """A configuration value of the new topic."""

    name: String = ""
    value: String | None = ""


@dataclass(slots=True)
class CreatableTopic:
    """Either counts or ``assignments``; -1 with the other given, or for the defaults."""

    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)


@dataclass(slots=True)
class CreateTopicsRequest(Message):
    """Topics to create within ``timeout_ms``."""

    SPEC = request(
        ApiKey.CREATE_TOPICS, Places((Level("topics"),), (Level("topics"),)), max_elements=MANY
    )

    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: Int32 = 60000
    validate_only: Annotated[Bool, In("1+")] = False


@dataclass(slots=True)
class CreatableTopicConfigs:
    """A configuration value that the topic has now."""

    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


@dataclass(slots=True)
class CreatableTopicResult:
    """How it went for one topic, and what it became."""

    name: String = ""
    topic_id: Annotated[Uuid, In("7+", ignorable=True)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, In("1+", ignorable=True)] = ""
    # Why ``configs`` is not there, such as missing authorisation.
    topic_config_error_code: Annotated[Int16, In("5+", tag=0, ignorable=True)] = 0
    num_partitions: Annotated[Int32, In("5+", ignorable=True)] = -1
    replication_factor: Annotated[Int16, In("5+", ignorable=True)] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, In("5+", ignorable=True)] = field(
        default_factory=list
    )


@dataclass(slots=True)
class CreateTopicsResponse(Message):
    """One result per topic."""

    SPEC = response(ApiKey.CREATE_TOPICS)

    throttle_time_ms: Annotated[Int32, In("2+", ignorable=True)] = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)
