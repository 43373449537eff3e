"""UpdateFeatures (key 57): the controller changes finalized features (KIP-584)."""

from __future__ import annotations

from typing import Final

from minikafka.core.security.acls import AclOperation
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.features import FeatureUpdate, UpgradeType
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.guards import needs
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.ports import Controller
from minikafka.server.broker.quotas import Quota

# In this version one update that is refused fails the request, and no feature has a result.
ALL_OR_NONE_SINCE: Final = 2


class UpdateFeaturesHandler:
    """Serves UpdateFeatures (a ``TaskHandler``).

    It waits for the event in the controller's queue."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def __call__(
        self, context: RequestContext, request: UpdateFeaturesRequest
    ) -> UpdateFeaturesResponse:
        updates = [_feature_update(row, context.version) for row in request.feature_updates]
        try:
            results = await self._controller.update_features(
                updates, request.validate_only, context.version >= ALL_OR_NONE_SINCE
            )
        except KafkaError as error:
            return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
        errors = [error for error in results.values() if error is not None]
        if errors and context.version >= ALL_OR_NONE_SINCE:
            return UpdateFeaturesResponse(
                error_code=errors[0].code,
                error_message="The update failed for all features since the following feature had "
                f"an error: {errors[0].message}",
            )
        return UpdateFeaturesResponse(
            error_message=None,
            results=[_feature_result(feature, error) for feature, error in results.items()],
        )


def _feature_update(row: FeatureUpdateKey, version: int) -> FeatureUpdate:
    if version == 0:
        kind = UpgradeType.SAFE_DOWNGRADE if row.allow_downgrade else UpgradeType.UPGRADE
    else:
        known = row.upgrade_type in UpgradeType.__members__.values()
        kind = UpgradeType(row.upgrade_type) if known else UpgradeType.UNKNOWN
    return FeatureUpdate(row.feature, row.max_version_level, kind)


def _feature_result(feature: str, error: KafkaError | None) -> UpdatableFeatureResult:
    if error is None:
        return UpdatableFeatureResult(feature, ErrorCode.NONE, None)
    return UpdatableFeatureResult(feature, error.code, error.message)


UPDATE_FEATURES = Api(
    key=ApiKey.UPDATE_FEATURES,
    handler=lambda broker: UpdateFeaturesHandler(broker.controller),
    task=True,
    authorization=needs(AclOperation.ALTER),
    quota=Quota.REQUESTS,
    changes_state=False,
    to_controller=True,
)
