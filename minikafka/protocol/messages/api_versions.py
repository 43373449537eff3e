"""ApiVersions (key 18): which APIs a broker serves, in which versions."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import (
    Bool,
    In,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    request,
    response,
)

FIRST_VERSION_WITH_SOFTWARE = 3
FIRST_VERSION_WITH_LEVEL_0 = 4  # as the lowest level of a supported feature
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@dataclass(slots=True)
class ApiVersionsRequest(Message):
    """Who asks, from version 3."""

    SPEC = request(ApiKey.API_VERSIONS, WHOLE, max_elements=1_000)

    client_software_name: Annotated[String, In("3+", ignorable=True)] = ""
    client_software_version: Annotated[String, In("3+", ignorable=True)] = ""

    def is_valid(self, version: int) -> bool:
        """Whether the request names the client's software and version in the form that KIP-511
        requires from version 3 on, which is safe in metrics and logs."""
        return version < FIRST_VERSION_WITH_SOFTWARE or bool(
            _SOFTWARE.fullmatch(self.client_software_name)
            and _SOFTWARE.fullmatch(self.client_software_version)
        )


@dataclass(slots=True)
class ApiVersion:
    """The versions of one API."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@dataclass(slots=True)
class SupportedFeatureKey:
    """A cluster feature that the broker could do."""

    name: String = ""
    # Version 3 clients cannot read 0 here (KAFKA-17011).
    min_version: Int16 = 0
    max_version: Int16 = 0


@dataclass(slots=True)
class FinalizedFeatureKey:
    """A cluster feature that is on."""

    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


@dataclass(slots=True)
class ApiVersionsResponse(Message):
    """Always under a response header without tagged fields."""

    SPEC = response(ApiKey.API_VERSIONS)

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: Annotated[Int32, In("1+", ignorable=True)] = 0
    supported_features: Annotated[list[SupportedFeatureKey], In("3+", tag=0, ignorable=True)] = (
        field(default_factory=list)
    )
    finalized_features_epoch: Annotated[Int64, In("3+", tag=1, ignorable=True)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], In("3+", tag=2, ignorable=True)] = (
        field(default_factory=list)
    )
    zk_migration_ready: Annotated[Bool, In("3+", tag=3, ignorable=True)] = False
