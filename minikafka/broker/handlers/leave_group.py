"""LeaveGroup (key 13)."""

from __future__ import annotations

from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.group_coordination import GroupCoordination
from minikafka.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)

FIRST_VERSION_WITH_MANY_MEMBERS = 3


class LeaveGroupHandler:
    """An ImmediateHandler."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(self, context: RequestContext, request: LeaveGroupRequest, reply: Reply) -> None:
        many = context.version >= FIRST_VERSION_WITH_MANY_MEMBERS
        leaving = request.members if many else [MemberIdentity(request.member_id)]
        answers = self._groups.leave(request.group_id, leaving)
        if many:
            reply(LeaveGroupResponse(members=answers))
        else:
            reply(LeaveGroupResponse(error_code=answers[0].error_code))
