"""What a broker suspects, and removes, while the process of another one ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from minikafka.kernel.cluster import Broker, Endpoint
from minikafka.kernel.ports import ProtocolFactory
from minikafka.server.broker.broker_watch import AGAIN_MS, BrokerWatch, are_refused
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.zookeeper.store import RegisteredBroker
from minikafka.world.real.world import RealClock
from minikafka.world.sim.loop import SimLoop
from tests.support.broker.cluster_metadata import cache_with, live_broker, update

OTHER = RegisteredBroker(Broker(2, (Endpoint("host2", 9002),)), session=7, zk_version=0)
AGAIN_S = AGAIN_MS / 1000


class Connected:
    def __init__(self, ended: Callable[[], None]) -> None:
        self.end = ended

    def abort(self) -> None: ...


class OtherBroker:
    """As a network: ``connections`` to it open while it ``listens``, and those to ``accepting``
    addresses always. As a store: its registration, which is removed when ``removed``."""

    def __init__(self) -> None:
        self.listens = True
        self.accepting: set[str] = set()
        self.names: dict[str, list[str]] = {}
        self.registered = OTHER
        self.removed = False
        self.connections: list[Connected] = []

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[Connected, asyncio.BufferedProtocol]:
        if host in self.names:
            raise OSError("Multiple exceptions")  # as asyncio, whatever the addresses did
        if not (self.listens or f"{host}:{port}" in self.accepting):
            raise ConnectionRefusedError
        protocol = factory()
        self.connections.append(Connected(lambda: protocol.connection_lost(None)))
        return self.connections[-1], protocol

    async def registration(self, broker_id: int) -> RegisteredBroker | None:
        return None if self.removed or broker_id != 2 else self.registered

    async def addresses(self, host: str) -> list[str]:
        return self.names.get(host, [host])

    async def remove_registration(self, registration: RegisteredBroker) -> bool:
        self.removed = True
        return registration == self.registered


def play(work: Callable[[OtherBroker, MetadataCache], Coroutine[Any, Any, None]]) -> None:
    """Run it with a broker that watches the other one, in virtual time."""

    async def watched() -> None:
        other, cache = OtherBroker(), cache_with(update(brokers=(1, 2)))
        network, store = cast(Any, other), cast(Any, other)
        watch = BrokerWatch(network, network, RealClock(), cache, lambda: store, 1, "PLAINTEXT")
        async with asyncio.TaskGroup() as tasks:
            watch.start(tasks)
            await asyncio.sleep(1)
            await work(other, cache)
            watch.stop()

    loop = SimLoop()
    try:
        loop.run_until_complete(watched())
    finally:
        loop.close()


@pytest.mark.mission("GONE-6")
def test_a_process_that_closes_its_listeners_last_stays_suspected() -> None:
    """As Linux ends a process: a client finds its connection closed, and asks for new leaders,
    while the dead process still accepts connections."""

    async def work(other: OtherBroker, cache: MetadataCache) -> None:
        (first,) = other.connections
        first.end()
        await asyncio.sleep(AGAIN_S / 4)
        assert len(other.connections) == 2  # which is no evidence of a death
        assert cache.suspects
        for connection in other.connections:
            connection.end()
        other.listens = False
        while not other.removed:
            assert cache.suspects
            await asyncio.sleep(AGAIN_S / 4)

    play(work)


@pytest.mark.mission("GONE-6")
def test_a_broker_is_suspected_no_longer_when_a_connection_stays() -> None:
    async def work(other: OtherBroker, cache: MetadataCache) -> None:
        other.connections[-1].end()
        await asyncio.sleep(0)
        assert cache.suspects
        await asyncio.sleep(3 * AGAIN_S)
        assert not cache.suspects
        assert not other.removed

    play(work)


@pytest.mark.mission("GONE-3")
def test_a_broker_whose_new_listener_accepts_connections_is_not_gone() -> None:
    """It was registered when the watch began with the listener that refuses connections alone."""

    async def work(other: OtherBroker, cache: MetadataCache) -> None:
        other.accepting = {"host2:9102"}
        endpoints = Endpoint("host2", 9002), Endpoint("host2", 9102, "NEW")
        other.registered = RegisteredBroker(Broker(2, endpoints), session=7, zk_version=1)
        cache.update(update(brokers=(1, live_broker(2, ("PLAINTEXT", "NEW")))))
        await asyncio.sleep(1)
        other.listens = False
        for connection in other.connections:
            connection.end()
        await asyncio.sleep(10 * AGAIN_S)
        assert not other.removed
        other.accepting = set()
        await asyncio.sleep(10)
        assert other.removed

    play(work)


@pytest.mark.mission("GONE-3")
@pytest.mark.parametrize(("accepting", "refused"), [(set(), True), ({"::1:9002"}, False)])
def test_every_address_of_an_endpoint_has_to_refuse(accepting: set[str], refused: bool) -> None:
    async def work(other: OtherBroker, cache: MetadataCache) -> None:
        other.listens, other.accepting = False, accepting
        other.names = {"localhost": ["127.0.0.1", "::1"], "nowhere": []}
        network, clock = cast(Any, other), RealClock()
        assert await are_refused(network, clock, [Endpoint("localhost", 9002)]) == refused
        assert not await are_refused(network, clock, [Endpoint("nowhere", 9002)])

    play(work)
