"""DeleteGroups (key 42): delete empty groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import Admitted, before
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota


class DeleteGroupsHandler:
    """Serves DeleteGroups (an ``ImmediateHandler``).

    A group named twice has one result."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(self, context: RequestContext, request: DeleteGroupsRequest, reply: Reply) -> None:
        def respond(errors: Mapping[str, ErrorCode]) -> None:
            results = [DeletableGroupResult(name, error) for name, error in errors.items()]
            reply(DeleteGroupsResponse(results=results))

        self._groups.delete_groups(request.groups_names, respond)


async def _admit_deletion(
    authorization: Authorization, context: RequestContext, request: DeleteGroupsRequest
) -> Admitted:
    names = list(dict.fromkeys(request.groups_names))
    allowed = await authorization.allowed(
        context, AclOperation.DELETE, AclResourceType.GROUP, names
    )
    rows = [
        DeletableGroupResult(name, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for name in names
        if name not in allowed
    ]
    if not rows:
        return Admitted(request)
    request.groups_names = [name for name in names if name in allowed]
    if not request.groups_names:
        return Admitted(None, response=DeleteGroupsResponse(results=rows))

    def joined(response: Any) -> Any:
        if isinstance(response, DeleteGroupsResponse):
            response.results = response.results + rows
        return response

    return Admitted(request, joined)


DELETE_GROUPS = Api(
    key=ApiKey.DELETE_GROUPS,
    handler=lambda broker: DeleteGroupsHandler(broker.groups),
    task=False,
    authorization=before(_admit_deletion),
    quota=Quota.REQUESTS,
    changes_state=True,
)
