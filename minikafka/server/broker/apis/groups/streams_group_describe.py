"""StreamsGroupDescribe (key 89): topologies, members and tasks of streams groups (KIP-1071)."""

from __future__ import annotations

from typing import Any

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.features import STREAMS_VERSION
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.groups.described_groups import (
    allow_all_operations,
    describable,
    fill_in_operations,
)
from minikafka.server.broker.apis.guards import ApiGuard, Serve, around, knowing
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.metadata.finalized_features import FinalizedFeatures
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota


class StreamsGroupDescribeHandler:
    """Serves StreamsGroupDescribe (an ``ImmediateHandler``), once streams.version is in force."""

    def __init__(self, groups: GroupCoordination, features: FinalizedFeatures) -> None:
        self._groups = groups
        self._features = features

    def __call__(
        self, context: RequestContext, request: StreamsGroupDescribeRequest, reply: Reply
    ) -> None:
        if not self._features.level(STREAMS_VERSION):
            refusal = ErrorCode.UNSUPPORTED_VERSION
            refused = [DescribedGroup(refusal, group_id=name) for name in request.group_ids]
            reply(StreamsGroupDescribeResponse(groups=refused))
            return
        groups = [self._groups.describe_streams_group(name) for name in request.group_ids]
        if request.include_authorized_operations:
            allow_all_operations(groups)
        reply(StreamsGroupDescribeResponse(groups=groups))


async def _filter_description(
    authorization: Authorization,
    context: RequestContext,
    request: StreamsGroupDescribeRequest,
    serve: Serve,
) -> StreamsGroupDescribeResponse:
    """DESCRIBE on a group shows it, if the principal may describe the topics of its topology."""
    request.group_ids, others = await describable(authorization, context, request.group_ids)
    refused = [DescribedGroup(ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=n) for n in others]
    with_operations, request.include_authorized_operations = (
        request.include_authorized_operations,
        False,
    )
    response: StreamsGroupDescribeResponse = await serve(request)
    topics = sorted({topic for group in response.groups for topic in _topics_of(group)})
    shown = await authorization.allowed(
        context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topics
    )
    groups = [
        group
        if shown.issuperset(_topics_of(group))
        else DescribedGroup(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The described group uses topics that the client is not authorized to describe.",
            group.group_id,
        )
        for group in response.groups
    ]
    if with_operations:
        await fill_in_operations(authorization, context, groups)
    response.groups = refused + groups
    return response


def _topics_of(group: DescribedGroup) -> set[str]:
    subtopologies = () if group.topology is None else group.topology.subtopologies or ()
    return {
        name
        for each in subtopologies
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    }


def _guard(broker: Services) -> ApiGuard:
    """Without the feature the handler refuses every request, whoever sends it."""

    async def filtered(
        authorization: Authorization,
        context: RequestContext,
        request: StreamsGroupDescribeRequest,
        serve: Serve,
    ) -> Any:
        if not broker.features.level(STREAMS_VERSION):
            return await serve(request)
        return await _filter_description(authorization, context, request, serve)

    return around(filtered)


STREAMS_GROUP_DESCRIBE = Api(
    key=ApiKey.STREAMS_GROUP_DESCRIBE,
    handler=lambda broker: StreamsGroupDescribeHandler(broker.groups, broker.features),
    task=False,
    authorization=knowing(_guard),
    quota=Quota.REQUESTS,
    changes_state=False,
)
