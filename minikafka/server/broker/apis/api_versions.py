"""ApiVersions (key 18): the APIs that this broker serves, and the finalized features."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.listeners.server_connection import ServerConnection


class ApiVersionsHandler:
    """Serves ApiVersions. ``served`` has one row per API, sorted by key, including ApiVersions.
    ``features`` returns the epoch and the levels of the finalized features."""

    def __init__(
        self,
        served: list[ApiVersion],
        features: Callable[[], tuple[int, Mapping[str, int]]],
    ) -> None:
        self.served = served
        self._features = features

    def __call__(self, context: RequestContext, request: ApiVersionsRequest, reply: Reply) -> None:
        if not request.is_valid(context.version):
            reply(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
        else:
            connection = context.connection
            if isinstance(connection, ServerConnection):
                name, version = request.client_software_name, request.client_software_version
                connection.clients.identify(connection, context.client_id, name, version)
            reply(self.response())

    def response(self) -> ApiVersionsResponse:
        epoch, levels = self._features()
        finalized = [FinalizedFeatureKey(name, level, level) for name, level in levels.items()]
        return ApiVersionsResponse(
            api_keys=self.served,
            finalized_features_epoch=epoch,
            finalized_features=finalized,
        )
