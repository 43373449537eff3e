"""ConsumerGroupHeartbeat (key 68), which this broker refuses (KIP-848 needs KRaft)."""

from __future__ import annotations

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.guards import BY_HANDLER
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.quotas import Quota


def refuse_heartbeat(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest, reply: Reply
) -> None:
    """Refuse ConsumerGroupHeartbeat (an ``ImmediateHandler``)."""
    reply(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))


CONSUMER_GROUP_HEARTBEAT = Api(
    key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
    handler=lambda broker: refuse_heartbeat,
    task=False,
    authorization=BY_HANDLER,
    quota=Quota.REQUESTS,
    changes_state=False,
)
