"""Clients of others on a cluster with inter.broker.protocol.version=2.0."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from minikafka.testing.inside.cluster import InsideCluster
from tests.support.clients.places import Cluster
from tests.support.cluster.leaders import wait_for_leaders

pytestmark = pytest.mark.compat

COUNT = 200


@pytest.fixture(scope="module")
def cluster_2_0() -> Iterator[Cluster]:
    with InsideCluster(3, {"inter.broker.protocol.version": "2.0"}) as running:
        yield running


def create(cluster: Cluster, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    admin.create_topics([NewTopic(topic, 3, 3)])
    wait_for_leaders(cluster.bootstrap, topic, 3)
    admin.close()


@pytest.mark.mission("PRO-5")
def test_kafka_python_in_a_group(cluster_2_0: Cluster, topic: str) -> None:
    create(cluster_2_0, topic)
    servers = cluster_2_0.bootstrap.split(",")
    producer = KafkaProducer(bootstrap_servers=servers, acks="all")
    futures = [producer.send(topic, b"%d" % n) for n in range(COUNT)]
    assert len([future.get(30) for future in futures]) == COUNT
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=uuid.uuid4().hex,
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    found = set()
    for record in consumer:
        found.add(int(record.value))
        if len(found) == COUNT:
            break
    assert found == set(range(COUNT))
    consumer.commit()
    consumer.close()


@pytest.mark.mission("PRO-5")
def test_confluent_kafka_in_transactions(cluster_2_0: Cluster, topic: str) -> None:
    create(cluster_2_0, topic)
    producer = Producer({"bootstrap.servers": cluster_2_0.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for abort in (False, True):
        producer.begin_transaction()
        for number in range(COUNT):
            producer.produce(topic, b"aborted" if abort else b"%d" % number)
        if abort:
            producer.flush(30)  # librdkafka drops what it has not sent
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster_2_0.bootstrap,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": False,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    for _ in range(60):
        for message in consumer.consume(COUNT, timeout=0.5):
            assert message.error() is None
            found.append(message.value() or b"")
        if len(found) >= COUNT:
            break
    consumer.commit(asynchronous=False)
    consumer.close()
    assert sorted(map(int, found)) == list(range(COUNT))
