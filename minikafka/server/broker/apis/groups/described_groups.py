"""What the APIs that describe groups share: the authorization of DescribeGroups, and all but the
messages of ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import GROUP_OPERATIONS, Authorization
from minikafka.server.broker.apis.groups.feature_guards import around_if_finalized
from minikafka.server.broker.apis.guards import Filter, Serve
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.metadata.finalized_features import FinalizedFeatures
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota


class DescribedGroup(Protocol):
    """One group of a response, or why it cannot be described."""

    error_code: int
    group_id: str
    authorized_operations: int


def allow_all_operations(groups: Iterable[DescribedGroup]) -> None:
    """Set the authorized operations of each group to all of them: there is no authorizer."""
    for group in groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS


async def fill_in_operations(
    authorization: Authorization, context: RequestContext, groups: Iterable[DescribedGroup]
) -> None:
    """Set the operations that the principal may carry out on each group."""
    described = [group for group in groups if group.error_code == ErrorCode.NONE]
    fields = await authorization.operations(
        context, AclResourceType.GROUP, [group.group_id for group in described]
    )
    for group in described:
        group.authorized_operations = fields[group.group_id]


async def describable(
    authorization: Authorization, context: RequestContext, names: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the groups that the principal may describe, and the others."""
    allowed = await authorization.allowed(
        context, AclOperation.DESCRIBE, AclResourceType.GROUP, names
    )
    return [n for n in names if n in allowed], [n for n in names if n not in allowed]


class DescribedKind(NamedTuple):
    """How one kind of groups is described.

    ``describe`` returns the row of a group; ``row`` makes the row of one that is not shown, from
    error, message and id. ``topics_of`` returns the topics that a row names, and ``hidden`` is the
    message of a group with topics that the principal may not describe."""

    feature: str
    response: Callable[..., Any]
    row: Callable[..., Any]
    describe: Callable[[GroupCoordination, str], Any]
    topics_of: Callable[[Any], set[str]]
    hidden: str = "The group has described topic(s) that the client is not authorized to describe."


class GroupDescribeHandler:
    """Serves the API of one kind of groups (an ``ImmediateHandler``), once its feature is in
    force."""

    def __init__(
        self, kind: DescribedKind, groups: GroupCoordination, features: FinalizedFeatures
    ) -> None:
        self._kind = kind
        self._groups = groups
        self._features = features

    def __call__(self, context: RequestContext, request: Any, reply: Reply) -> None:
        kind = self._kind
        if not self._features.level(kind.feature):
            refusal = ErrorCode.UNSUPPORTED_VERSION
            groups = [kind.row(refusal, None, name) for name in request.group_ids]
        else:
            groups = [kind.describe(self._groups, name) for name in request.group_ids]
            if request.include_authorized_operations:
                allow_all_operations(groups)
        reply(kind.response(groups=groups))


def describe_api(key: ApiKey, kind: DescribedKind) -> Api:
    """Return the row of the API that describes groups of one kind."""
    return Api(
        key=key,
        handler=lambda broker: GroupDescribeHandler(kind, broker.groups, broker.features),
        task=False,
        authorization=around_if_finalized(kind.feature, _filter(kind)),
        quota=Quota.REQUESTS,
        changes_state=False,
    )


def _filter(kind: DescribedKind) -> Filter:
    """Return the filter of responses: DESCRIBE on a group shows it, if the principal may describe
    its topics."""

    async def filtered(
        authorization: Authorization, context: RequestContext, request: Any, serve: Serve
    ) -> Any:
        request.group_ids, others = await describable(authorization, context, request.group_ids)
        denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
        refused = [kind.row(denied, None, name) for name in others]
        with_operations = request.include_authorized_operations
        request.include_authorized_operations = False
        response = await serve(request)
        topics = sorted({topic for group in response.groups for topic in kind.topics_of(group)})
        shown = await authorization.allowed(
            context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topics
        )
        groups = [
            group
            if shown.issuperset(kind.topics_of(group))
            else kind.row(ErrorCode.TOPIC_AUTHORIZATION_FAILED, kind.hidden, group.group_id)
            for group in response.groups
        ]
        if with_operations:
            await fill_in_operations(authorization, context, groups)
        response.groups = refused + groups
        return response

    return filtered
