"""AlterConfigs (key 33): replace the configurations of topics and brokers."""

from __future__ import annotations

from minikafka.core.security.acls import AclOperation
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
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


class AlterConfigsHandler:
    """Serves AlterConfigs (a ``TaskHandler``).

    One result per resource of the request, in its order."""

    def __init__(self, admin: ConfigAdminManager) -> None:
        self._admin = admin

    async def __call__(
        self, context: RequestContext, request: AlterConfigsRequest
    ) -> AlterConfigsResponse:
        async def alter(resource: AlterConfigsResource) -> None:
            await self._admin.replace(
                resource.resource_type,
                resource.resource_name,
                [Change(config.name, config.value) for config in resource.configs],
                request.validate_only,
            )

        results = await outcomes(request.resources, alter)
        return AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error, message, resource.resource_type, resource.resource_name
                )
                for resource, (error, message) in zip(request.resources, results, strict=True)
            ]
        )


ALTER_CONFIGS = Api(
    key=ApiKey.ALTER_CONFIGS,
    handler=lambda broker: AlterConfigsHandler(config_admin(broker)),
    task=True,
    authorization=config_guard(
        AclOperation.ALTER_CONFIGS, "responses", AlterConfigsResourceResponse, once_only=True
    ),
    quota=Quota.REQUESTS,
    changes_state=False,
)
