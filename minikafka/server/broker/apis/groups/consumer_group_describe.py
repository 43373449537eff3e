"""ConsumerGroupDescribe (key 69), which this broker refuses (KIP-848 needs KRaft)."""

from __future__ import annotations

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.guards import BY_HANDLER
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.quotas import Quota


def refuse_description(
    context: RequestContext, request: ConsumerGroupDescribeRequest, reply: Reply
) -> None:
    """Refuse ConsumerGroupDescribe (an ``ImmediateHandler``)."""
    refusal = ErrorCode.UNSUPPORTED_VERSION
    groups = [DescribedGroup(refusal, group_id=group_id) for group_id in request.group_ids]
    reply(ConsumerGroupDescribeResponse(groups=groups))


CONSUMER_GROUP_DESCRIBE = Api(
    key=ApiKey.CONSUMER_GROUP_DESCRIBE,
    handler=lambda broker: refuse_description,
    task=False,
    authorization=BY_HANDLER,
    quota=Quota.REQUESTS,
    changes_state=False,
)
