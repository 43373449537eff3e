"""Heartbeat (key 12): stay a member."""

from __future__ import annotations

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.groups.member_guard import member_guard
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota


class HeartbeatHandler:
    """Serves Heartbeat (an ``ImmediateHandler``)."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(self, context: RequestContext, request: HeartbeatRequest, reply: Reply) -> None:
        error = self._groups.heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
        reply(HeartbeatResponse(error_code=error))


HEARTBEAT = Api(
    key=ApiKey.HEARTBEAT,
    handler=lambda broker: HeartbeatHandler(broker.groups),
    task=False,
    authorization=member_guard(
        lambda _: HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    ),
    quota=Quota.REQUESTS,
    changes_state=True,
)
