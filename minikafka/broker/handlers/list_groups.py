"""ListGroups (key 16)."""

from __future__ import annotations

from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.group_coordination import GroupCoordination
from minikafka.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


class ListGroupsHandler:
    """An ImmediateHandler."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(self, context: RequestContext, request: ListGroupsRequest, reply: Reply) -> None:
        error, groups = self._groups.list_groups(request.states_filter, request.types_filter)
        reply(ListGroupsResponse(error_code=error, groups=groups))
