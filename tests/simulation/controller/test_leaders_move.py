"""Leaders that move on purpose, seen by a producer: what it waits apart from its own back-off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from minikafka.client import Admin, Producer, ProducerConfig
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.testing.simulator.cluster import SimCluster

TOPIC = "t"
PARTITIONS = tuple(TopicPartition(TOPIC, number) for number in range(6))
# A parked Fetch of a follower ends with the records of any partition. With few of them a partition
# that the Fetch does not name would wait for up to replica.fetch.wait.max.ms.
PAUSE_MS = 100
PROBE_S = 0.6  # longer than replica.fetch.wait.max.ms
UNNOTICED_MS = 100
SETTINGS = {"auto.leader.rebalance.enable": "false"}


class Waits:
    """A producer (acks=all) that sends to the partitions in turn; ``longest_ms`` of its records."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._waits_ms: list[int] = []
        self._records: set[asyncio.Task[None]] = set()

    async def run(self, seconds: float) -> None:
        world = self._cluster.client_host.world
        config = replace(self._cluster.client_config, retry_backoff_ms=1)
        async with Producer(world, config, ProducerConfig(linger_ms=0)) as producer:
            end_ms = world.clock.monotonic_ms() + round(seconds * 1000)
            number = 0
            while world.clock.monotonic_ms() < end_ms:
                record = asyncio.ensure_future(self._send(producer, number % len(PARTITIONS)))
                self._records.add(record)
                await world.clock.sleep(PAUSE_MS)
                number += 1
            await asyncio.gather(*self._records)

    async def _send(self, producer: Producer, partition: int) -> None:
        clock = self._cluster.client_host.world.clock
        began_ms = clock.monotonic_ms()
        await producer.send_and_wait(TOPIC, b"", partition=partition)
        self._waits_ms.append(clock.monotonic_ms() - began_ms)

    @property
    def longest_ms(self) -> int:
        return max(self._waits_ms)


async def during(cluster: SimCluster, step: Callable[[], Awaitable[object]]) -> int:
    """Return the longest wait of a record in ms while leaders move."""
    waits = Waits(cluster)
    load = cluster.spawn_client(waits.run(4 * PROBE_S), "load")
    await asyncio.sleep(PROBE_S)
    await step()
    await load
    return waits.longest_ms


@pytest.mark.mission("CSH-15")
@pytest.mark.parametrize("seed", [4, 9])  # a record waited for 307 ms in one, 402 in the other
def test_leaders_leave_and_return_without_a_gap(seed: int) -> None:
    async def scenario(cluster: SimCluster) -> None:
        cluster.start()
        await cluster.until("brokers up", lambda: len(cluster.nodes()) == 3)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic(TOPIC, len(PARTITIONS), 3)
            await admin.wait_for_topic(TOPIC, len(PARTITIONS))
            await cluster.until_whole(*PARTITIONS)
            leaving = next(b for b in cluster.broker_ids if b != cluster.controller_id())
            assert await during(cluster, lambda: cluster.stop(leaving)) < UNNOTICED_MS
            await cluster.bring_up(leaving)
            await cluster.until_whole(*PARTITIONS)
            assert leaving not in map(cluster.leader, PARTITIONS)

            async def elect() -> None:
                await admin.elect_leaders(ElectionType.PREFERRED, PARTITIONS)

            assert await during(cluster, elect) < UNNOTICED_MS
            assert leaving in map(cluster.leader, PARTITIONS)

    SimCluster(seed, settings=SETTINGS).run(scenario)
