"""Helpers of admin calls: a call to one broker, to every broker, to the controller, to the
coordinators of groups, or for many keys concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias, TypeVar

from minikafka.client.session import ClusterSession, look_up_coordinator
from minikafka.core.client.calls import Call, ControllerCall, outcome_of
from minikafka.core.client.cluster_view import Node
from minikafka.core.client.consumer.group_calls import group_key
from minikafka.kernel.errors import ErrorCode, KafkaError

K = TypeVar("K")
R = TypeVar("R")
# Builds the request that describes groups of one type, to their coordinator.
DescribeGroups: TypeAlias = Callable[[list[str], Node], Call[dict[str, R | KafkaError]]]

_OTHER_TYPE: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


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


async def describe_each_group(
    session: ClusterSession,
    group_ids: Iterable[str],
    of_types: Sequence[DescribeGroups[R]],
    timeout_ms: int | None,
) -> dict[str, R | KafkaError]:
    """Describe groups by a request to the coordinator of each. Where it finds no group, or is too
    old for the request, the next one of ``of_types`` follows. Return the outcome of each group."""
    deadline_ms = session.deadline_ms(timeout_ms)
    *most, last = of_types

    async def describe(group_id: str) -> R:
        async def attempt() -> R:
            broker_id = await look_up_coordinator(session, group_key(group_id), deadline_ms)
            node = session.metadata.view.nodes[broker_id]
            for build in most:
                call = outcome_of(build([group_id], node), group_id)
                try:
                    return await session.call(broker_id, call, deadline_ms)
                except KafkaError as error:
                    if error.code not in _OTHER_TYPE:
                        raise
            call = outcome_of(last([group_id], node), group_id)
            return await session.call(broker_id, call, deadline_ms)

        return await session.retrying(attempt, deadline_ms)

    return await outcomes_of(describe, group_ids)


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
