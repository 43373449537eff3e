"""When a cluster is whole: every broker responds and sees all of them, every replica is in sync."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Self, TypeVar

from minikafka.client.config import ClientConfig
from minikafka.client.connections import Connections
from minikafka.core.client.admin.replicas import list_partition_reassignments
from minikafka.core.client.admin.topics import describe_cluster_by_metadata, describe_topics
from minikafka.core.client.calls import Call, ControllerCall
from minikafka.core.client.cluster_view import Node, TopicView
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.ports import World

R = TypeVar("R")

LOOK_MS: Final = 200  # between two looks
STEADY_MS: Final = 1_000  # without a problem: one that has just begun may show a moment later
RESPONSE_MS: Final = 3_000


class WholeCluster(NamedTuple):
    """Since when (monotonic ms) a cluster is whole; ``problem`` says why it is not, in words."""

    since_ms: int
    problem: str


class BrokerSight(NamedTuple):
    """What one broker tells of the cluster; only ``error`` if it does not respond."""

    controller: int = -1
    brokers: Collection[int] = ()
    topics: Sequence[TopicView] = ()
    error: str = ""


def problems(sights: Mapping[int, BrokerSight]) -> Iterator[str]:
    """Yield what is not as it should be, in words. ``sights`` has every broker of the whole
    cluster."""
    for broker, sight in sorted(sights.items()):
        if sight.error:
            yield f"broker {broker} does not respond: {sight.error}"
            continue
        missing = sorted(set(sights) - set(sight.brokers))
        if missing:
            yield f"broker {broker} does not know broker {', '.join(map(str, missing))}"
        if sight.controller not in sights:
            yield f"broker {broker} knows no controller"
        for topic in sight.topics:
            for number, view in sorted(topic.partitions.items()):
                if view.leader not in sights:
                    yield f"{topic.name}-{number} has no leader, says broker {broker}"
                elif away := sorted(set(view.replicas) - set(view.isr)):
                    names = ", ".join(map(str, away))
                    yield f"{topic.name}-{number} lacks replica {names}, says broker {broker}"


class ClusterHealth:
    """The health of a cluster of the brokers ``nodes``, by requests to each of them, in an ``async
    with`` block."""

    def __init__(self, world: World, client: ClientConfig, nodes: Mapping[int, Node]) -> None:
        self._clock = world.clock
        self._nodes = nodes
        self._connections = Connections(world, client)
        self._connections.set_nodes(nodes)  # they stay known, also while they are away

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connections.close()
        await self._connections.wait_closed()

    async def until_whole(self, limit_ms: int) -> WholeCluster:
        """Look until the cluster has been whole for a while, or ``limit_ms`` are over."""
        deadline_ms = self._clock.monotonic_ms() + limit_ms
        since_ms, problem = 0, "no look"
        while True:
            looked_ms = self._clock.monotonic_ms()
            was_whole, problem = not problem, await self._problem()
            if not was_whole:
                since_ms = looked_ms
            now_ms = self._clock.monotonic_ms()
            if (not problem and now_ms - since_ms >= STEADY_MS) or now_ms >= deadline_ms:
                return WholeCluster(since_ms, problem)
            await self._clock.sleep(LOOK_MS)

    async def _problem(self) -> str:
        """Return one problem in words; "" if the cluster is whole."""
        found = await asyncio.gather(*map(self._sight, self._nodes))
        sights = dict(zip(self._nodes, found, strict=True))
        for problem in problems(sights):
            return problem
        controller = max(sight.controller for sight in sights.values())
        return await self._move_in_progress(controller)

    async def _sight(self, broker: int) -> BrokerSight:
        try:
            cluster = await self._call(broker, describe_cluster_by_metadata())
            topics = await self._call(broker, describe_topics(None))
        except KafkaError as error:
            return BrokerSight(error=str(error))
        return BrokerSight(cluster.controller_id, [node.id for node in cluster.nodes], topics)

    async def _move_in_progress(self, controller: int) -> str:
        call = list_partition_reassignments(None, RESPONSE_MS)
        try:
            moving = await self._call(controller, call)
        except KafkaError as error:
            if not error.retriable:  # before Kafka 2.4, or without the permission
                return ""
            return f"the controller, broker {controller}, does not respond: {error}"
        return next((f"{partition} is being moved" for partition in moving), "")

    async def _call(self, broker: int, call: Call[R] | ControllerCall[R]) -> R:
        response = await self._connections.request(
            broker, call.request, highest_version=call.highest_version, timeout_ms=RESPONSE_MS
        )
        return call.read(response)
