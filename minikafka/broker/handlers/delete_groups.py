"""DeleteGroups (key 42)."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.group_coordination import GroupCoordination
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


class DeleteGroupsHandler:
    """An ImmediateHandler. A group named twice is answered once."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(self, context: RequestContext, request: DeleteGroupsRequest, reply: Reply) -> None:
        def answer(errors: Mapping[str, ErrorCode]) -> None:
            results = [DeletableGroupResult(name, error) for name, error in errors.items()]
            reply(DeleteGroupsResponse(results=results))

        self._groups.delete_groups(request.groups_names, answer)
