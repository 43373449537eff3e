"""IncrementalAlterConfigs (key 44): single settings of topics and brokers, set or taken away."""

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
class IncrementalAlterableConfig:
    """A key and what to do with it."""

    name: String = ""
    # 0 set, 1 delete, 2 append, 3 subtract.
    config_operation: Int8 = 0
    value: String | None = ""


@dataclass(slots=True)
class IncrementalAlterConfigsResource:
    """The changes to one topic or broker."""

    # 2 topic, 4 broker, 8 broker logger.
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[IncrementalAlterableConfig] = field(default_factory=list)


@dataclass(slots=True)
class IncrementalAlterConfigsRequest(Message):
    """What is not named stays as it is."""

    SPEC = request(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        Places(resources("resources"), resources("responses")),
        max_elements=MANY,
    )

    resources: list[IncrementalAlterConfigsResource] = field(default_factory=list)
    validate_only: Bool = False


@dataclass(slots=True)
class IncrementalAlterConfigsResourceResponse:
    """How it went for one resource."""

    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@dataclass(slots=True)
class IncrementalAlterConfigsResponse(Message):
    """One result per resource."""

    SPEC = response(ApiKey.INCREMENTAL_ALTER_CONFIGS)

    throttle_time_ms: Int32 = 0
    responses: list[IncrementalAlterConfigsResourceResponse] = field(default_factory=list)
