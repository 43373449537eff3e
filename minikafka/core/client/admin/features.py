"""Calls about cluster features (KIP-584): describe them, and change the finalized levels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from minikafka.core.client.calls import Call, ControllerCall, error_of, raise_for
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.features import FeatureUpdate, Levels
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

# Brokers require a name and a version from version 3 on; the version is what Java's client says
# when it does not know its own.
_SOFTWARE: Final = ("minikafka", "unknown")
WITH_RESULTS: Final = 1  # the last version of UpdateFeatures with a result for each feature


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """The features that a broker supports, and the finalized levels of the cluster. ``epoch`` rises
    with each change of these; None if the brokers have no finalized features."""

    supported: Mapping[str, Levels]
    finalized: Mapping[str, int]
    epoch: int | None


def describe_features() -> Call[FeatureMetadata]:
    """Build ApiVersions. Any broker serves it. A broker before Kafka 2.7 returns no feature, and
    before version 4 of ApiVersions none that may be off."""

    def read(response: ApiVersionsResponse) -> FeatureMetadata:
        raise_for(response.error_code)
        epoch = response.finalized_features_epoch
        return FeatureMetadata(
            {r.name: Levels(r.min_version, r.max_version) for r in response.supported_features},
            {row.name: row.max_version_level for row in response.finalized_features},
            epoch if epoch >= 0 else None,
        )

    return Call(ApiVersionsRequest(*_SOFTWARE), read)


def update_features(
    updates: Iterable[FeatureUpdate], timeout_ms: int, validate_only: bool = False
) -> ControllerCall[dict[str, KafkaError | None]]:
    """Build UpdateFeatures. The result is None for each feature that was updated, or could be."""
    rows = [
        FeatureUpdateKey(update.feature, update.level, upgrade_type=update.upgrade_type)
        for update in updates
    ]

    def read(response: UpdateFeaturesResponse) -> dict[str, KafkaError | None]:
        raise_for(response.error_code, response.error_message)
        return {
            row.feature: error_of(row.error_code, row.error_message) for row in response.results
        }

    request = UpdateFeaturesRequest(timeout_ms, rows, validate_only)
    return ControllerCall(request, read, highest_version=WITH_RESULTS)
