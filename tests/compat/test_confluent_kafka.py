"""librdkafka, through confluent-kafka, against three brokers."""

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.support.clients.confluent import partition_of, value_of
from tests.support.clients.places import Cluster, in_both_places
from tests.support.cluster.leaders import wait_for_leaders

pytestmark = pytest.mark.compat
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def create(cluster: Cluster, topic: str, partitions: int = 3) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(30)
    wait_for_leaders(cluster.bootstrap, topic, partitions)
    return admin


def read_all(cluster: Cluster, topic: str, partitions: int, count: int) -> list[tuple[int, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    found: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), timeout=0.5):
            assert message.error() is None, message.error()
            found.append((partition_of(message), value_of(message)))
    consumer.close()
    return found


@in_both_places
def test_metadata_names_every_broker_and_partition(cluster: Cluster, topic: str) -> None:
    metadata = create(cluster, topic).list_topics(timeout=10)
    assert sorted(metadata.brokers) == [1, 2, 3]
    assert metadata.controller_id in (1, 2, 3)
    assert metadata.cluster_id
    partitions = metadata.topics[topic].partitions
    assert sorted(partitions) == [0, 1, 2]
    assert all(sorted(p.replicas) == [1, 2, 3] for p in partitions.values())
    assert all(p.leader in (1, 2, 3) for p in partitions.values())


@pytest.mark.mission("PRD-1", "PRD-5", "CRD-1")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_produce_and_read_back(cluster: Cluster, topic: str, codec: str, acks: str) -> None:
    create(cluster, topic)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": acks, "compression.type": codec}
    )
    errors: list[KafkaError] = []
    sent = [f"value-{n}".encode() * 20 for n in range(300)]
    for n, value in enumerate(sent):
        producer.produce(
            topic,
            value,
            key=str(n).encode(),
            partition=n % 3,
            on_delivery=lambda e, _: errors.append(e) if e else None,
        )
    assert producer.flush(30) == 0
    assert errors == []
    found = read_all(cluster, topic, 3, len(sent))
    for partition in range(3):
        expected = [v for n, v in enumerate(sent) if n % 3 == partition]
        assert [v for p, v in found if p == partition] == expected


@in_both_places
def test_idempotent_producer(cluster: Cluster, topic: str) -> None:
    create(cluster, topic)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for n in range(1000):
        producer.produce(topic, str(n).encode(), partition=0)
    assert producer.flush(30) == 0
    assert [v for _, v in read_all(cluster, topic, 1, 1000)] == [b"%d" % n for n in range(1000)]


@in_both_places
def test_offsets_by_time(cluster: Cluster, topic: str) -> None:
    admin = create(cluster, topic, 1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for n in range(10):
        producer.produce(topic, b"x", partition=0, timestamp=1_700_000_000_000 + n * 1000)
        producer.flush(10)  # a batch of its own
    partition = TopicPartition(topic, 0)

    def offset(spec: Any) -> int:
        return int(admin.list_offsets({partition: spec})[partition].result(10).offset)

    of: Any = OffsetSpec  # its class methods have no annotations
    assert offset(of.earliest()) == 0
    assert offset(of.latest()) == 10
    assert offset(of.max_timestamp()) == 9
    assert offset(of.for_timestamp(1_700_000_004_500)) == 5
    assert offset(of.for_timestamp(1_800_000_000_000)) == -1


@in_both_places
def test_errors_are_kafkas(cluster: Cluster, topic: str) -> None:
    admin = create(cluster, topic)
    with pytest.raises(KafkaException) as exists:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    assert exists.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaException) as replication:
        admin.create_topics([NewTopic("too-many", 1, 9)])["too-many"].result(10)
    assert replication.value.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR
    with pytest.raises(KafkaException) as name:
        admin.create_topics([NewTopic("no/slash", 1, 1)])["no/slash"].result(10)
    assert name.value.args[0].code() == KafkaError.TOPIC_EXCEPTION
    with pytest.raises(KafkaException) as missing:
        admin.delete_topics(["not-there"])["not-there"].result(10)
    assert missing.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


@in_both_places
@pytest.mark.mission("DEL-1")
def test_a_deleted_topic_is_gone(cluster: Cluster, topic: str) -> None:
    admin = create(cluster, topic)
    admin.delete_topics([topic])[topic].result(30)
    assert topic not in admin.list_topics(timeout=10).topics


@pytest.mark.parametrize("broker_id", [1, 2, 3])
def test_a_refused_auto_creation_has_its_error_on_every_broker(
    cluster: Cluster, topic: str, broker_id: int
) -> None:
    create(cluster, f"{topic}.one", 1)
    address = cluster.bootstrap.split(",")[broker_id - 1]
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "g", "allow.auto.create.topics": True}
    )
    refused = consumer.list_topics(f"{topic}_one", timeout=10).topics[f"{topic}_one"]
    assert refused.error == KafkaError.TOPIC_EXCEPTION
    consumer.close()
