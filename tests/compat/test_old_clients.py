"""Clients that speak to us as to brokers of long ago: message sets in both directions."""

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from tests.support.clients.places import Cluster
from tests.support.cluster.leaders import wait_for_leaders

pytestmark = pytest.mark.compat

RELEASES = [(0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 2)]
T0 = 1_700_000_000_000


def create(cluster: Cluster, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    admin.create_topics([NewTopic(topic, 1, 3)])
    wait_for_leaders(cluster.bootstrap, topic, 1)
    admin.close()


def produced(cluster: Cluster, topic: str, release: tuple[int, ...], codec: str | None) -> None:
    """100 records in few sets, by kafka-python."""
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap.split(","),
        api_version=release,
        compression_type=codec,
        enable_idempotence=False,
        linger_ms=20,
        acks="all",
    )
    futures = [
        producer.send(topic, value_of(n), key=b"%d" % n, partition=0, timestamp_ms=T0 + n)
        for n in range(100)
    ]
    producer.flush(30)
    assert [future.get(10).offset for future in futures] == list(range(100))
    producer.close()


def value_of(number: int) -> bytes:
    return b"value-%d " % number * 20


def read(cluster: Cluster, topic: str, release: tuple[int, ...] | None) -> list[tuple[int, int]]:
    """(offset, timestamp) of all records, whose keys and values are what was sent."""
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap.split(","),
        **({} if release is None else {"api_version": release}),
    )
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    found: list[Any] = []
    deadline = time.monotonic() + 30
    while len(found) < 100 and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500).values():
            for record in records:
                assert record.value == value_of(len(found))
                assert record.key == b"%d" % len(found)
                found.append((record.offset, record.timestamp))
    consumer.seek(partition, 57)  # inside what is one batch on our disks
    while not (again := consumer.poll(timeout_ms=500)) and time.monotonic() < deadline:
        pass
    assert again[partition][0].offset == 57
    consumer.close()
    return found


@pytest.mark.mission("PRD-2", "FET-1", "R-9")
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_kafka_python(
    cluster: Cluster, topic: str, release: tuple[int, ...], codec: str | None
) -> None:
    if codec == "lz4" and release < (0, 10):
        pytest.skip("kafka-python needs one more library for LZ4 frames of that age")
    create(cluster, topic)
    produced(cluster, topic, release, codec)
    timed = release >= (0, 10)
    for reader in (release, None):
        found = read(cluster, topic, reader)
        assert [offset for offset, _ in found] == list(range(100))
        if timed:
            assert [timestamp for _, timestamp in found] == [T0 + n for n in range(100)]
        else:
            assert {timestamp for _, timestamp in found} <= {-1, None}


@pytest.mark.mission("PRD-2", "FET-1")
@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_kafka_python_reads_records_of_newer_producers(
    cluster: Cluster, topic: str, release: tuple[int, ...]
) -> None:
    create(cluster, topic)
    produced(cluster, topic, (2, 8), "gzip")
    assert [offset for offset, _ in read(cluster, topic, release)] == list(range(100))


@pytest.mark.mission("PRD-2", "FET-1")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("release", ["0.8.2", "0.9.0"])
def test_librdkafka_that_does_not_ask_for_versions(
    cluster: Cluster, topic: str, release: str, codec: str
) -> None:
    """Versions 0 and 1 of both, with the LZ4 frames of that age. (From 0.10 on it asks.)"""
    create(cluster, topic)
    old = {
        "bootstrap.servers": cluster.bootstrap,
        "api.version.request": False,
        "broker.version.fallback": release,
    }
    producer = Producer({**old, "compression.type": codec, "linger.ms": 20, "acks": "all"})
    delivered: list[tuple[KafkaError | None, int | None]] = []

    def note(error: KafkaError | None, message: Message) -> None:
        delivered.append((error, message.offset()))

    for n in range(100):
        producer.produce(topic, value_of(n), key=b"%d" % n, partition=0, on_delivery=note)
    assert producer.flush(30) == 0
    assert delivered == [(None, n) for n in range(100)]
    consumer = Consumer(
        {**old, "group.id": "unused", "enable.auto.commit": False, "fetch.wait.max.ms": 10}
    )
    for start in (0, 57):
        consumer.assign([ConfluentPartition(topic, 0, start)])
        found: list[Message] = []
        deadline = time.monotonic() + 30
        while len(found) < 100 - start and time.monotonic() < deadline:
            found += consumer.consume(100 - start - len(found), timeout=0.5)
        assert [m.error() for m in found] == [None] * (100 - start)
        assert [(m.offset(), m.value()) for m in found] == [
            (n, value_of(n)) for n in range(start, 100)
        ]
    consumer.close()
