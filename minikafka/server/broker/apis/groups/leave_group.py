"""LeaveGroup (key 13): remove members."""

from __future__ import annotations

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.groups.member_guard import member_guard
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota

FIRST_VERSION_WITH_MANY_MEMBERS = 3


class LeaveGroupHandler:
    """Serves LeaveGroup (an ``ImmediateHandler``)."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(self, context: RequestContext, request: LeaveGroupRequest, reply: Reply) -> None:
        many = context.version >= FIRST_VERSION_WITH_MANY_MEMBERS
        leaving = request.members if many else [MemberIdentity(request.member_id)]
        responses = self._groups.leave(request.group_id, leaving)
        if many:
            reply(LeaveGroupResponse(members=responses))
        else:
            reply(LeaveGroupResponse(error_code=responses[0].error_code))


LEAVE_GROUP = Api(
    key=ApiKey.LEAVE_GROUP,
    handler=lambda broker: LeaveGroupHandler(broker.groups),
    task=False,
    authorization=member_guard(
        lambda _: LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    ),
    quota=Quota.REQUESTS,
    changes_state=True,
)
