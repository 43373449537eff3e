"""IncrementalAlterConfigs (key 44): single settings of topics and brokers, altered."""

from __future__ import annotations

from minikafka.broker.config_admin import ConfigAdmin
from minikafka.broker.config_alterations import Change
from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.altered_resources import outcomes
from minikafka.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)


class IncrementalAlterConfigsHandler:
    """A TaskHandler. One answer per resource of the request, in its order."""

    def __init__(self, admin: ConfigAdmin) -> None:
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

        told = await outcomes(request.resources, alter)
        return IncrementalAlterConfigsResponse(
            responses=[
                IncrementalAlterConfigsResourceResponse(
                    error, message, resource.resource_type, resource.resource_name
                )
                for resource, (error, message) in zip(request.resources, told, strict=True)
            ]
        )
