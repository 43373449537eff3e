"""AlterConfigs (key 33): all that a topic or broker is configured with, replaced."""

from __future__ import annotations

from minikafka.broker.config_admin import ConfigAdmin
from minikafka.broker.config_alterations import Change
from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.altered_resources import outcomes
from minikafka.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


class AlterConfigsHandler:
    """A TaskHandler. One answer per resource of the request, in its order."""

    def __init__(self, admin: ConfigAdmin) -> None:
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

        told = await outcomes(request.resources, alter)
        return AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error, message, resource.resource_type, resource.resource_name
                )
                for resource, (error, message) in zip(request.resources, told, strict=True)
            ]
        )
