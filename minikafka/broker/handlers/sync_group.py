"""SyncGroup (key 14)."""

from __future__ import annotations

from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.group_coordination import GroupCoordination
from minikafka.core.group.syncing import SyncFacts
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_VERSION_WITH_PROTOCOL = 5  # which then has to be named


class SyncGroupHandler:
    """An ImmediateHandler."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(self, context: RequestContext, request: SyncGroupRequest, reply: Reply) -> None:
        named = request.protocol_type is not None and request.protocol_name is not None
        if context.version >= FIRST_VERSION_WITH_PROTOCOL and not named:
            reply(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        facts = SyncFacts(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            request.protocol_type,
            request.protocol_name,
            {given.member_id: given.assignment for given in request.assignments},
        )
        self._groups.sync(request.group_id, facts, reply)
