"""ListConfigResources (key 74): the resources that have configurations (KIP-714, KIP-1142)."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import (
    LOOK_UPS,
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
class ListConfigResourcesRequest(Message):
    """The types of ``ResourceType`` to list; all that the version has if it is empty. Version 0 is
    Kafka 3.7's ListClientMetricsResources."""

    SPEC = request(ApiKey.LIST_CONFIG_RESOURCES, WHOLE, max_elements=LOOK_UPS)

    resource_types: Annotated[list[Int8], In("1+")] = field(default_factory=list)


@dataclass(slots=True)
class ListedConfigResource:
    """Kafka: ``ListConfigResourcesResponseData.ConfigResource``."""

    resource_name: String = ""
    resource_type: Annotated[Int8, In("1+", ignorable=True)] = 16  # CLIENT_METRICS


@dataclass(slots=True)
class ListConfigResourcesResponse(Message):
    SPEC = response(ApiKey.LIST_CONFIG_RESOURCES)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ListedConfigResource] = field(default_factory=list)
