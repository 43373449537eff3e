"""DescribeGroups (key 15): state, members and assignments of groups."""

from __future__ import annotations

from typing import Final

from minikafka.core.group.group import GroupState
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.groups.described_groups import (
    allow_all_operations,
    describable,
    fill_in_operations,
)
from minikafka.server.broker.apis.guards import Serve, around
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota

FIRST_VERSION_WITH_NOT_FOUND: Final = 6


class DescribeGroupsHandler:
    """Serves DescribeGroups (an ``ImmediateHandler``).

    An unknown group is described as Dead, from version 6 with the error GROUP_ID_NOT_FOUND."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(
        self, context: RequestContext, request: DescribeGroupsRequest, reply: Reply
    ) -> None:
        groups = [self._groups.describe(group_id) for group_id in request.groups]
        if context.version >= FIRST_VERSION_WITH_NOT_FOUND:
            for group in groups:
                is_found = group.group_state != GroupState.DEAD.value
                if group.error_code == ErrorCode.NONE and not is_found:
                    group.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                    group.error_message = (
                        group.error_message or f"Group {group.group_id} not found."
                    )
        if request.include_authorized_operations:
            allow_all_operations(groups)
        reply(DescribeGroupsResponse(groups=groups))


async def _filter_description(
    authorization: Authorization,
    context: RequestContext,
    request: DescribeGroupsRequest,
    serve: Serve,
) -> DescribeGroupsResponse:
    request.groups, others = await describable(authorization, context, request.groups)
    refused = [DescribedGroup(ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=n) for n in others]
    with_operations, request.include_authorized_operations = (
        request.include_authorized_operations,
        False,
    )
    response: DescribeGroupsResponse = await serve(request)
    if with_operations:
        await fill_in_operations(authorization, context, response.groups)
    response.groups = refused + response.groups
    return response


DESCRIBE_GROUPS = Api(
    key=ApiKey.DESCRIBE_GROUPS,
    handler=lambda broker: DescribeGroupsHandler(broker.groups),
    task=False,
    authorization=around(_filter_description),
    quota=Quota.REQUESTS,
    changes_state=False,
)
