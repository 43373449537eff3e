"""FindCoordinator (key 10): which broker coordinates a group or a transactional id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from minikafka.broker.context import Reply, RequestContext
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FIRST_VERSION_WITH_MANY_KEYS = 4
FIRST_VERSION_WITH_SHARE_GROUPS = 6


class CoordinatorType(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


@dataclass(frozen=True, slots=True)
class Found:
    """A coordinator, or an error in its place."""

    error: ErrorCode = ErrorCode.NONE
    node_id: int = -1
    host: str = ""
    port: int = -1

    @property
    def message(self) -> str | None:
        return None if self.error is ErrorCode.NONE else self.error.name


NOT_AVAILABLE = Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)

# (type, key, listener) -> who coordinates it.
CoordinatorLookup: TypeAlias = Callable[[CoordinatorType, str, str], Found]


class FindCoordinatorHandler:
    """``lookup`` for the types that this broker coordinates; the others are not available."""

    def __init__(self, lookup: CoordinatorLookup | None = None) -> None:
        self._lookup = lookup

    def __call__(
        self, context: RequestContext, request: FindCoordinatorRequest, reply: Reply
    ) -> None:
        if context.version >= FIRST_VERSION_WITH_MANY_KEYS:
            reply(
                FindCoordinatorResponse(
                    coordinators=[
                        _coordinator(key, self._find(context, request.key_type, key))
                        for key in request.coordinator_keys
                    ]
                )
            )
            return
        found = self._find(context, request.key_type, request.key)
        reply(
            FindCoordinatorResponse(
                error_code=found.error,
                error_message=found.message,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
            )
        )

    def _find(self, context: RequestContext, key_type: int, key: str) -> Found:
        if key_type not in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
            share = key_type == CoordinatorType.SHARE
            if share and context.version >= FIRST_VERSION_WITH_SHARE_GROUPS:
                return NOT_AVAILABLE
            return Found(ErrorCode.INVALID_REQUEST)
        if self._lookup is None:
            return NOT_AVAILABLE
        return self._lookup(CoordinatorType(key_type), key, context.listener)


def _coordinator(key: str, found: Found) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
        error_code=found.error,
        error_message=found.message,
    )
