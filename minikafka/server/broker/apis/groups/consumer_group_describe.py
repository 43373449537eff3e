"""ConsumerGroupDescribe (key 69): epochs, members and assignments of consumer groups (KIP-848)."""

from __future__ import annotations

from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.features import GROUP_VERSION
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.groups.described_groups import (
    allow_all_operations,
    filter_by_topics,
)
from minikafka.server.broker.apis.groups.feature_guards import around_if_finalized
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.metadata.finalized_features import FinalizedFeatures
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota


class ConsumerGroupDescribeHandler:
    """Serves ConsumerGroupDescribe (an ``ImmediateHandler``), once group.version is in force."""

    def __init__(self, groups: GroupCoordination, features: FinalizedFeatures) -> None:
        self._groups = groups
        self._features = features

    def __call__(
        self, context: RequestContext, request: ConsumerGroupDescribeRequest, reply: Reply
    ) -> None:
        if not self._features.level(GROUP_VERSION):
            refusal = ErrorCode.UNSUPPORTED_VERSION
            refused = [DescribedGroup(refusal, group_id=name) for name in request.group_ids]
            reply(ConsumerGroupDescribeResponse(groups=refused))
            return
        groups = [self._groups.describe_consumer_group(name) for name in request.group_ids]
        if request.include_authorized_operations:
            allow_all_operations(groups)
        reply(ConsumerGroupDescribeResponse(groups=groups))


def _topics_of(group: DescribedGroup) -> set[str]:
    return {
        row.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for row in assignment.topic_partitions
    }


CONSUMER_GROUP_DESCRIBE = Api(
    key=ApiKey.CONSUMER_GROUP_DESCRIBE,
    handler=lambda broker: ConsumerGroupDescribeHandler(broker.groups, broker.features),
    task=False,
    authorization=around_if_finalized(GROUP_VERSION, filter_by_topics(DescribedGroup, _topics_of)),
    quota=Quota.REQUESTS,
    changes_state=False,
)
