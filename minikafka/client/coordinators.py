"""Who coordinates a group or a transactional id; asking that broker, over all changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from minikafka.client.session import ClusterSession, raise_for
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.schema import Message

T = TypeVar("T")

GROUP, TRANSACTION = 0, 1  # the types of coordinators
ONE_KEY_VERSION = 3  # later ones name several keys, with no gain here


async def find_coordinator(
    session: ClusterSession, key: str, deadline_ms: int, kind: int = GROUP
) -> int:
    """The broker that any broker names, once its address is known. Raises KafkaError; to be
    retried."""
    answer = await session.connections.request(
        session.connections.any_node(),
        FindCoordinatorRequest(key, kind),
        at_most=ONE_KEY_VERSION,
        timeout_ms=session.timeout_ms(deadline_ms),
    )
    raise_for(ErrorCode(answer.error_code), answer.error_message)
    broker_id = int(answer.node_id)
    return await session.metadata.wait_until(
        lambda view: broker_id if broker_id in view.nodes else None,
        session.remaining_ms(deadline_ms),
        f"broker {broker_id}",
    )


async def request_coordinator(
    session: ClusterSession,
    group_id: str,
    message: Message,
    deadline_ms: int,
    read: Callable[[Any], T],
    at_most: int | None = None,
) -> T:
    """What ``read`` makes of the coordinator's answer; it raises KafkaError for an error in it, and
    what is retriable is asked again of whoever coordinates then."""

    async def attempt() -> T:
        broker_id = await find_coordinator(session, group_id, deadline_ms)
        timeout_ms = session.timeout_ms(deadline_ms)
        return read(
            await session.connections.request(
                broker_id, message, at_most=at_most, timeout_ms=timeout_ms
            )
        )

    return await session.retrying(attempt, deadline_ms)
