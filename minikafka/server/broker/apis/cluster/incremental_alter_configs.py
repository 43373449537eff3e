"""IncrementalAlterConfigs (key 44): change some keys of configurations (KIP-339)."""

from __future__ import annotations

from minikafka.core.security.acls import AclOperation
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from minikafka.server.broker.admin.config_alterations import Change
from minikafka.server.broker.admin.configs import ConfigAdminManager
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.cluster.config_requests import (
    config_admin,
    config_guard,
    outcomes,
)
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.quotas import Quota


class IncrementalAlterConfigsHandler:
    """Serves IncrementalAlterConfigs (a ``TaskHandler``).

    One result per resource of the request, in its order."""

    def __init__(self, admin: ConfigAdminManager) -> None:
        self._admin = admin

    async def __call__(
        self, context: RequestContext, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        async def alter(resource: IncrementalAlterConfigsResource) -> None:
            await self._admin.increment(
                resource.resource_type,
                resource.resource_name,
                [Change(c.name, c.value, c.config_operation) for c in resource.configs],
                request.validate_only,
            )

        results = await outcomes(request.resources, alter)
        return IncrementalAlterConfigsResponse(
            responses=[
                IncrementalAlterConfigsResourceResponse(
                    error, message, resource.resource_type, resource.resource_name
                )
                for resource, (error, message) in zip(request.resources, results, strict=True)
            ]
        )


INCREMENTAL_ALTER_CONFIGS = Api(
    key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
    handler=lambda broker: IncrementalAlterConfigsHandler(config_admin(broker)),
    task=True,
    authorization=config_guard(
        AclOperation.ALTER_CONFIGS,
        "responses",
        IncrementalAlterConfigsResourceResponse,
        once_only=True,
    ),
    quota=Quota.REQUESTS,
    changes_state=False,
)
