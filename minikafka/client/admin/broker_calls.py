"""Helpers of admin calls: a call to one broker, to every broker, to the controller, or for many
keys concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from minikafka.client.session import ClusterSession
from minikafka.core.client.calls import Call, ControllerCall
from minikafka.kernel.errors import KafkaError

K = TypeVar("K")
R = TypeVar("R")


async def call_broker(
    session: ClusterSession, broker_id: int, call: Call[R], deadline_ms: int
) -> R:
    """Carry out a call to one broker, retrying retriable errors until the deadline.

    The first attempt waits until the metadata contains the broker. Raises KafkaError.
    """

    async def attempt() -> R:
        await session.metadata.wait_until(
            lambda view: view.nodes.get(broker_id),
            session.remaining_ms(deadline_ms),
            f"broker {broker_id}",
        )
        return await session.call(broker_id, call, deadline_ms)

    return await session.retrying(attempt, deadline_ms)


async def call_every_broker(
    session: ClusterSession, call: Call[R], deadline_ms: int
) -> dict[int, R]:
    """Carry out a call to every broker and return the results by broker id. A broker that leaves
    the cluster meanwhile has none; in Kafka the call fails when its time is up. Raises
    KafkaError."""
    nodes = await session.metadata.wait_for_brokers(session.remaining_ms(deadline_ms))
    found: dict[int, R] = {}

    async def one(broker_id: int) -> None:
        async def attempt() -> None:
            known = session.metadata.view.nodes
            if broker_id in known or not known:  # a broker that starts knows none
                found[broker_id] = await session.call(broker_id, call, deadline_ms)

        await session.retrying(attempt, deadline_ms)

    await asyncio.gather(*map(one, sorted(nodes)))
    return dict(sorted(found.items()))


async def call_controller(
    session: ClusterSession, build: Callable[[int], ControllerCall[R]], deadline_ms: int
) -> R:
    """Carry out a call at the controller, retrying retriable errors until the deadline.

    ``build`` returns the call of each attempt, with the time-out field of its request as argument.
    Raises KafkaError.
    """

    async def attempt() -> R:
        call = build(server_timeout_ms(session, deadline_ms))
        return await session.call_controller(call, deadline_ms)

    return await session.retrying(attempt, deadline_ms)


async def outcomes_of(
    look_up: Callable[[K], Awaitable[R]], keys: Iterable[K]
) -> dict[K, R | KafkaError]:
    """Run ``look_up`` for all keys concurrently; return the result or KafkaError of each key."""

    async def outcome(key: K) -> R | KafkaError:
        try:
            return await look_up(key)
        except KafkaError as error:
            return error

    wanted = list(dict.fromkeys(keys))
    return dict(zip(wanted, await asyncio.gather(*map(outcome, wanted)), strict=True))


def server_timeout_ms(session: ClusterSession, deadline_ms: int) -> int:
    """Return the time-out field of a request.

    It is shorter than the client's own time-out, so that the broker's response arrives in time.
    """
    return max(1, session.timeout_ms(deadline_ms) * 9 // 10)
