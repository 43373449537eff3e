"""Connecting: one attempt for all that wait for a broker, each of them no longer than it may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from minikafka.client import ClientConfig, Producer
from minikafka.client.session import ClusterSession
from minikafka.core.client.cluster_view import Node
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.client.fake_cluster import FakeCluster
from tests.support.world.client_world import CLIENT, ClientNetwork, client_world, jumping


@asynccontextmanager
async def connecting(
    *black: str,
) -> AsyncIterator[tuple[ClusterSession, ClientNetwork, FakeCluster]]:
    """A session that is closed in the end, and has no task left then. ``black`` hosts receive
    nothing."""
    world = client_world()
    network = world.network
    assert isinstance(network, ClientNetwork)
    for host in black:
        network.links.block(CLIENT, host)
    cluster = FakeCluster(world)
    cluster.create("t")
    await cluster.start()
    before = asyncio.all_tasks()
    session = ClusterSession(world, ClientConfig(bootstrap_servers=cluster.bootstrap))
    try:
        yield session, network, cluster
    finally:
        await session.close()
        assert asyncio.all_tasks() == before


async def ask(session: ClusterSession, timeout_ms: int) -> tuple[ErrorCode, float]:
    """What became of a request, and after how many seconds."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    code = ErrorCode.NONE
    try:
        await session.connections.request(-1, ApiVersionsRequest(), timeout_ms=timeout_ms)
    except KafkaError as error:
        code = error.code
    return code, round(loop.time() - begun)


@jumping
async def test_everyone_waits_as_long_as_its_own_time_out() -> None:
    async with connecting("host-1") as (session, network, _):
        outcomes = await asyncio.gather(*(ask(session, seconds * 1000) for seconds in (2, 3, 3, 4)))
        assert outcomes == [(ErrorCode.REQUEST_TIMED_OUT, seconds) for seconds in (2, 3, 3, 4)]
        assert network.connects == 1


@jumping
async def test_a_failed_attempt_fails_all_its_waiting_requests() -> None:
    async with connecting("host-1") as (session, network, _):
        outcomes = await asyncio.gather(*(ask(session, 60_000) for _ in range(5)))
        assert outcomes == [(ErrorCode.REQUEST_TIMED_OUT, 10)] * 5
        assert network.connects == 1
        network.links.open_all()
        assert await ask(session, 60_000) == (ErrorCode.NONE, 0)
        assert network.connects == 2


@jumping
async def test_an_attempt_outlives_its_cancelled_caller() -> None:
    async with connecting("host-1") as (session, network, _):
        waiting = asyncio.ensure_future(ask(session, 60_000))
        await asyncio.sleep(1)
        waiting.cancel()
        assert (await ask(session, 60_000)) == (ErrorCode.REQUEST_TIMED_OUT, 9)
        assert network.connects == 1


@pytest.mark.mission("CFAST-5")
@jumping
async def test_a_refused_connection_is_an_answer_and_the_next_broker_is_tried_at_once() -> None:
    async with connecting() as (session, network, cluster):
        loop, request_any = asyncio.get_running_loop(), session.connections.request_any
        await request_any(ApiVersionsRequest())
        for dead, alive in ((1, 2), (2, 1)):
            cluster.stop_broker(dead)
            begun = loop.time()
            await request_any(ApiVersionsRequest())
            assert loop.time() - begun < 0.05
            if alive == 2:
                await cluster.start_broker(dead)
                await asyncio.sleep(1)
        cluster.stop_broker(1)
        for attempts in (1, 2):  # the first request still finds a connection, which is lost
            before = network.connects
            with pytest.raises(KafkaError) as caught:
                await request_any(ApiVersionsRequest())
            assert caught.value.code is ErrorCode.NETWORK_EXCEPTION
            assert network.connects - before == attempts, "each broker once, after its backoff"


@jumping
async def test_connecting_and_response_share_the_time_out() -> None:
    async with connecting() as (session, _, cluster):
        cluster.freeze(1)
        assert await ask(session, 3_000) == (ErrorCode.REQUEST_TIMED_OUT, 3)


@jumping
async def test_a_moved_broker_is_not_connected_at_its_old_address() -> None:
    async with connecting("host-1") as (session, _, _):
        connections = session.connections
        connections.set_nodes({1: Node(1, "host-1", 9092)})
        waiting = asyncio.ensure_future(connections.connect(1))
        await asyncio.sleep(1)
        connections.set_nodes({1: Node(1, "host-2", 9092)})
        with pytest.raises(KafkaError, match="closed by this client"):
            await waiting
        await connections.connect(1)


@jumping
async def test_close_fails_requests_that_wait_for_a_connection() -> None:
    async with connecting("host-1") as (session, _, _):
        waiting = asyncio.ensure_future(ask(session, 60_000))
        await asyncio.sleep(1)
        session.connections.close()
        assert (await waiting)[0] is ErrorCode.NETWORK_EXCEPTION
        assert (await ask(session, 60_000)) == (ErrorCode.NETWORK_EXCEPTION, 0)


@pytest.mark.parametrize("cancels", [1, 2, 3, 4])
def test_cancelled_while_it_connects(cancels: int) -> None:
    @jumping
    async def scenario() -> None:
        async with connecting("host-1", "host-2") as (session, _, cluster):
            producing = asyncio.ensure_future(produce(session, cluster))
            await asyncio.sleep(1)
            for _ in range(cancels):
                producing.cancel()
                await asyncio.sleep(0)
            await asyncio.wait([producing], timeout=60)
            assert producing.cancelled()
            await asyncio.sleep(0)

    scenario()


async def produce(session: ClusterSession, cluster: FakeCluster) -> None:
    async with Producer(session.world, ClientConfig(cluster.bootstrap)) as producer:
        await producer.send("t", b"v")
