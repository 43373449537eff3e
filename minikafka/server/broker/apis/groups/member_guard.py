"""The guards of the requests that members send: READ on the group, and DESCRIBE on the topics to
which the members of the newer protocols subscribe."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.errors import ErrorCode
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import Admitted, ApiGuard, Gate, before
from minikafka.server.broker.apis.request import RequestContext


def member_guard(refusal: Callable[[int], Any]) -> ApiGuard:
    """Return the guard of a request of a group's member, which needs READ on the group. ``refusal``
    makes the response of a version."""

    async def admit(
        authorization: Authorization, context: RequestContext, request: Any
    ) -> Admitted:
        if authorization.is_allowed(
            context, AclOperation.READ, AclResourceType.GROUP, request.group_id
        ):
            return Admitted(request)
        return Admitted(None, response=refusal(context.version))

    return before(admit)


def member_gate(
    response: Callable[..., Any],
    topics_of: Callable[[Any], Collection[str]],
    check: Callable[[Any], Any | None] = lambda request: None,
) -> Gate:
    """Return the gate of a heartbeat of a newer protocol: the member needs READ on the group, and
    DESCRIBE on ``topics_of`` its request. Between the two, ``check`` may return the response that
    refuses the request."""

    async def admit(
        authorization: Authorization, context: RequestContext, request: Any
    ) -> Admitted:
        if not authorization.is_allowed(
            context, AclOperation.READ, AclResourceType.GROUP, request.group_id
        ):
            refusal = response(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            return Admitted(None, response=refusal)
        refusal = check(request)
        if refusal is not None:
            return Admitted(None, response=refusal)
        topics = topics_of(request)
        if topics:
            described = await authorization.allowed(
                context, AclOperation.DESCRIBE, AclResourceType.TOPIC, list(topics)
            )
            if not described.issuperset(topics):
                refusal = response(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                return Admitted(None, response=refusal)
        return Admitted(request)

    return admit
