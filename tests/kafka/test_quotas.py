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
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.world import RealClock
from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.support.cluster.cluster_state import until
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.cluster.tool_jvm import ToolJvm
from tests.support.storage.logs import batch

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

TOPIC = "t"
SLOW = "slow"
PROBE = "probe"  # a topic, and the client that writes to it
QUOTAS = "producer_byte_rate=100,consumer_byte_rate=320,controller_mutation_rate=0.1"
BROKERS = (1, 2)  # Kafka's, ours; each leads the partition before its number


async def request(
    cluster: MixedCluster, broker_id: int, message: Any, version: int, client_id: str = SLOW
) -> Any:
    """Send a request on a new connection: another may be muted."""
    host, _, port = cluster.address(broker_id).rpartition(":")
    channel = await Channel.open(
        RealNetwork(), RealClock(), host, int(port), client_id, ChannelConfig()
    )
    try:
        return await channel.request(message, version, 30_000)
    finally:
        channel.close()


def produce(broker_id: int, size: int, topic: str = TOPIC) -> ProduceRequest:
    data = PartitionProduceData(broker_id - 1, batch(bytes(size)))
    return ProduceRequest(None, 1, 10_000, [TopicProduceData(topic, partition_data=[data])])


def fetch(broker_id: int) -> FetchRequest:
    partition = FetchPartition(broker_id - 1, partition_max_bytes=1 << 20)
    return FetchRequest(topics=[FetchTopic(TOPIC, partitions=[partition])])


def set_quota(cluster: MixedCluster, tools: ToolJvm, client_id: str, quotas: str) -> None:
    named = ("--entity-type", "clients", "--entity-name", client_id)
    at = ("--bootstrap-server", "{bootstrap}")
    done = tools.run(cluster, "configs", *at, "--alter", *named, "--add-config", quotas)
    assert f"Completed updating config for client {client_id}." in done.out, done


def until_probe_is_throttled(cluster: MixedCluster, broker_id: int) -> None:
    """A broker reads the notifications of quotas in their order, so that it has read the others
    once it throttles the client whose quota was set last."""

    def is_throttled() -> bool:
        probe = produce(broker_id, 1_000, PROBE)
        response = asyncio.run(request(cluster, broker_id, probe, 9, client_id=PROBE))
        return bool(response.throttle_time_ms)

    until(is_throttled, f"broker {broker_id} throttles the probe")


@pytest.mark.mission("SEC-143", "SEC-144", "SEC-145", "SEC-147")
def test_kafka_and_we_throttle_a_client_alike(mixed: Mixed, tools: ToolJvm) -> None:
    """The quota is set by Kafka's tool. The first responses are the same to a few bytes; what comes
    later depends on the time."""
    properties = {"log.retention.ms": "-1"}
    with mixed(NEWEST, OURS, properties=properties) as cluster:
        cluster.create_topic(TOPIC, [1], [2])
        cluster.create_topic(PROBE, [1], [2])
        set_quota(cluster, tools, SLOW, QUOTAS)
        set_quota(cluster, tools, PROBE, "producer_byte_rate=1")
        for broker_id in BROKERS:
            until_probe_is_throttled(cluster, broker_id)

        async def throttle_times(message: Any, version: int) -> list[int]:
            found = [await request(cluster, b, message(b), version) for b in BROKERS]
            return [response.throttle_time_ms for response in found]

        async def compare() -> None:
            first = await throttle_times(lambda b: produce(b, 3_000), 9)
            assert first[0] == pytest.approx(first[1], rel=0.01)
            assert first[0] > 15_000
            fetched = [await request(cluster, b, fetch(b), 12) for b in BROKERS]
            assert [response.throttle_time_ms for response in fetched] == [0, 0]
            sizes = [len(r.responses[0].partitions[0].records) for r in fetched]
            assert sizes[0] == sizes[1] > 3_000
            again = await throttle_times(fetch, 12)
            # The rate is that of ten seconds and the part of one in which its last sample is.
            assert again[0] == pytest.approx(again[1], abs=1_000)
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
