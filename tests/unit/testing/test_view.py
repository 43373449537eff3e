"""The fixture ``minikafka``: one test's view of a cluster inside the process."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Consumer, Producer

from minikafka.inside.cluster import InsideCluster
from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.view import TestView

pytestmark = pytest.mark.mission("IN-5")


def names(cluster: InsideCluster) -> tuple[set[str], set[str]]:
    async def read() -> tuple[set[str], set[str]]:
        async with cluster.admin() as admin:
            topics = {topic.name for topic in await admin.list_topics()}
            return topics, {group.group_id for group in await admin.list_groups()}

    topics, groups = cluster.call(read())
    return {name for name in topics if not name.startswith("__")}, groups


def test_records_are_produced_and_read(minikafka: TestView) -> None:
    topic = minikafka.topic(partitions=1)
    minikafka.produce(topic, b"one", b"two", key=b"k")
    found = minikafka.records(topic, count=2)
    assert [(r.key, r.value, r.offset) for r in found] == [(b"k", b"one", 0), (b"k", b"two", 1)]
    assert minikafka.records(minikafka.topic(3)) == []


def test_records_are_awaited(minikafka: TestView) -> None:
    topic = minikafka.topic()
    late = threading.Timer(0.05, minikafka.produce, (topic, b"late"))
    late.start()
    assert [record.value for record in minikafka.records(topic, count=1, timeout=20)] == [b"late"]
    late.join()
    with pytest.raises(AssertionError, match="1 of 2 records"):
        minikafka.records(topic, count=2, timeout=0.01)


def test_aborted_records_are_read_on_demand_only(minikafka: TestView) -> None:
    topic = minikafka.topic()
    settings = {"transactional.id": topic, "log_level": 0}
    producer = Producer({**minikafka.config("confluent"), **settings})
    producer.init_transactions(20)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(topic, end.__name__)
        producer.flush(20)
        end(20)
    committed = minikafka.records(topic, count=1)
    assert [record.value for record in committed] == [b"commit_transaction"]
    everything = minikafka.records(topic, isolation_level="read_uncommitted")
    assert len(everything) == 2


def test_a_group_is_seen_with_its_lag(minikafka: TestView) -> None:
    topic = minikafka.topic()
    minikafka.produce(topic, b"1", b"2", b"3")
    settings = {"group.id": "billing", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({**minikafka.config("confluent"), **settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    first = next(iter(consumer.consume(1, 20)))
    consumer.commit(message=first, asynchronous=False)
    group = minikafka.wait_for_group("billing", lambda group: group.lag == 2)
    assert (group.state, group.members) == ("Stable", 1)
    assert group.committed == {TopicPartition(topic, 0): 1}
    consumer.close()
    assert minikafka.wait_for_group("billing", lambda group: not group.members).state == "Empty"
    with pytest.raises(AssertionError, match="Empty"):
        minikafka.wait_for_group("billing", lambda group: group.members > 0, timeout=0.01)
    assert minikafka.group("nobody").state == "Dead"


def test_topics_and_groups_of_a_test_are_deleted(minikafka_inside: InsideCluster) -> None:
    minikafka_inside.create_topic("before")
    view = TestView(minikafka_inside, "a-test")
    topic = view.topic(cleanup_policy="compact")
    view.produce(topic, b"x", key=b"k")
    consumer = Consumer({**view.config("confluent"), "group.id": "g-clean", "log_level": 0})
    consumer.subscribe([topic])
    view.wait_for_group("g-clean", lambda group: (consumer.poll(0.01), group.members)[1] > 0)
    consumer.close()
    assert topic in names(minikafka_inside)[0]
    view.clean()
    topics, groups = names(minikafka_inside)
    assert "before" in topics
    assert topic not in topics
    assert "g-clean" not in groups


def test_each_client_gets_its_spelling(minikafka: TestView) -> None:
    first = minikafka.bootstrap
    assert minikafka.config("kafka-python") == {"bootstrap_servers": [first]}
    assert minikafka.config("spark") == {"kafka.bootstrap.servers": first}
    with pytest.raises(ValueError, match="no client 'cofluent'; there are confluent"):
        minikafka.config("cofluent")
