"""Every accepted record is settled, even if its caller gave up; invalid ones are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.client import ClientConfig, Producer
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from tests.support.client.failures import failure_code
from tests.support.client.fake_cluster import SILENCE, FakeCluster
from tests.support.client.scenes import producing
from tests.support.world.client_world import client_world, jumping

T0 = TopicPartition("t", 0)


@jumping
async def test_a_flush_waits_for_the_others_of_a_batch_whose_last_was_given_up() -> None:
    async with producing(linger_ms=50) as (producer, cluster):
        kept = await producer.send("t", b"kept", partition=0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(producer.send_and_wait("t", b"given up", partition=0), 0.01)
        await producer.flush()
        assert kept.result().offset == 0
        assert cluster.values(T0) == [b"kept", b"given up"]


@jumping
async def test_leaving_waits_for_the_others_too() -> None:
    async with producing(linger_ms=50) as (producer, cluster):
        kept = await producer.send("t", b"kept", partition=0)
        (await producer.send("t", b"given up", partition=0)).cancel()
    assert kept.result().offset == 0
    assert cluster.values(T0) == [b"kept", b"given up"]


@jumping
async def test_a_flush_of_a_batch_that_the_broker_found_too_large() -> None:
    async with producing(partitions=1, linger_ms=50) as (producer, cluster):
        cluster.fail(ApiKey.PRODUCE, *[ErrorCode.MESSAGE_TOO_LARGE] * 2)
        sent = [await producer.send("t", b"%d" % number) for number in range(4)]
        sent[-1].cancel()
        await producer.flush()
        assert all(promise.done() for promise in sent)
        assert cluster.values(T0) == [b"0", b"1", b"2", b"3"]


async def left_with_one_on_its_way(cluster: FakeCluster, world: Any, config: Any) -> Any:
    async with Producer(world, config) as producer:
        await producer.send_and_wait("t", b"warm", partition=0)
        cluster.fail(ApiKey.PRODUCE, *[SILENCE] * 100)
        cluster.kept = await producer.send("t", b"v", partition=0)  # type: ignore[attr-defined]


@pytest.mark.parametrize("cancels", [1, 2, 3])
def test_cancelled_while_it_closes(cancels: int) -> None:
    @jumping
    async def scenario() -> None:
        world = client_world()
        cluster = FakeCluster(world)
        cluster.create("t")
        await cluster.start()
        config = ClientConfig(bootstrap_servers=cluster.bootstrap)
        before = asyncio.all_tasks()
        task = asyncio.ensure_future(left_with_one_on_its_way(cluster, world, config))
        await asyncio.sleep(5)
        assert not task.done()
        for _ in range(cancels):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([task], timeout=60)
        assert task.cancelled()
        assert asyncio.all_tasks() == before
        kept = cluster.kept  # type: ignore[attr-defined]
        assert await failure_code(kept) is ErrorCode.NETWORK_EXCEPTION

    scenario()


@jumping
async def test_an_abort_ends_a_waiting_close() -> None:
    async with producing() as (producer, cluster):
        await producer.send_and_wait("t", b"warm", partition=0)
        cluster.fail(ApiKey.PRODUCE, *[SILENCE] * 100)
        kept = await producer.send("t", b"v", partition=0)
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(1)
        await producer.abort()
        await asyncio.wait_for(closing, 1)
        assert await failure_code(kept) is ErrorCode.NETWORK_EXCEPTION
        assert (
            await failure_code(producer.send("t", b"v", partition=0)) is ErrorCode.NETWORK_EXCEPTION
        )


@jumping
async def test_a_send_that_waits_for_buffer_memory_fails_on_abort() -> None:
    async with producing(buffer_memory=200, batch_size=1) as (producer, cluster):
        await producer.send_and_wait("t", b"warm", partition=0)
        cluster.fail(ApiKey.PRODUCE, *[SILENCE] * 100)
        await producer.send("t", b"v" * 100, partition=0)
        waiting = asyncio.ensure_future(producer.send("t", b"v" * 100, partition=0))
        await asyncio.sleep(1)
        await producer.abort()
        assert await failure_code(waiting) is ErrorCode.NETWORK_EXCEPTION


NO_RECORDS: list[tuple[type[Exception], dict[str, Any]]] = [
    (TypeError, {"value": "text"}),
    (TypeError, {"key": 7}),
    (TypeError, {"timestamp_ms": 1.7e12}),
    (ValueError, {"timestamp_ms": -5}),
    (ValueError, {"timestamp_ms": 1 << 63}),
    (TypeError, {"headers": [("h", "text")]}),
    (TypeError, {"headers": [(b"h", b"v")]}),
    (TypeError, {"headers": {"h": b"v"}}),
    (ValueError, {"headers": [("h",)]}),
    (ValueError, {"partition": -1}),
]


@pytest.mark.parametrize(("error", "keys"), NO_RECORDS)
@pytest.mark.parametrize("first", [True, False])
def test_an_invalid_record_is_refused_and_harms_no_other(
    error: type[Exception], keys: dict[str, Any], first: bool
) -> None:
    @jumping
    async def scenario() -> None:
        async with producing(linger_ms=20) as (producer, cluster):
            if not first:
                await producer.send("t", b"before", partition=0)
            with pytest.raises(error):
                await producer.send("t", **dict[str, Any](value=b"v", partition=0) | keys)
            await producer.send_and_wait("t", b"after", partition=0)
            assert cluster.values(T0) == ([] if first else [b"before"]) + [b"after"]

    scenario()


@jumping
async def test_bytes_like_values_are_copied_at_send() -> None:
    async with producing() as (producer, cluster):
        value, key = bytearray(b"abc"), memoryview(b"abcdef")[::2]
        content = bytearray(b"x")
        headers = iter([("h", content), ("n", None)])
        sent = await producer.send("t", value, key, partition=0, headers=headers)  # type: ignore[arg-type]
        value[:] = content[:] = b"?"
        await sent
        (record,) = cluster.partitions[T0].records()
        assert (record.value, record.key) == (b"abc", b"ace")
        assert list(record.headers) == [("h", b"x"), ("n", None)]
