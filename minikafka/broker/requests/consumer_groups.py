"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (68, 69): refused with UNSUPPORTED_VERSION.

Kafka 3.9 in ZooKeeper mode lists both APIs too, and supports only the classic group protocol.
Consumers with the new protocol report the error, and admin clients fall back to
DescribeGroups.
"""

from __future__ import annotations

from minikafka.broker.requests.routes import Reply, RequestContext
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from minikafka.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def refuse_heartbeat(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest, reply: Reply
) -> None:
    """Refuse ConsumerGroupHeartbeat (an ``ImmediateHandler``)."""
    reply(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))


def refuse_description(
    context: RequestContext, request: ConsumerGroupDescribeRequest, reply: Reply
) -> None:
    """Refuse ConsumerGroupDescribe (an ``ImmediateHandler``)."""
    refusal = ErrorCode.UNSUPPORTED_VERSION
    groups = [DescribedGroup(refusal, group_id=group_id) for group_id in request.group_ids]
    reply(ConsumerGroupDescribeResponse(groups=groups))
