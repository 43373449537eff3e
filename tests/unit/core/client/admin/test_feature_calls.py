"""The administration calls about features."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.core.client.admin.features import (
    FeatureMetadata,
    describe_features,
    update_features,
)
from minikafka.core.client.calls import ControllerCall
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.features import FeatureUpdate, Levels, UpgradeType
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from minikafka.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.support.client.failures import error_in


@pytest.mark.parametrize("version", range(5))
def test_brokers_of_each_version_accept_the_name_of_this_client(version: int) -> None:
    request = describe_features().request
    read = decode(ApiVersionsRequest, version, encode(request, version))
    assert read.is_valid(version)


def test_features_are_described() -> None:
    response = ApiVersionsResponse(
        0,
        [ApiVersion(ApiKey.PRODUCE, 0, 9)],
        supported_features=[SupportedFeatureKey("group.version", 0, 1)],
        finalized_features_epoch=3,
        finalized_features=[FinalizedFeatureKey("group.version", 1, 1)],
    )
    call = describe_features()
    read = call.read(decode(ApiVersionsResponse, 4, encode(response, 4)))
    assert read == FeatureMetadata({"group.version": Levels(0, 1)}, {"group.version": 1}, 3)
    old = call.read(decode(ApiVersionsResponse, 2, encode(response, 2)))
    assert old == FeatureMetadata({}, {}, None)
    failed = ApiVersionsResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert error_in(call, failed).code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_levels_are_updated_one_by_one() -> None:
    call = update_features(
        [
            FeatureUpdate("a", 2, UpgradeType.UPGRADE),
            FeatureUpdate("b", 0, UpgradeType.SAFE_DOWNGRADE),
        ],
        900,
        validate_only=True,
    )
    assert isinstance(call, ControllerCall)
    assert call.highest_version == 1  # the last version with results
    sent: Any = decode(UpdateFeaturesRequest, 1, encode(call.request, 1))
    rows = [FeatureUpdateKey("a", 2, upgrade_type=1), FeatureUpdateKey("b", 0, upgrade_type=2)]
    assert sent == UpdateFeaturesRequest(900, rows, True)
    refused = UpdatableFeatureResult("b", ErrorCode.INVALID_REQUEST, "no")
    response = UpdateFeaturesResponse(
        error_message=None, results=[UpdatableFeatureResult("a", 0, None), refused]
    )
    outcomes = call.read(response)
    assert outcomes["a"] is None
    failed = outcomes["b"]
    assert isinstance(failed, KafkaError)
    assert (failed.code, failed.message) == (ErrorCode.INVALID_REQUEST, "no")
    other = UpdateFeaturesResponse(error_code=ErrorCode.NOT_CONTROLLER)
    assert error_in(call, other).code is ErrorCode.NOT_CONTROLLER
