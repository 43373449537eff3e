"""DescribeGroups (key 15)."""

from __future__ import annotations

from minikafka.broker.acl_operations import GROUP_OPERATIONS
from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.group_coordination import GroupCoordination
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


class DescribeGroupsHandler:
    """An ImmediateHandler. A group that does not exist is described as Dead."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(
        self, context: RequestContext, request: DescribeGroupsRequest, reply: Reply
    ) -> None:
        groups = [self._groups.describe(group_id) for group_id in request.groups]
        if request.include_authorized_operations:
            for group in groups:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = GROUP_OPERATIONS
        reply(DescribeGroupsResponse(groups=groups))
