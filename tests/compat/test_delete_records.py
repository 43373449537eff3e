"""Other people's admin clients delete records, and their consumers find them gone."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import OffsetOutOfRangeError, PolicyViolationError

from tests.support.clients.places import Cluster, in_both_places
from tests.support.cluster.leaders import wait_for_leaders

pytestmark = [pytest.mark.compat, pytest.mark.mission("DOP-8")]
COUNT = 10


def filled(cluster: Cluster, topic: str, partitions: int = 2, **config: str) -> AdminClient:
    """A topic with so many records in each partition, on all three brokers."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 3, config=config)])[topic].result(30)
    wait_for_leaders(cluster.bootstrap, topic, partitions)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(COUNT):
        for partition in range(partitions):
            producer.produce(topic, str(number).encode(), key=b"k", partition=partition)
            producer.flush(30)
    return admin


def left(cluster: Cluster, topic: str, partition: int) -> list[int]:
    """The offsets that a consumer finds."""
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap.split(","), auto_offset_reset="earliest"
    )
    assigned = TopicPartition(topic, partition)
    consumer.assign([assigned])
    consumer.seek(assigned, 0)  # which may be gone: the consumer resets itself to the earliest
    found: list[int] = []
    while COUNT - 1 not in found:
        for records in consumer.poll(timeout_ms=500).values():
            found += [record.offset for record in records]
    assert consumer.beginning_offsets([assigned])[assigned] == found[0]
    consumer.close()
    return found


@in_both_places
def test_confluent_kafka(cluster: Cluster, topic: str) -> None:
    admin = filled(cluster, topic)
    wanted = [RdPartition(topic, 0, 4), RdPartition(topic, 1, 0)]
    answers = admin.delete_records(wanted, request_timeout=30, operation_timeout=20)
    marks = {p.partition: future.result(30).low_watermark for p, future in answers.items()}
    assert marks == {0: 4, 1: 0}
    assert left(cluster, topic, 0) == list(range(4, COUNT))
    assert left(cluster, topic, 1) == list(range(COUNT))


def test_confluent_kafka_is_refused(cluster: Cluster, topic: str) -> None:
    admin = filled(cluster, topic, 1)
    (future,) = admin.delete_records([RdPartition(topic, 0, COUNT + 1)]).values()
    with pytest.raises(KafkaException) as refused:
        future.result(60)
    assert refused.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE


@in_both_places
def test_kafka_python(cluster: Cluster, topic: str) -> None:
    filled(cluster, topic)
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    answers = admin.delete_records({first: COUNT - 1, second: 3}, timeout_ms=20_000)
    assert {tp: row["low_watermark"] for tp, row in answers.items()} == {
        first: COUNT - 1,
        second: 3,
    }
    assert left(cluster, topic, 0) == [COUNT - 1]
    assert left(cluster, topic, 1) == list(range(3, COUNT))
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({first: COUNT + 1}, timeout_ms=20_000)
    admin.close()


def test_a_compacted_topic_keeps_its_records(cluster: Cluster, topic: str) -> None:
    filled(cluster, topic, 1, **{"cleanup.policy": "compact"})
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    with pytest.raises(PolicyViolationError):
        admin.delete_records({TopicPartition(topic, 0): 3}, timeout_ms=20_000)
    admin.close()
