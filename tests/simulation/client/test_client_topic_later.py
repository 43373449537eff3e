"""A consumer of a group that subscribes to a topic before somebody creates it."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.client import Admin, Consumer, ConsumerConfig, Producer
from minikafka.testing.simulator.cluster import SimCluster


@pytest.mark.parametrize("seed", range(2))
def test_it_reads_the_topic_soon_after_its_creation(seed: int) -> None:
    async def play(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("all up", lambda: len(cluster.nodes()) == 3)
        world, client = cluster.client_host.world, cluster.client_config
        config = ConsumerConfig(group_id="g", auto_offset_reset="earliest")
        async with Consumer(world, client, config) as consumer, Admin(world, client) as admin:
            consumer.subscribe(["later"])
            for _ in range(10):
                assert await consumer.poll(1_000) == []
            await admin.create_topic("later", 1, 3)
            await admin.wait_for_topic("later", 1)
            async with Producer(world, client) as producer:
                await producer.send_and_wait("later", b"v")
            async with asyncio.timeout(20):  # of simulated time; metadata.max.age.ms is 5 minutes
                while not (records := await consumer.poll(1_000)):
                    pass
        assert [record.value for record in records] == [b"v"]

    settings = {"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": "0"}
    SimCluster(seed, settings=settings).run(play)
