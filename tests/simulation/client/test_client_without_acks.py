"""Records with acks=0 reach the log of the leader where nothing fails, also right before a close.

A client that closed its connections at once lost the last record at every second seed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from minikafka.client import Admin, Producer, ProducerConfig
from minikafka.client.connections import Connections
from minikafka.core.client.producer.calls import ProduceCall, produce
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.page.learn.looks import log_end
from minikafka.protocol.records.builder import build_batch
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name

TOPIC = "metrics"
PARTITION = TopicPartition(TOPIC, 0)
LEADER = -1  # the node id of the first bootstrap server
SEEDS = range(1, 9)


def call(acks: int) -> ProduceCall:
    return produce([(PARTITION, build_batch([(0, None, b"v", ())]))], acks, 1_000)


async def up(cluster: SimCluster, partitions: int) -> None:
    cluster.start()
    await cluster.until("all up", lambda: len(cluster.nodes()) == 3)
    async with Admin(cluster.client_host.world, cluster.client_config) as admin:
        await admin.create_topic(TOPIC, partitions, 3)
        await admin.wait_for_topic(TOPIC, partitions)


def stored(cluster: SimCluster, partitions: int) -> int:
    """Return how many records the logs of the leaders have."""
    names = [TopicPartition(TOPIC, number) for number in range(partitions)]
    return sum(log_end(cluster, name, cluster.leader(name)) for name in names)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("records", [1, 30])
def test_a_producer_that_closes_after_its_last_record_loses_none(seed: int, records: int) -> None:
    async def play(cluster: SimCluster) -> None:
        await up(cluster, 3)
        world, config = cluster.client_host.world, ProducerConfig(acks=0)
        for _ in range(3):
            async with Producer(world, cluster.client_config, config) as producer:
                for number in range(records):
                    await producer.send(TOPIC, b"v", partition=number % 3)
        await world.clock.sleep(500)
        assert stored(cluster, 3) == 3 * records

    SimCluster(seed).run(play)


@pytest.mark.parametrize("seed", SEEDS)
def test_requests_between_others_with_a_response_lose_none(seed: int) -> None:
    """One connection carries both, the last one has no response, and responses to earlier ones are
    on their way when it is closed."""

    acknowledged, unacknowledged = call(1), call(0)
    version = acknowledged.highest_version
    assert version == unacknowledged.highest_version

    def request(connections: Connections) -> asyncio.Task[Any]:
        sending = connections.request(LEADER, acknowledged.request, highest_version=version)
        return asyncio.create_task(sending)

    async def play(cluster: SimCluster) -> None:
        await up(cluster, 1)
        world = cluster.client_host.world
        leader = f"{host_name(cluster.leader(PARTITION))}:{PORT}"
        connections = Connections(world, replace(cluster.client_config, bootstrap_servers=leader))
        await connections.connect(LEADER)
        first = [request(connections) for _ in range(2)]
        for _ in range(5):
            await connections.send(LEADER, unacknowledged.request, version)
        await asyncio.gather(*first)
        unread = request(connections)
        await asyncio.sleep(0)
        await connections.send(LEADER, unacknowledged.request, version)
        connections.close()
        await connections.wait_closed()
        with pytest.raises(KafkaError):
            await unread
        await world.clock.sleep(500)
        assert stored(cluster, 1) == 9

    SimCluster(seed).run(play)
