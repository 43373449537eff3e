"""What DescribeConfigs, AlterConfigs and IncrementalAlterConfigs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

from minikafka.core.config_resources import ResourceType as ConfigResource
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.slices import in_slices
from minikafka.protocol.messages.alter_configs import AlterConfigsResource
from minikafka.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResource
from minikafka.server.broker.admin.broker_loggers import BrokerLoggers
from minikafka.server.broker.admin.configs import ConfigAdminManager
from minikafka.server.broker.apis.authorization import MESSAGES, Authorization
from minikafka.server.broker.apis.guards import Admitted, ApiGuard, before
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.services import Services

R = TypeVar("R", AlterConfigsResource, IncrementalAlterConfigsResource)


async def outcomes(
    resources: Sequence[R], alter: Callable[[R], Awaitable[None]]
) -> list[tuple[ErrorCode, str | None]]:
    """Call ``alter`` for each resource. Returns (error, message) of each, in their order. A
    resource that is named twice is not altered and has INVALID_REQUEST."""
    times = Counter((r.resource_type, r.resource_name) for r in resources)
    results: list[tuple[ErrorCode, str | None]] = []
    async for resource in in_slices(resources):
        if times[resource.resource_type, resource.resource_name] > 1:
            results.append((ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."))
            continue
        try:
            await alter(resource)
        except KafkaError as error:
            results.append((error.code, error.message))
        else:
            results.append((ErrorCode.NONE, None))
    return results


# The types whose configurations belong to the cluster, for the authorizer.
OF_CLUSTER: Final = frozenset(
    {ConfigResource.BROKER, ConfigResource.BROKER_LOGGER, ConfigResource.CLIENT_METRICS}
)

# The types whose resources the authorizer knows by name, and the error of one that is refused.
BY_NAME: Final[Mapping[int, tuple[AclResourceType, ErrorCode]]] = MappingProxyType(
    {
        ConfigResource.TOPIC: (AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ConfigResource.GROUP: (AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    }
)


def config_guard(
    operation: AclOperation,
    responded: str,
    new_row: Callable[[ErrorCode, str | None, int, str], Any],
    once_only: bool,
) -> ApiGuard:
    """Return the guard of an API. Refused rows come behind the others. Resources of unknown types
    are left to the handler, which refuses them, and so are those that an alteration names twice
    (``once_only``). As in Kafka, alterations are refused without a message."""

    async def admit(
        authorization: Authorization, context: RequestContext, request: Any
    ) -> Admitted:
        resources = request.resources
        error_of = await _errors(authorization, context, operation, resources, once_only)
        refused = [(row, error) for row in resources if (error := error_of(row))]
        if not refused:
            return Admitted(request)
        request.resources = [row for row in resources if not error_of(row)]
        rows = [
            new_row(
                error, None if once_only else MESSAGES[error], row.resource_type, row.resource_name
            )
            for row, error in refused
        ]

        def join(response: Any) -> Any:
            setattr(response, responded, getattr(response, responded) + rows)
            return response

        return Admitted(request, join)

    return before(admit)


async def _errors(
    authorization: Authorization,
    context: RequestContext,
    operation: AclOperation,
    resources: Sequence[Any],
    once_only: bool,
) -> Callable[[Any], ErrorCode]:
    """Return the function that tells the error of a resource: NONE if it is allowed."""
    times = Counter((row.resource_type, row.resource_name) for row in resources)
    asked = [
        row
        for row in resources
        if not once_only or times[row.resource_type, row.resource_name] == 1
    ]
    allowed = {
        kind: await authorization.allowed(
            context,
            operation,
            resource,
            [row.resource_name for row in asked if row.resource_type == kind],
        )
        for kind, (resource, _) in BY_NAME.items()
    }
    # One question for each resource, as in Kafka: the audit log has a line for each.
    refused = {
        (row.resource_type, row.resource_name)
        for row in asked
        if row.resource_type in OF_CLUSTER and not authorization.on_cluster(context, operation)
    }

    def error_of(row: Any) -> ErrorCode:
        if once_only and times[row.resource_type, row.resource_name] > 1:
            return ErrorCode.NONE
        if row.resource_type in BY_NAME and row.resource_name not in allowed[row.resource_type]:
            return BY_NAME[row.resource_type][1]
        if (row.resource_type, row.resource_name) in refused:
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ErrorCode.NONE

    return error_of


def config_admin(broker: Services) -> ConfigAdminManager:
    """Return what alters configurations for the requests of one API."""
    return ConfigAdminManager(
        broker.broker_id,
        broker.cache,
        broker.store,
        broker.dynamic,
        broker.entries.check_topic,
        BrokerLoggers(broker.broker_id),
        policy=broker.alter_config_policy,
    )
