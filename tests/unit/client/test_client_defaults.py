"""The defaults of Kafka's clients, and how they reach the broker."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.client import ClientConfig, Consumer, ConsumerConfig, Producer, ProducerConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.api_keys import ApiKey
from tests.support.fake_cluster import FakeCluster
from tests.support.jumping_loop import jumping, memory_world

T0 = TopicPartition("t", 0)


@pytest.mark.mission("CFG-1")
def test_defaults_are_kafkas():
    assert ProducerConfig().acks == -1  # since 3.0; 1 before that
    assert ClientConfig().request_timeout_ms == 30_000
    assert ConsumerConfig().fetch_min_bytes == 1
    assert ConsumerConfig().isolation_level == "read_uncommitted"


@pytest.mark.mission("CFG-1", "R-12")
@pytest.mark.parametrize(
    ("producer_keys", "shared_keys", "told"),
    [
        ({}, {}, (-1, 30_000)),
        ({"acks": 0}, {}, (0, 30_000)),
        ({"acks": 1}, {"request_timeout_ms": 4_321}, (1, 4_321)),
    ],
)
def test_a_produce_request_names_its_acks_and_its_time_out(producer_keys, shared_keys, told):
    @jumping
    async def scenario():
        world = memory_world()
        cluster = FakeCluster(world, 1)
        cluster.create("t", 1)
        await cluster.start()
        config = ClientConfig(bootstrap_servers=cluster.bootstrap, **shared_keys)
        async with Producer(world, config, ProducerConfig(**producer_keys)) as producer:
            await producer.send_and_wait("t", b"v", partition=0)
            await asyncio.sleep(0.01)  # nobody waits for acks=0 to arrive
        (request,) = cluster.requests(ApiKey.PRODUCE)
        assert (request.acks, request.timeout_ms) == told

    scenario()


@pytest.mark.mission("CFG-1")
@jumping
async def test_a_fetch_request_asks_for_one_byte_committed_or_not():
    world = memory_world()
    cluster = FakeCluster(world, 1)
    cluster.create("t", 1)
    await cluster.start()
    config = ClientConfig(bootstrap_servers=cluster.bootstrap)
    async with Consumer(world, config, ConsumerConfig()) as consumer:
        consumer.assign([T0])
        await consumer.poll(timeout_ms=1_000)
    request = cluster.requests(ApiKey.FETCH)[0]
    assert (request.min_bytes, request.isolation_level) == (1, 0)
