"""Metadata that are held back while a broker may be gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from minikafka.server.broker.apis.groups.find_coordinator import FindCoordinatorHandler
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.topics.metadata import MetadataHandler
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.metadata.suspects import HOLD_S, LISTED_S
from minikafka.world.sim.loop import SimLoop
from tests.support.broker.cluster_metadata import cache_with, partition_state, update

pytestmark = pytest.mark.mission("GONE-6")
LED_BY_2 = {"a": [partition_state(0, 2)]}
LED_BY_3 = {"a": [partition_state(0, 3, leader_epoch=1)]}


class Client:
    """Requests metadata of the topic, and keeps the responses."""

    def __init__(self, cache: MetadataCache) -> None:
        self.responses: list[MetadataResponse] = []
        self._handler = MetadataHandler(cache, cast(Any, None), "cluster-1")
        self._tasks: list[asyncio.Task[None]] = []

    async def request(self) -> None:
        context = RequestContext(RequestHeader(3, 12, 1), "PLAINTEXT", "h")
        request = MetadataRequest(topics=[MetadataRequestTopic(name="a")])
        rest = self._handler(context, request, self.responses.append)
        if rest is not None:
            self._tasks.append(asyncio.create_task(rest))
        await asyncio.sleep(0)

    @property
    def leaders(self) -> list[int]:
        return [each.topics[0].partitions[0].leader_id for each in self.responses]

    @property
    def listed(self) -> list[list[int]]:
        return [[broker.node_id for broker in each.brokers] for each in self.responses]


def play(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a loop whose time is virtual."""
    loop = SimLoop()
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


def test_a_response_waits_until_others_lead() -> None:
    async def work() -> None:
        cache = cache_with(update(LED_BY_2))
        client = Client(cache)
        cache.suspects.add(2)
        await client.request()
        cache.update(update(brokers=(1, 3)))  # of a new controller; leaders follow
        await asyncio.sleep(0.01)
        assert not client.responses
        cache.update(update(LED_BY_3, brokers=(1, 3)))
        await asyncio.sleep(0)
        assert client.leaders == [3]
        await client.request()
        assert client.listed == [[1, 2, 3]] * 2
        await asyncio.sleep(LISTED_S)
        await client.request()
        assert client.listed[2:] == [[1, 3]]

    play(work())


def test_a_response_waits_until_the_broker_is_found_alive() -> None:
    async def work() -> None:
        cache = cache_with(update(LED_BY_2))
        client = Client(cache)
        cache.suspects.add(2)
        cache.suspects.add(3)
        await client.request()
        cache.suspects.discard(3)
        await asyncio.sleep(0.01)
        assert not client.responses
        cache.suspects.discard(2)
        await asyncio.sleep(0)
        assert (client.leaders, client.listed) == ([2], [[1, 2, 3]])

    play(work())


def test_no_response_waits_longer_than_half_a_second() -> None:
    async def work() -> None:
        cache = cache_with(update(LED_BY_2))
        client = Client(cache)
        cache.suspects.add(2)
        await asyncio.sleep(HOLD_S / 2)
        cache.suspects.add(2)  # another connection has ended
        await client.request()
        await asyncio.sleep(HOLD_S * 0.9)
        assert not client.responses
        await asyncio.sleep(HOLD_S * 0.2)
        assert client.leaders == [2]
        assert not cache.suspects

    play(work())


def test_a_broker_that_is_back_is_listed_as_it_is_now() -> None:
    async def work() -> None:
        cache = cache_with(update(LED_BY_3))
        client = Client(cache)
        cache.suspects.add(2)
        cache.update(update(LED_BY_3, brokers=(1, 3)))
        cache.update(update(LED_BY_3))
        await client.request()
        assert client.listed == [[1, 2, 3]]
        assert [b.port for b in client.responses[0].brokers] == [9001, 9002, 9003]

    play(work())


def test_a_coordinator_is_looked_up_when_nobody_is_suspected() -> None:
    async def work() -> None:
        suspects = cache_with(update(LED_BY_2)).suspects
        handler = FindCoordinatorHandler(cast(Any, None), cast(Any, None), suspects)
        responses: list[FindCoordinatorResponse] = []
        request = FindCoordinatorRequest(key_type=9, coordinator_keys=["g"])
        context = RequestContext(RequestHeader(10, 4, 1), "PLAINTEXT", "h")
        suspects.add(2)
        rest = handler(context, request, responses.append)
        assert rest is not None
        task = asyncio.create_task(rest)
        await asyncio.sleep(0.01)
        assert not responses
        suspects.discard(2)
        await task
        assert len(responses) == 1

    play(work())
