"""The guard of the requests that members send: READ on the group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import Admitted, ApiGuard, before
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
