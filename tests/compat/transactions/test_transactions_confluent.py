"""Transactions of confluent-kafka (librdkafka): commit, abort, zombies, time-outs, offsets."""

import time
import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.places import Cluster, in_both_places

pytestmark = pytest.mark.compat
TIMEOUT_S = 60


def producer(cluster: Cluster, transactional_id: str, **settings: Any) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "linger.ms": 0,
            **settings,
        }
    )
    made.init_transactions(TIMEOUT_S)
    return made


def consumer(cluster: Cluster, topic: str, group: str = "", level: str = "read_committed") -> Any:
    made = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group or f"g-{uuid.uuid4().hex}",
            "isolation.level": level,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    made.assign([TopicPartition(topic, 0, 0)])
    return made


def values(cluster: Cluster, topic: str, level: str = "read_committed") -> list[str]:
    """All that can be read now."""
    reader = consumer(cluster, topic, level=level)
    found: list[str] = []
    try:
        while True:
            message = reader.poll(TIMEOUT_S)
            assert message is not None, "nothing for a minute"
            if message.error():
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return found
            found.append(message.value().decode())
    finally:
        reader.close()


@pytest.fixture
def made_topic(cluster: Cluster, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = NewTopic(topic, 1, replication_factor=3)
    admin.create_topics([new])[topic].result(TIMEOUT_S)
    return topic


@in_both_places
@pytest.mark.mission("DOP-5", "IN-98")
def test_commit_and_abort(cluster: Cluster, made_topic: str) -> None:
    writer = producer(cluster, f"tx-{made_topic}")
    for number, commit in enumerate([True, False, True]):
        writer.begin_transaction()
        for part in range(3):
            writer.produce(made_topic, f"{number}.{part}")
        if commit:
            writer.commit_transaction(TIMEOUT_S)
        else:
            writer.flush(TIMEOUT_S)
            writer.abort_transaction(TIMEOUT_S)
    assert values(cluster, made_topic) == ["0.0", "0.1", "0.2", "2.0", "2.1", "2.2"]
    assert len(values(cluster, made_topic, "read_uncommitted")) == 9


def test_a_zombie_is_fenced(cluster: Cluster, made_topic: str) -> None:
    name = f"tx-{made_topic}"
    zombie = producer(cluster, name)
    zombie.begin_transaction()
    zombie.produce(made_topic, "of the zombie")
    zombie.flush(TIMEOUT_S)
    successor = producer(cluster, name)
    successor.begin_transaction()
    successor.produce(made_topic, "of the successor")
    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(TIMEOUT_S)
    assert refused.value.args[0].name() in {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
    successor.commit_transaction(TIMEOUT_S)
    assert values(cluster, made_topic) == ["of the successor"]


def test_a_transaction_that_takes_too_long_is_aborted(cluster: Cluster, made_topic: str) -> None:
    slow = producer(cluster, f"tx-{made_topic}", **{"transaction.timeout.ms": 1000})
    slow.begin_transaction()
    slow.produce(made_topic, "late")
    slow.flush(TIMEOUT_S)
    plain = Producer({"bootstrap.servers": cluster.bootstrap})
    plain.produce(made_topic, "plain")
    plain.flush(TIMEOUT_S)
    reader = consumer(cluster, made_topic)
    try:
        found = None
        while found is None or found.error():
            found = reader.poll(TIMEOUT_S)
            assert found is not None
        assert found.value() == b"plain"
    finally:
        reader.close()
    with pytest.raises(KafkaException):
        slow.commit_transaction(TIMEOUT_S)


def test_offsets_are_those_of_a_member_of_this_generation(
    cluster: Cluster, made_topic: str
) -> None:
    """KIP-447: who has left the group cannot commit for it, whatever its transactional id."""
    group = f"g-{made_topic}"
    writer = producer(cluster, f"tx-{made_topic}")
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group}
    position = [TopicPartition(made_topic, 0, 42)]
    before = member(settings, made_topic)
    stale = before.consumer_group_metadata()
    writer.begin_transaction()
    writer.send_offsets_to_transaction(position, stale, TIMEOUT_S)
    writer.commit_transaction(TIMEOUT_S)
    before.close()
    after = member(settings, made_topic)
    writer.begin_transaction()
    with pytest.raises(KafkaException) as refused:
        writer.send_offsets_to_transaction([TopicPartition(made_topic, 0, 7)], stale, TIMEOUT_S)
    assert refused.value.args[0].txn_requires_abort()
    writer.abort_transaction(TIMEOUT_S)
    (committed,) = after.committed([TopicPartition(made_topic, 0)], TIMEOUT_S)
    assert committed.offset == 42
    after.close()


def member(settings: dict[str, Any], topic: str) -> Any:
    """A consumer that has its partition."""
    made = Consumer(settings)
    made.subscribe([topic])
    deadline = time.monotonic() + TIMEOUT_S
    while not made.assignment():
        made.poll(0.1)
        assert time.monotonic() < deadline, "not assigned within a minute"
    return made


@in_both_places
def test_offsets_go_with_the_transaction(cluster: Cluster, made_topic: str) -> None:
    group = f"g-{made_topic}"
    writer = producer(cluster, f"tx-{made_topic}")
    reader = consumer(cluster, made_topic, group)
    position = TopicPartition(made_topic, 0, 42)
    try:
        writer.begin_transaction()
        writer.send_offsets_to_transaction([position], reader.consumer_group_metadata(), TIMEOUT_S)
        writer.abort_transaction(TIMEOUT_S)
        (committed,) = reader.committed([TopicPartition(made_topic, 0)], TIMEOUT_S)
        assert committed.offset < 0
        writer.begin_transaction()
        writer.produce(made_topic, "x")
        writer.send_offsets_to_transaction([position], reader.consumer_group_metadata(), TIMEOUT_S)
        writer.commit_transaction(TIMEOUT_S)
        (committed,) = reader.committed([TopicPartition(made_topic, 0)], TIMEOUT_S)
        assert committed.offset == 42
    finally:
        reader.close()
