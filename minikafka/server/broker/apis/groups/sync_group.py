"""SyncGroup (key 14): hand in or get the assignment of a generation."""

from __future__ import annotations

from minikafka.core.group.rebalance import SyncFacts
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.groups.member_guard import member_guard
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota

FIRST_VERSION_WITH_PROTOCOL = 5  # and requires it


class SyncGroupHandler:
    """Serves SyncGroup (an ``ImmediateHandler``)."""

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


SYNC_GROUP = Api(
    key=ApiKey.SYNC_GROUP,
    handler=lambda broker: SyncGroupHandler(broker.groups),
    task=False,
    authorization=member_guard(
        lambda _: SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    ),
    quota=Quota.REQUESTS,
    changes_state=True,
)
