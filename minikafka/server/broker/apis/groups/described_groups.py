"""What DescribeGroups and ConsumerGroupDescribe have in common: who may see a group, and what one
may do with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.errors import ErrorCode
from minikafka.server.broker.apis.authorization import GROUP_OPERATIONS, Authorization
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
