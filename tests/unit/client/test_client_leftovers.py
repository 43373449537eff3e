"""Nothing stays behind when a client ends, in whatever way: no task, timer, connection, future."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from minikafka.client import Admin, ClientConfig, Consumer, ConsumerConfig, Producer
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.api_keys import ApiKey
from tests.support.client.fake_cluster import SILENCE, FakeCluster
from tests.support.world.client_world import client_world, jumping

T0 = TopicPartition("t", 0)


@asynccontextmanager
async def nothing_left(brokers: bool = True) -> AsyncIterator[tuple[Any, FakeCluster, Any]]:
    """A world and a cluster; afterwards everything of the client's must be gone."""
    world = client_world()
    cluster = FakeCluster(world)
    cluster.create("t")
    if brokers:
        await cluster.start()
    config = ClientConfig(bootstrap_servers=cluster.bootstrap, request_timeout_ms=5_000)
    before = asyncio.all_tasks()
    complaints: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    yield world, cluster, config
    await asyncio.sleep(0.1)  # for what is on the wires
    assert asyncio.all_tasks() == before
    open_ends = [
        transport
        for transports in cluster._connections.values()
        for transport in transports
        if not transport.is_closing()
    ]
    assert open_ends == []
    gc.collect()
    assert complaints == [], "futures that nobody has looked at"


async def cancelled_after(delay_s: float, work: Awaitable[Any]) -> None:
    task = asyncio.ensure_future(work)
    await asyncio.sleep(delay_s)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def produce(world: Any, config: Any) -> None:
    async with Producer(world, config) as producer:
        while True:
            await producer.send("t", b"v", partition=0)
            await asyncio.sleep(0.01)


async def consume(world: Any, config: Any) -> None:
    settings = ConsumerConfig(auto_offset_reset="earliest")
    async with Consumer(world, config, settings) as consumer:
        await consumer.assign_topics("t")
        async for _ in consumer:
            pass


async def join(world: Any, config: Any) -> None:
    settings = ConsumerConfig(group_id="g")
    async with Consumer(world, config, settings) as consumer:
        consumer.subscribe(["t"])
        while True:
            await consumer.poll(100)


async def administrate(world: Any, config: Any) -> None:
    async with Admin(world, config) as admin:
        while True:
            await admin.wait_for_topic("t", 99)


# Joining needs a coordinator, which the fake cluster has not: see tests/simulation.
WORK: list[Callable[[Any, Any], Awaitable[None]]] = [produce, consume, join, administrate]


@pytest.mark.parametrize(
    ("work", "brokers"),
    [
        (work, brokers)
        for work in WORK
        for brokers in (True, False)
        if not (brokers and work is join)
    ],
)
@pytest.mark.parametrize("delay_s", [0.0, 0.002, 0.0101, 0.5, 7.0])
def test_cancelled_at_any_moment(
    work: Callable[[Any, Any], Awaitable[None]], brokers: bool, delay_s: float
) -> None:
    @jumping
    async def scenario() -> None:
        async with nothing_left(brokers) as (world, _, config):
            await cancelled_after(delay_s, work(world, config))

    scenario()


@pytest.mark.parametrize("api", [ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID])
def test_cancelled_while_brokers_are_silent(api: ApiKey) -> None:
    @jumping
    async def scenario() -> None:
        async with nothing_left() as (world, cluster, config):
            cluster.fail(api, *[SILENCE] * 50)
            await cancelled_after(1, produce(world, config))

    scenario()


@jumping
async def test_a_cancelled_send_leaves_the_producer_in_order() -> None:
    async with nothing_left() as (world, cluster, config), Producer(world, config) as producer:
        cluster.fail(ApiKey.METADATA, *[SILENCE] * 2)
        await cancelled_after(0.5, producer.send_and_wait("t", b"a", partition=0))
        assert (await producer.send_and_wait("t", b"b", partition=0)).partition == 0
        cluster.fail(ApiKey.PRODUCE, SILENCE)
        await cancelled_after(0.5, producer.send_and_wait("t", b"c", partition=0))
        await producer.send_and_wait("t", b"d", partition=0)
        assert cluster.values(T0)[-2:] == [b"c", b"d"], "handed over is handed over"


@jumping
async def test_a_cancelled_poll_loses_no_record() -> None:
    async with nothing_left() as (world, _, config):
        async with Producer(world, config) as producer:
            for number in range(20):
                await producer.send("t", b"%d" % number, partition=0)
        settings = ConsumerConfig(auto_offset_reset="earliest", max_poll_records=3)
        async with Consumer(world, config, settings) as consumer:
            consumer.assign([T0])
            seen: list[bytes | None] = []
            for delay in range(200):
                poll = asyncio.ensure_future(consumer.poll(1_000))
                await asyncio.sleep(delay % 7 / 1000)
                if poll.done():
                    seen += [record.value for record in poll.result()]
                else:
                    poll.cancel()
                    await asyncio.wait([poll])
                if len(seen) == 20:
                    break
            assert seen == [b"%d" % number for number in range(20)]


@jumping
async def test_futures_of_an_aborted_producer_fail() -> None:
    async with nothing_left() as (world, cluster, config):
        producer = Producer(world, config)
        with pytest.raises(RuntimeError):
            await _abort(producer, cluster)
        error = producer.kept.exception()  # type: ignore[attr-defined]
        assert isinstance(error, KafkaError)


async def _abort(producer: Any, cluster: FakeCluster) -> None:
    async with producer:
        cluster.fail(ApiKey.PRODUCE, SILENCE)
        producer.kept = await producer.send("t", b"v", partition=0)
        await asyncio.sleep(0.1)
        raise RuntimeError("enough")


@jumping
async def test_an_admin_client_that_has_ended_is_no_cycle() -> None:
    async with nothing_left() as (world, _, config):
        gc.disable()
        try:
            admin = Admin(world, config)
            async with admin:
                await admin.list_topics()
            metadata = weakref.ref(admin.session.metadata)
            del admin
            await asyncio.sleep(0.1)
            assert metadata() is None
        finally:
            gc.enable()
