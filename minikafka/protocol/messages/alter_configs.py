"""AlterConfigs (key 33): the whole dynamic configuration of topics and brokers, replaced."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Places, resources
from minikafka.protocol.schema import (
    MANY,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class AlterableConfig:
    """A key and its new value."""

    name: String = ""
    value: String | None = ""


@dataclass(slots=True)
class AlterConfigsResource:
    """All that the topic or broker is to be configured with."""

    # 2 topic, 4 broker, 8 broker logger.
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = field(default_factory=list)


@dataclass(slots=True)
class AlterConfigsRequest(Message):
    """What is not named is forgotten."""

    SPEC = request(
        ApiKey.ALTER_CONFIGS,
        Places(resources("resources"), resources("responses")),
        max_elements=MANY,
    )

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: Bool = False


@dataclass(slots=True)
class AlterConfigsResourceResponse:
    """How it went for one resource."""

    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@dataclass(slots=True)
class AlterConfigsResponse(Message):
    """One result per resource."""

    SPEC = response(ApiKey.ALTER_CONFIGS)

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
