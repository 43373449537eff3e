"""ConsumerGroupHeartbeat, ConsumerGroupDescribe (68, 69): refused, there is the old protocol alone.

Kafka 3.9 lists both in ZooKeeper mode, and answers UNSUPPORTED_VERSION: clients that ask for the
new protocol say so to their users, administrators go back to DescribeGroups.
"""

from __future__ import annotations

from minikafka.broker.requests.context import Reply, RequestContext
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
    """An ImmediateHandler."""
    reply(ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))


def refuse_description(
    context: RequestContext, request: ConsumerGroupDescribeRequest, reply: Reply
) -> None:
    """An ImmediateHandler."""
    refusal = ErrorCode.UNSUPPORTED_VERSION
    groups = [DescribedGroup(refusal, group_id=group_id) for group_id in request.group_ids]
    reply(ConsumerGroupDescribeResponse(groups=groups))
