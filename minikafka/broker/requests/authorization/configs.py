"""Guards of configurations. Those of brokers and of their loggers are the cluster's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from minikafka.broker.requests.authorization.authorization import MESSAGES, Authorization
from minikafka.broker.requests.authorization.wrapping import Admitted, Guard, before
from minikafka.broker.requests.routes import RequestContext
from minikafka.core.config_resources import ResourceType as ConfigResource
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.alter_configs import AlterConfigsResourceResponse
from minikafka.protocol.messages.describe_configs import DescribeConfigsResult
from minikafka.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResourceResponse,
)

CLIENT_METRICS: Final = 16  # a type of resource that the handlers refuse
OF_CLUSTER: Final = frozenset({ConfigResource.BROKER, ConfigResource.BROKER_LOGGER, CLIENT_METRICS})


def _guard(
    operation: AclOperation,
    responded: str,
    new_row: Callable[[ErrorCode, str | None, int, str], Any],
    once_only: bool,
) -> Guard:
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
    names = [row.resource_name for row in asked if row.resource_type == ConfigResource.TOPIC]
    allowed = await authorization.allowed(context, operation, AclResourceType.TOPIC, names)
    # One question for each resource, as in Kafka: the audit log has a line for each.
    refused = {
        (row.resource_type, row.resource_name)
        for row in asked
        if row.resource_type in OF_CLUSTER and not authorization.on_cluster(context, operation)
    }

    def error_of(row: Any) -> ErrorCode:
        if once_only and times[row.resource_type, row.resource_name] > 1:
            return ErrorCode.NONE
        if row.resource_type == ConfigResource.TOPIC and row.resource_name not in allowed:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if (row.resource_type, row.resource_name) in refused:
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ErrorCode.NONE

    return error_of


describe = _guard(AclOperation.DESCRIBE_CONFIGS, "results", DescribeConfigsResult, once_only=False)
alter = _guard(
    AclOperation.ALTER_CONFIGS, "responses", AlterConfigsResourceResponse, once_only=True
)
alter_incrementally = _guard(
    AclOperation.ALTER_CONFIGS, "responses", IncrementalAlterConfigsResourceResponse, once_only=True
)
