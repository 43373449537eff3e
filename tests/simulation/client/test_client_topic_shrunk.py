"""A group of our consumers whose topic is deleted and created again with fewer partitions."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.client import Admin
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.sim_groups import TOPIC, Reader, simulated, until_shared, write


async def recreate(cluster: SimCluster, partitions: int, pause_ms: int) -> None:
    async with Admin(cluster.client_host.world, cluster.client_config) as admin:
        await admin.delete_topics([TOPIC])
        await asyncio.sleep(pause_ms / 1000)
        while True:
            try:
                await admin.create_topic(TOPIC, partitions, 1)
                break
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
                await asyncio.sleep(0.05)
        await admin.wait_for_topic(TOPIC, partitions)


@pytest.mark.mission("PAR-11")
@pytest.mark.parametrize("pause_ms", [0, 20_000])
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_the_group_shares_the_partitions_that_are_left(strategy: str, pause_ms: int) -> None:
    async def scenario(cluster: SimCluster) -> None:
        await write(cluster, 0, 40)
        keys = {"partition_assignment_strategy": (strategy,), "auto_commit_interval_ms": 1_000}
        first, second = (Reader(cluster, **keys).start() for _ in range(2))
        await until_shared(cluster, first, second)
        await cluster.until("all of it", lambda: len(first.records + second.records) == 40)
        await asyncio.sleep(3)
        await recreate(cluster, 2, pause_ms)
        begun = cluster.simulation.loop.seconds()
        first.consumer.session.metadata.request_update()  # as after metadata.max.age.ms
        second.consumer.session.metadata.request_update()
        await until_shared(cluster, first, second, partitions=2)
        assert cluster.simulation.loop.seconds() - begun < 10
        await write(cluster, 40, 10)
        await cluster.until("the new records", lambda: len(first.records + second.records) == 50)
        values = sorted(int(value or b"") for value in first.values + second.values)
        assert values == list(range(50))
        await first.stop()
        await second.stop()

    simulated(scenario)
