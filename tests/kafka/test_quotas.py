"""A broker of Kafka and one of ours throttle one client alike, by quotas in one ZooKeeper."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.world.real.clock import RealClock
from minikafka.world.real.network import RealNetwork
from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.support.cluster.kafka_tools import run_tool
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.storage.logs import batch

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

TOPIC = "t"
QUOTAS = "producer_byte_rate=100,consumer_byte_rate=320,controller_mutation_rate=0.1"
BROKERS = (1, 2)  # Kafka's, ours; each leads the partition before its number


async def request(cluster: MixedCluster, broker_id: int, message: Any, version: int) -> Any:
    """Send a request of the client id ``slow`` on a new connection: another may be muted."""
    host, _, port = cluster.address(broker_id).rpartition(":")
    channel = await Channel.open(
        RealNetwork(), RealClock(), host, int(port), "slow", ChannelConfig()
    )
    try:
        return await channel.request(message, version, 30_000)
    finally:
        channel.close()


def produce(broker_id: int, size: int) -> ProduceRequest:
    data = PartitionProduceData(broker_id - 1, batch(bytes(size)))
    return ProduceRequest(None, 1, 10_000, [TopicProduceData(TOPIC, [data])])


def fetch(broker_id: int) -> FetchRequest:
    partition = FetchPartition(broker_id - 1, partition_max_bytes=1 << 20)
    return FetchRequest(topics=[FetchTopic(TOPIC, partitions=[partition])])


@pytest.mark.mission("SEC-143", "SEC-144", "SEC-145", "SEC-147")
def test_kafka_and_we_throttle_a_client_alike(mixed: Mixed) -> None:
    """The quota is set by Kafka's tool. The first responses are the same to a few bytes; what comes
    later depends on the time."""
    properties = {"log.retention.ms": "-1"}
    with mixed(NEWEST, OURS, properties=properties) as cluster:
        cluster.create_topic(TOPIC, [1], [2])
        arguments = ("--entity-type", "clients", "--entity-name", "slow", "--add-config", QUOTAS)
        done = run_tool(
            cluster, "configs", "--bootstrap-server", "{bootstrap}", "--alter", *arguments
        )
        assert "Completed updating config for client slow." in done.out

        async def throttle_times(message: Any, version: int) -> list[int]:
            found = [await request(cluster, b, message(b), version) for b in BROKERS]
            return [response.throttle_time_ms for response in found]

        async def compare() -> None:
            await asyncio.sleep(1)  # until both have read the notification
            first = await throttle_times(lambda b: produce(b, 3_000), 9)
            assert first[0] == pytest.approx(first[1], rel=0.01)
            assert first[0] > 15_000
            fetched = [await request(cluster, b, fetch(b), 12) for b in BROKERS]
            assert [response.throttle_time_ms for response in fetched] == [0, 0]
            sizes = [len(r.responses[0].partitions[0].records) for r in fetched]
            assert sizes[0] == sizes[1] > 3_000
            again = await throttle_times(fetch, 12)
            assert again[0] == pytest.approx(again[1], rel=0.05)
            assert min(again) > 0

            async def create(name: str) -> tuple[int, bool]:
                topics = [CreatableTopic(name, 3, 1)]
                response = await request(
                    cluster, controller, CreateTopicsRequest(topics, 10_000), 6
                )
                return response.topics[0].error_code, response.throttle_time_ms > 0

            outcomes = []
            for controller in BROKERS:
                await asyncio.to_thread(cluster.make_controller, controller)
                outcomes.append([await create(f"{controller}-{n}") for n in range(2)])
            assert outcomes[0] == outcomes[1] == [(0, False), (89, True)]

        asyncio.run(compare())
