"""``minikafka.aio``: the methods of the view as coroutines, on any loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import uvloop
from aiokafka import AIOKafkaConsumer

from minikafka.client import ConsumerRecord
from minikafka.testing.async_view import AsyncBroker, AsyncGroup, AsyncView
from minikafka.testing.clients import in_thread
from minikafka.testing.fault_handle import FaultInTest
from minikafka.testing.faults import AsyncFault
from minikafka.testing.view import BrokerHandle, GroupHandle, TestView

pytestmark = pytest.mark.mission("IN-44")


async def bill(kafka: TestView) -> list[bytes | None]:
    """Work of a test, on its own loop, with a client of another library beside it."""
    topic = await kafka.aio.topic(partitions=2)
    settings: Any = {**kafka.config("aiokafka"), "group_id": topic, "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(topic, **settings) as consumer:
        async with kafka.aio.produces(topic, count=2) as produced:
            await asyncio.gather(*(kafka.aio.produce(topic, value) for value in (b"a", b"b")))
        for _ in produced:
            await consumer.getone()
        await consumer.commit()
        group = await kafka.aio.group(topic).wait(state="Stable", members=1, lag=0, timeout=30)
        assert group == await kafka.aio.group(topic).now()
        assert sum((await kafka.aio.committed(topic)).values()) == 2
    assert (await kafka.aio.expect(topic, lambda record: record.value == b"b")).value == b"b"
    with pytest.raises(AssertionError, match="2 of 3 records"):
        await kafka.aio.records(topic, count=3, timeout=0)
    await kafka.aio.reset()
    return sorted(record.value or b"" for record in produced)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_coroutines_run_on_any_loop(run: Callable[..., Any], minikafka: TestView) -> None:
    assert run(bill(minikafka)) == [b"a", b"b"]


async def test_a_waiting_coroutine_does_not_stop_the_loop(minikafka: TestView) -> None:
    topic = await minikafka.aio.topic()
    waiting = [asyncio.create_task(minikafka.aio.records(topic, 1, 30)) for _ in range(20)]
    await asyncio.sleep(0)  # they all wait
    await minikafka.aio.produce(topic, b"x")
    assert [len(found) for found in await asyncio.gather(*waiting)] == 20 * [1]


async def test_clients_of_the_view_run_on_the_loop_of_the_cluster(minikafka: TestView) -> None:
    topic = await minikafka.aio.topic()
    await minikafka.aio.produce(topic, b"x")
    loops: list[asyncio.AbstractEventLoop] = []

    def note(_: ConsumerRecord) -> bool:
        loops.append(asyncio.get_running_loop())
        return True

    await minikafka.aio.expect(topic, note)
    await asyncio.to_thread(minikafka.expect, topic, note)
    assert loops[0] is loops[1] is not asyncio.get_running_loop()


async def test_an_error_arrives_where_it_is_awaited(minikafka: TestView) -> None:
    async def fail() -> None:
        raise OSError("of the cluster's loop")

    with pytest.raises(OSError, match="cluster's loop"):
        await minikafka.cluster.run(fail())
    with pytest.raises(OSError, match="a thread"):
        await in_thread(lambda: (_ for _ in ()).throw(OSError("a thread")))


@pytest.mark.parametrize(
    ("blocking", "on_a_loop"),
    [
        (TestView, AsyncView),
        (BrokerHandle, AsyncBroker),
        (GroupHandle, AsyncGroup),
        (FaultInTest, AsyncFault),
    ],
)
def test_both_sides_have_the_same_methods(blocking: type, on_a_loop: type) -> None:
    of_view = {"bootstrap", "brokers", "check_faults", "clock", "config", "where"}
    of_group = {"committed", "lag", "members", "state"}  # read with ``now()`` on a loop
    for name in sorted(set(dir(blocking)) - of_view - of_group):
        method = getattr(blocking, name)
        if name.startswith("_") or not callable(method):
            continue
        other = getattr(on_a_loop, name)
        assert inspect.getdoc(other) or blocking is FaultInTest, name
        ours, theirs = inspect.signature(method), inspect.signature(other)
        assert ours.parameters == theirs.parameters, name
