"""What the APIs that describe groups have in common: who may see a group, and what one may do with
it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.errors import ErrorCode
from minikafka.server.broker.apis.authorization import GROUP_OPERATIONS, Authorization
from minikafka.server.broker.apis.guards import Filter, Serve
from minikafka.server.broker.apis.request import RequestContext


class DescribedGroup(Protocol):
    """One group of a response, or why it cannot be described."""

    error_code: int
    group_id: str
    authorized_operations: int


def allow_all_operations(groups: Iterable[DescribedGroup]) -> None:
    """Say of each group that all operations are allowed, as without an authorizer."""
    for group in groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS


async def fill_in_operations(
    authorization: Authorization, context: RequestContext, groups: Iterable[DescribedGroup]
) -> None:
    """Say of each group which operations are allowed to the principal."""
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


G = TypeVar("G", bound=DescribedGroup)


def filter_by_topics(
    refused_group: Callable[[int, str | None, str], G], topics_of: Callable[[G], set[str]]
) -> Filter:
    """Return the filter of an API whose groups name topics: DESCRIBE on a group shows it, if the
    principal may describe the topics of its members. ``refused_group`` makes the row of a group
    that is not shown, from error, message and id."""

    async def filtered(
        authorization: Authorization, context: RequestContext, request: Any, serve: Serve
    ) -> Any:
        request.group_ids, others = await describable(authorization, context, request.group_ids)
        denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
        refused = [refused_group(denied, None, name) for name in others]
        with_operations = request.include_authorized_operations
        request.include_authorized_operations = False
        response = await serve(request)
        topics = sorted({topic for group in response.groups for topic in topics_of(group)})
        shown = await authorization.allowed(
            context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topics
        )
        groups = [
            group
            if shown.issuperset(topics_of(group))
            else refused_group(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                "The group has described topic(s) that the client is not authorized to describe.",
                group.group_id,
            )
            for group in response.groups
        ]
        if with_operations:
            await fill_in_operations(authorization, context, groups)
        response.groups = refused + groups
        return response

    return filtered
