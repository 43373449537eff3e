"""ApiVersions (key 18): the APIs that this broker serves, and supported and finalized features."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.features import Levels
from minikafka.protocol.messages.api_versions import (
    FIRST_VERSION_WITH_LEVEL_0,
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.listeners.server_connection import ServerConnection


class FeatureState(NamedTuple):
    """The features that this broker supports, and those that the cluster has finalized with their
    epoch: the version of ``/feature``, or -1."""

    supported: Mapping[str, Levels] = MappingProxyType({})
    finalized: Mapping[str, int] = MappingProxyType({})
    epoch: int = -1


class ApiVersionsHandler:
    """Serves ApiVersions. ``served`` has one row per API, sorted by key, including ApiVersions.
    ``unlisted`` returns the keys of those that clients need not know of now."""

    def __init__(
        self,
        served: list[ApiVersion],
        features: Callable[[], FeatureState],
        unlisted: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self.served = served
        self._features = features
        self._unlisted = unlisted

    def __call__(self, context: RequestContext, request: ApiVersionsRequest, reply: Reply) -> None:
        if not request.is_valid(context.version):
            reply(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
        else:
            connection = context.connection
            if isinstance(connection, ServerConnection):
                name, version = request.client_software_name, request.client_software_version
                connection.clients.identify(connection, context.client_id, name, version)
            reply(self.response(context.version))

    def response(self, version: int) -> ApiVersionsResponse:
        """Return the response in a version. Clients of version 3 may fail on a feature whose lowest
        level is 0, so that it is not listed for them (KAFKA-17492)."""
        supported, finalized, epoch = self._features()
        unlisted = self._unlisted()
        return ApiVersionsResponse(
            api_keys=[row for row in self.served if row.api_key not in unlisted],
            supported_features=[
                SupportedFeatureKey(name, *levels)
                for name, levels in supported.items()
                if levels.lowest > 0 or version >= FIRST_VERSION_WITH_LEVEL_0
            ],
            finalized_features_epoch=epoch,
            finalized_features=[
                FinalizedFeatureKey(name, level, level)
                for name, level in finalized.items()
                if level != 0
            ],
        )
