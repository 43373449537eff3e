"""Calls to the coordinators of groups and of transactional ids."""

from __future__ import annotations

from typing import TypeVar

from minikafka.client.session import ClusterSession
from minikafka.core.client.calls import CoordinatorCall, CoordinatorKey
from minikafka.core.client.coordinator_calls import find_coordinator
from minikafka.core.client.errors import LOST_COORDINATOR
from minikafka.kernel.errors import KafkaError

R = TypeVar("R")


class Coordinators:
    """The coordinators that one client has found. A lost one is looked up again."""

    def __init__(self, session: ClusterSession) -> None:
        self._session = session
        self._found: dict[CoordinatorKey, int] = {}

    async def call(self, call: CoordinatorCall[R], deadline_ms: int) -> R:
        """Carry out a call, retrying retriable errors until the deadline. Raises KafkaError."""

        async def attempt() -> R:
            try:
                node_id = await self.find(call.coordinator, deadline_ms)
                return await self._session.call(node_id, call, deadline_ms)
            except KafkaError as error:
                if error.code in LOST_COORDINATOR:
                    self._found.pop(call.coordinator, None)
                raise

        return await self._session.retrying(attempt, deadline_ms)

    async def find_retrying(self, key: CoordinatorKey, deadline_ms: int) -> int:
        """Return the coordinator's broker id, retrying until the deadline. Raises KafkaError."""
        return await self._session.retrying(lambda: self.find(key, deadline_ms), deadline_ms)

    async def find(self, key: CoordinatorKey, deadline_ms: int) -> int:
        """Return the coordinator's broker id, with one attempt. Raises KafkaError."""
        if key not in self._found:
            self._found[key] = await look_up_coordinator(self._session, key, deadline_ms)
        return self._found[key]


async def look_up_coordinator(
    session: ClusterSession, key: CoordinatorKey, deadline_ms: int
) -> int:
    """Send FindCoordinator to any broker and wait until the metadata contains the coordinator.
    Before that, wait for the first metadata, whose request finds out if no server is a broker.

    One attempt. Raises KafkaError.
    """
    await session.metadata.wait_for_brokers(session.remaining_ms(deadline_ms))
    call = find_coordinator(key)
    node = await session.call(session.connections.any_node(), call, deadline_ms)
    return await session.metadata.wait_until(
        lambda view: node.id if node.id in view.nodes else None,
        session.remaining_ms(deadline_ms),
        f"broker {node.id}",
    )
