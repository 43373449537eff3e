"""The FindCoordinator call."""

from __future__ import annotations

from typing import Final

from minikafka.core.client.calls import Call, CoordinatorKey, raise_for
from minikafka.core.client.cluster_view import Node
from minikafka.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_ONE_KEY_VERSION: Final = 3  # later versions name several keys in a request


def find_coordinator(coordinator: CoordinatorKey) -> Call[Node]:
    """Build the FindCoordinator call for a group or a transactional id. Any broker serves it."""

    def read(response: FindCoordinatorResponse) -> Node:
        message = response.error_message or f"coordinator of {coordinator.key}"
        raise_for(response.error_code, message)
        return Node(response.node_id, response.host, response.port)

    request = FindCoordinatorRequest(coordinator.key, coordinator.type)
    return Call(request, read, _ONE_KEY_VERSION)
