"""Clients of others are throttled by quotas that the verb `configs` has set."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer, ThrottleEvent
from kafka import KafkaConsumer, KafkaProducer

from minikafka.cli import main
from minikafka.kernel.principals import ANONYMOUS
from minikafka.testing.inside.cluster import InsideCluster
from tests.support.cluster.cluster_state import until

pytestmark = pytest.mark.compat

VALUE = bytes(10_000)


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    """Its rates are those of three seconds, not of eleven, so that throttled clients soon go on."""
    with InsideCluster(3, {"quota.window.num": 3}) as running:
        yield running


def has_limit(cluster: InsideCluster, client_id: str, name: str) -> Iterator[bool]:
    """Yield for each broker whether it knows a limit of the client."""
    for broker in cluster._brokers.values():
        assert broker.node is not None
        limits = broker.node.entities.client_quotas.by_key[name].limits
        yield limits.of_client(ANONYMOUS.name, client_id) is not None


@contextmanager
def quota(cluster: InsideCluster, client_id: str, limit: str) -> Iterator[None]:
    """Set a limit of a client id by the verb, and remove it afterwards."""
    name, _, value = limit.partition("=")
    verb = ["configs", "--bootstrap-server", cluster.bootstrap, "--alter", "--client", client_id]
    assert main.main([*verb, "--add-config", f"{name}={value}"]) == 0
    until(lambda: all(has_limit(cluster, client_id, name)), "every broker has read the quota")
    try:
        yield
    finally:
        assert main.main([*verb, "--delete-config", name]) == 0


@pytest.mark.mission("SEC-144", "SEC-150")
@pytest.mark.parametrize("acks", ["0", "1"])
def test_a_producer_of_confluent_kafka_is_slowed_down(
    cluster: InsideCluster, topic: str, acks: str
) -> None:
    """60 KB at 15 KB a second on one partition: 30 KB are free, the rest takes seconds."""
    client_id = f"slow-{uuid.uuid4().hex[:8]}"
    events: list[ThrottleEvent] = []
    Producer({"bootstrap.servers": cluster.bootstrap}).list_topics(topic, timeout=30)
    settings = {"client.id": client_id, "acks": acks, "linger.ms": 0, "batch.num.messages": 1}
    with quota(cluster, client_id, "producer_byte_rate=15000"):
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "throttle_cb": events.append, **settings}
        )
        delivered: list[object] = []
        for _ in range(6):
            producer.produce(topic, VALUE, on_delivery=lambda error, _: delivered.append(error))
        assert producer.flush(60) == 0
        assert delivered == [None] * 6
        if acks == "1":
            assert max(event.throttle_time for event in events) > 0
    with KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap.split(","), auto_offset_reset="earliest"
    ) as consumer:
        count = 0
        deadline = time.monotonic() + 60
        while count < 6 and time.monotonic() < deadline:
            count += sum(map(len, consumer.poll(1_000).values()))
        assert count == 6


@pytest.mark.mission("SEC-145", "SEC-150")
def test_a_consumer_of_kafka_python_is_throttled_and_gets_all(
    cluster: InsideCluster, topic: str
) -> None:
    client_id = f"slow-{uuid.uuid4().hex[:8]}"
    servers = cluster.bootstrap.split(",")
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=0, batch_size=0)
    for _ in range(5):
        producer.send(topic, VALUE, partition=0)
    producer.flush(30)
    producer.close()
    with (
        quota(cluster, client_id, "consumer_byte_rate=12000"),
        KafkaConsumer(
            topic,
            bootstrap_servers=servers,
            client_id=client_id,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=10_500,
        ) as consumer,
    ):
        count = 0
        deadline = time.monotonic() + 60
        while count < 5 and time.monotonic() < deadline:
            count += sum(map(len, consumer.poll(1_000).values()))
        times = [
            group["throttle-time-max"]
            for group in consumer.metrics().values()
            if "throttle-time-max" in group
        ]
        assert count == 5
        assert max(times) > 0
