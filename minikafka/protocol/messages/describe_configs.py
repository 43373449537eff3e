"""DescribeConfigs (key 32): configuration values of topics and brokers, and whence they come."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Places, resources
from minikafka.protocol.schema import (
    LOOK_UPS,
    Bool,
    In,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class DescribeConfigsResource:
    """A topic or broker; ``configuration_keys`` None for all."""

    # 2 topic, 4 broker, 8 broker logger.
    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: list[String] | None = field(default_factory=list)


@dataclass(slots=True)
class DescribeConfigsRequest(Message):
    """Resources to describe."""

    SPEC = request(
        ApiKey.DESCRIBE_CONFIGS,
        Places(resources("resources"), resources("results")),
        max_elements=LOOK_UPS,
    )

    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: Annotated[Bool, In("1+")] = False
    include_documentation: Annotated[Bool, In("3+")] = False


@dataclass(slots=True)
class DescribeConfigsSynonym:
    """A value that would count if those before it were not set."""

    name: String = ""
    value: String | None = ""
    source: Int8 = 0


@dataclass(slots=True)
class DescribeConfigsResourceResult:
    """One value. Sensitive ones are None."""

    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    is_default: Annotated[Bool, In("0")] = False
    # 1 topic, 2 and 3 dynamic broker (own, cluster default), 4 static broker, 5 default.
    config_source: Annotated[Int8, In("1+", ignorable=True)] = -1
    is_sensitive: Bool = False
    synonyms: Annotated[list[DescribeConfigsSynonym], In("1+", ignorable=True)] = field(
        default_factory=list
    )
    config_type: Annotated[Int8, In("3+", ignorable=True)] = 0
    documentation: Annotated[String | None, In("3+", ignorable=True)] = ""


@dataclass(slots=True)
class DescribeConfigsResult:
    """The values of one resource."""

    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)


@dataclass(slots=True)
class DescribeConfigsResponse(Message):
    """One result per resource."""

    SPEC = response(ApiKey.DESCRIBE_CONFIGS)

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)
