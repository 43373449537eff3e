"""UpdateFeatures (key 57): an administrator changes finalized features (KIP-584)."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
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
class FeatureUpdateKey:
    """The new level of one feature; a level below 1 requests its deletion."""

    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: Annotated[Bool, In("0")] = False
    # 1: upgrade only; 2: safe downgrades; 3: unsafe downgrades.
    upgrade_type: Annotated[Int8, In("1+")] = 1


@dataclass(slots=True)
class UpdateFeaturesRequest(Message):
    """Sent to the controller."""

    SPEC = request(ApiKey.UPDATE_FEATURES, WHOLE, max_elements=LOOK_UPS)

    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey] = field(default_factory=list)
    validate_only: Annotated[Bool, In("1+")] = False


@dataclass(slots=True)
class UpdatableFeatureResult:
    """The result for one feature."""

    feature: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(slots=True)
class UpdateFeaturesResponse(Message):
    """One result for each feature up to version 1, or one error for the whole request."""

    SPEC = response(ApiKey.UPDATE_FEATURES)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Annotated[list[UpdatableFeatureResult], In("0-1", ignorable=True)] = field(
        default_factory=list
    )
