"""Consumers that say where they are, on brokers in two racks (KIP-392): librdkafka and ours."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka import client
from minikafka.cli.processes.up import DEBUG_PORT_OFFSET
from minikafka.kernel import cluster as ids
from minikafka.world.real.loop import run
from minikafka.world.real.world import real_world
from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import RealCluster

# One group, so that its brokers start once. It can run beside other clusters.
pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("follower_reads")]

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
FAR, LEADER = 2, 1
COUNT = 50
VALUES = [b"%d" % number for number in range(COUNT)]


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Broker 1 leads everything; broker 2 is in the rack ``far``."""
    overrides = (f"replica.selector.class={SELECTOR}", "auto.leader.rebalance.enable=false")
    with RealCluster(tmp_path_factory.mktemp("racks"), brokers=2, overrides=overrides) as running:
        running.end_broker(FAR, signal.SIGTERM)
        with (running.home(f"broker-{FAR}") / "server.properties").open("a") as properties:
            properties.write("broker.rack=far\n")
        running.restart_broker(FAR)
        # Until the first UpdateMetadata a broker knows no controller, as in Kafka, and an admin
        # client of librdkafka that gets such metadata waits for one without asking again.
        for address in running.bootstrap.split(","):
            admin = AdminClient({"bootstrap.servers": address})
            until(partial(knows_both, admin), f"{address} knows both brokers", 60)
        yield running


def knows_both(admin: AdminClient) -> bool:
    return len(admin.list_topics(timeout=5).brokers) == 2


def written(cluster: RealCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = NewTopic(topic, 1, replica_assignment=[[LEADER, FAR]])
    admin.create_topics([new])[topic].result(60)
    cluster.until_isr(topic, 0, [LEADER, FAR])
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


BYTES_OUT = "kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec"


def bytes_out(cluster: RealCluster, broker_id: int) -> float:
    """To consumers; what replicas copy is counted elsewhere."""
    host, _, port = cluster.bootstrap.split(",")[broker_id - 1].rpartition(":")
    url = f"http://{host}:{int(port) + DEBUG_PORT_OFFSET}/metrics.json?prefix={BYTES_OUT}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        metrics: dict[str, Any] = json.load(answer)["metrics"]
    return float(metrics[BYTES_OUT])


def read_by_librdkafka(cluster: RealCluster, topic: str, rack: str) -> list[bytes | None]:
    keys = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": f"{topic}-{rack}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(keys | ({"client.rack": rack} if rack else {}))
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    deadline = time.monotonic() + 60
    while len(found) < COUNT:
        assert time.monotonic() < deadline, f"{len(found)} records"
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


def read_by_us(cluster: RealCluster, topic: str, rack: str) -> list[bytes | None]:
    async def main() -> list[bytes | None]:
        world = real_world()
        config = client.ClientConfig(bootstrap_servers=cluster.bootstrap)
        mine = client.ConsumerConfig(auto_offset_reset="earliest", client_rack=rack)
        async with client.Consumer(world, config, mine) as consumer:
            consumer.assign([ids.TopicPartition(topic, 0)])
            return [record.value async for record in consumer.read_to()]

    return run(main())


@pytest.mark.parametrize("read", [read_by_librdkafka, read_by_us])
def test_a_consumer_with_a_rack_reads_from_the_replica_in_its_rack(
    racks: RealCluster, read: Any
) -> None:
    topic = f"near-{read.__name__}"
    written(racks, topic)
    before = bytes_out(racks, FAR), bytes_out(racks, LEADER)
    assert read(racks, topic, "far") == VALUES
    assert bytes_out(racks, FAR) > before[0]
    assert bytes_out(racks, LEADER) == before[1]
    assert read(racks, topic, "") == VALUES
    assert bytes_out(racks, LEADER) > before[1]
