"""Heartbeat (key 12)."""

from __future__ import annotations

from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.group_coordination import GroupCoordination
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


class HeartbeatHandler:
    """An ImmediateHandler."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(self, context: RequestContext, request: HeartbeatRequest, reply: Reply) -> None:
        error = self._groups.heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
        reply(HeartbeatResponse(error_code=error))
