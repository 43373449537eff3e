"""The fixture ``minikafka``: one test's view of a cluster inside the process."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer

from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.testing.inside_place import InsidePlace
from minikafka.testing.view import TestView

pytestmark = pytest.mark.mission("IN-5", "IN-45")


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
    group = minikafka.group("billing")
    assert group.wait(lag=2).state == "Stable"
    assert (group.type, group.state, group.members, group.lag) == ("classic", "Stable", 1, 2)
    assert group.committed == minikafka.committed("billing") == {TopicPartition(topic, 0): 1}
    consumer.close()
    assert group.wait(members=0).state == "Empty"
    assert group.wait(state="Empty", until=lambda group: group.lag == 2).members == 0
    for other in ({"state": "Stable"}, {"members": 1}, {"lag": 0}, {"until": lambda _: False}):
        with pytest.raises(AssertionError, match="Empty"):
            group.wait(**other, timeout=0.01)
    assert minikafka.group("nobody").now() == ("Dead", 0, {}, 0, "")
    assert minikafka.committed("nobody") == {}


def test_a_record_is_expected(minikafka: TestView) -> None:
    topic = minikafka.topic()
    minikafka.produce(topic, b"pear")
    late = threading.Timer(0.05, minikafka.produce, (topic, b"plum"))
    late.start()
    assert minikafka.expect(topic, lambda r: r.value == b"plum", timeout=20).offset == 1
    late.join()
    assert minikafka.expect(topic, lambda r: r.value == b"pear").offset == 0
    with pytest.raises(AssertionError, match=r"none of 2 records in .*the last one is b'plum'"):
        minikafka.expect(topic, lambda r: r.value == b"fig", timeout=0.01)


def test_records_produced_within_a_block_are_collected(minikafka: TestView) -> None:
    topic = minikafka.topic(partitions=2)
    minikafka.produce(topic, b"before")
    with minikafka.produces(topic, count=2) as produced:
        minikafka.produce(topic, b"one", b"two", partition=1)
        assert produced == []
    assert [record.value for record in produced] == [b"one", b"two"]
    with (
        pytest.raises(AssertionError, match="0 of 1 records"),
        minikafka.produces(topic, timeout=0),
    ):
        pass
    with pytest.raises(ZeroDivisionError), minikafka.produces(topic):
        _ = 1 / 0
    with minikafka.produces("not-yet") as produced:
        minikafka.create_topic("not-yet")
        minikafka.produce("not-yet", b"x")
    assert len(produced) == 1


def test_topics_and_groups_of_a_test_are_deleted() -> None:
    with closing(InsidePlace.start_brokers(1, {})) as cluster:
        cluster.inside.create_topic("before")
        view = TestView(cluster, "a-test")
        view.begin()
        topic = view.topic(cleanup_policy="compact")
        view.produce(topic, b"x", key=b"k")
        consumer = Consumer({**view.config("confluent"), "group.id": "g-clean", "log_level": 0})
        consumer.subscribe([topic])
        view.group("g-clean").wait(until=lambda group: (consumer.poll(0.01), group.members)[1] > 0)
        consumer.close()
        assert topic in names(cluster.inside)[0]
        view.reset()
        assert names(cluster.inside) == ({"before"}, set())
        view.create_topic(topic)  # nothing is left of the one before


def test_each_client_gets_its_spelling(minikafka: TestView) -> None:
    first = minikafka.bootstrap
    assert minikafka.config("kafka-python") == {"bootstrap_servers": [first]}
    assert minikafka.config("spark") == {"kafka.bootstrap.servers": first}
    with pytest.raises(ValueError, match="no client 'cofluent'; there are confluent"):
        minikafka.config("cofluent")
