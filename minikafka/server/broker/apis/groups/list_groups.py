"""ListGroups (key 16): the groups that this broker coordinates."""

from __future__ import annotations

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import Serve, around
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota


class ListGroupsHandler:
    """Serves ListGroups (an ``ImmediateHandler``)."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(self, context: RequestContext, request: ListGroupsRequest, reply: Reply) -> None:
        error, groups = self._groups.list_groups(request.states_filter, request.types_filter)
        reply(ListGroupsResponse(error_code=error, groups=groups))


async def _filter_listing(
    authorization: Authorization, context: RequestContext, request: ListGroupsRequest, serve: Serve
) -> ListGroupsResponse:
    """DESCRIBE on the cluster shows all groups; otherwise those are listed that the principal may
    describe."""
    shows_all = authorization.on_cluster(context, AclOperation.DESCRIBE, log_if_denied=False)
    response: ListGroupsResponse = await serve(request)
    if not shows_all:
        names = [group.group_id for group in response.groups]
        allowed = await authorization.allowed(
            context, AclOperation.DESCRIBE, AclResourceType.GROUP, names, log_if_denied=False
        )
        response.groups = [group for group in response.groups if group.group_id in allowed]
    return response


LIST_GROUPS = Api(
    key=ApiKey.LIST_GROUPS,
    handler=lambda broker: ListGroupsHandler(broker.groups),
    task=False,
    authorization=around(_filter_listing),
    quota=Quota.REQUESTS,
    changes_state=False,
)
