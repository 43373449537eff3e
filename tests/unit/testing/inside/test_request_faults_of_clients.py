"""Faults of requests as kafka-python and transactional clients see them, and what is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import CorruptRecordError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata

from minikafka.testing.inside.cluster import InsideCluster
from minikafka.testing.request_faults import RequestFaults

NUMBERS = count()
LIMIT_S = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster() as running:
        yield running


@pytest.fixture
def faults(cluster: InsideCluster) -> RequestFaults:
    return cluster.request_faults


@pytest.fixture
def topic(cluster: InsideCluster) -> str:
    name = f"p{next(NUMBERS)}"
    cluster.create_topic(name, partitions=2)
    return name


def python_producer(cluster: InsideCluster, **settings: Any) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=cluster.bootstrap, retry_backoff_ms=10, **settings)


def python_consumer(cluster: InsideCluster, **settings: Any) -> KafkaConsumer:
    settings.setdefault("auto_offset_reset", "earliest")
    return KafkaConsumer(bootstrap_servers=cluster.bootstrap, retry_backoff_ms=10, **settings)


def values(cluster: InsideCluster, topic: str, partition: int) -> list[bytes | None]:
    """Return all records of a partition."""
    reader = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "r"})
    place = confluent_kafka.TopicPartition(topic, partition, 0)
    end = reader.get_watermark_offsets(place, timeout=LIMIT_S)[1]
    reader.assign([place])
    found = [record.value() for record in reader.consume(end, LIMIT_S)] if end else []
    reader.close()
    assert len(found) == end
    return found


@pytest.mark.mission("IN-32")
def test_kafka_python_tries_a_refused_partition_again(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    producer = python_producer(cluster)
    with faults.answer("NOT_LEADER_OR_FOLLOWER", api="produce", topic=topic, partition=0) as fault:
        assert producer.send(topic, b"value", partition=0).get(LIMIT_S).offset == 0
        assert fault.hits == 1
    with faults.answer("REQUEST_TIMED_OUT", api="produce", topic=topic, partition=1) as fault:
        producer.send(topic, b"value", partition=1).get(LIMIT_S)
        assert fault.hits == 1
    producer.close()
    assert values(cluster, topic, 0) == [b"value"]


@pytest.mark.mission("IN-32")
def test_kafka_python_commits_again_after_a_lost_response(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    consumer = python_consumer(cluster, group_id=topic, enable_auto_commit=False)
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    with (
        faults.disconnect("after", api="offset_commit", group=topic) as lost,
        faults.observe(api="offset_commit", group=topic) as seen,
    ):
        consumer.commit({place: OffsetAndMetadata(7, "", -1)})
        assert lost.hits == 1
        assert seen.hits == 1  # the second one; the first rule was the last one for the first
    assert consumer.committed(place) == 7
    consumer.close()


@pytest.mark.mission("IN-32")
def test_kafka_python_leaves_a_mute_connection(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    producer = python_producer(cluster, request_timeout_ms=1000, linger_ms=0)
    with faults.swallow(api="produce", topic=topic) as fault:
        try:
            producer.send(topic, b"value", partition=0).get(LIMIT_S)
        except KafkaTimeoutError:
            producer.send(topic, b"value", partition=0).get(LIMIT_S)
        assert fault.hits == 1
    producer.close()
    assert values(cluster, topic, 0) == [b"value"]


@pytest.mark.mission("IN-32")
def test_kafka_python_waits_for_a_held_fetch(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    producer = python_producer(cluster)
    producer.send(topic, b"value", partition=0).get(LIMIT_S)
    producer.close()
    consumer = python_consumer(cluster)
    consumer.assign([TopicPartition(topic, 0)])
    hold = faults.hold("after", api="fetch", topic=topic)
    while not hold.hits:
        assert consumer.poll(10) == {}
    hold.release()
    assert next(consumer).value == b"value"
    consumer.close()


@pytest.mark.mission("IN-32")
def test_kafka_python_checks_records(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    producer = python_producer(cluster)
    producer.send(topic, b"value", partition=0).get(LIMIT_S)
    producer.close()
    consumer = python_consumer(cluster, check_crcs=True)
    consumer.assign([TopicPartition(topic, 0)])
    with (
        faults.corrupt(topic=topic, partition=0, times=None),
        pytest.raises(CorruptRecordError),
    ):
        next(consumer)
    consumer.close()
    assert values(cluster, topic, 0) == [b"value"]


@pytest.mark.mission("IN-32")
def test_kafka_python_shows_throttling_in_its_metrics(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    producer = python_producer(cluster)
    with faults.throttle(0.3, api="produce", topic=topic):
        producer.send(topic, b"value", partition=0).get(LIMIT_S)
    shown = producer.metrics()["producer-metrics"]["throttle-time-max"]
    producer.close()
    assert shown == 300


@pytest.mark.mission("IN-33")
def test_errors_reach_a_transactional_producer_of_librdkafka(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    name = f"tx-{topic}"
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "retry.backoff.ms": 10}
    )
    with (
        faults.answer("COORDINATOR_LOAD_IN_PROGRESS", api="InitProducerId") as init,
        faults.answer("CONCURRENT_TRANSACTIONS", api="AddPartitionsToTxn", topic=topic) as add,
        faults.answer("NOT_COORDINATOR", api="EndTxn", transactional_id=name) as end,
    ):
        producer.init_transactions(LIMIT_S)
        producer.begin_transaction()
        producer.produce(topic, b"value", partition=0)
        producer.commit_transaction(LIMIT_S)
        assert (init.hits, add.hits, end.hits) == (1, 1, 1)
    producer.begin_transaction()
    producer.produce(topic, b"fenced", partition=0)
    with (
        faults.answer("INVALID_PRODUCER_EPOCH", api="EndTxn", transactional_id=name),
        pytest.raises(confluent_kafka.KafkaException) as fenced,
    ):
        producer.commit_transaction(LIMIT_S)
    assert fenced.value.args[0].fatal()


@pytest.mark.mission("IN-33")
async def test_errors_reach_a_transactional_producer_of_aiokafka(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    name = f"tx-{topic}"
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap, transactional_id=name, retry_backoff_ms=10
    )
    with (
        faults.answer("COORDINATOR_LOAD_IN_PROGRESS", api="InitProducerId") as init,
        faults.answer("COORDINATOR_NOT_AVAILABLE", api="EndTxn", transactional_id=name) as end,
    ):
        await producer.start()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"value", partition=0)
        assert (init.hits, end.hits) == (1, 1)
    await producer.stop()


@pytest.mark.mission("IN-33")
def test_members_fetch_their_offsets_again(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    """aiokafka does not look at this error, which is above the rows since version 2."""
    consumer = python_consumer(cluster, group_id=topic, enable_auto_commit=False)
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.commit({place: OffsetAndMetadata(3, "", -1)})
    with faults.answer("NOT_COORDINATOR", api="offset_fetch", group=topic) as fault:
        assert consumer.committed(place) == 3
        assert fault.hits == 1
    consumer.close()
    other = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic})
    with faults.answer("COORDINATOR_LOAD_IN_PROGRESS", api="offset_fetch", group=topic) as fault:
        found = other.committed([confluent_kafka.TopicPartition(topic, 0)], LIMIT_S)
        assert [each.offset for each in found] == [3]
        assert fault.hits == 1
    other.close()


@pytest.mark.mission("IN-33")
def test_metadata_without_a_leader_keeps_the_brokers(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    with faults.answer("LEADER_NOT_AVAILABLE", api="metadata", topic=topic, times=2) as fault:
        producer = python_producer(cluster)
        producer.send(topic, b"value", partition=0).get(LIMIT_S)
        producer.close()
        assert fault.hits == 2
    error = "TOPIC_AUTHORIZATION_FAILED"  # librdkafka tries again after the other one
    with faults.answer(error, api="metadata", topic=topic, times=None) as fault:
        listed = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(topic, LIMIT_S)
        assert fault.hits >= 1
    found = listed.topics[topic]
    assert (len(listed.brokers), found.partitions) == (1, {})
    assert found.error is not None
    assert found.error.name() == error


@pytest.mark.mission("IN-34")
async def test_the_record_of_requests_has_their_rows(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, client_id=topic)
    await producer.start()
    await producer.send_and_wait(topic, b"value", partition=1)
    await producer.stop()
    found = await asyncio.to_thread(faults.requests, "produce", topic)
    assert [(r.broker, r.topics, r.partitions) for r in found] == [(1, [topic], [(topic, 1)])]
    consumer = aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap, client_id=topic, group_id=topic
    )
    await consumer.start()
    await consumer.stop()
    found = await asyncio.to_thread(faults.requests, "JoinGroup", topic)
    assert {tuple(request.groups) for request in found} == {(topic,)}


@pytest.mark.mission("IN-34")
def test_api_versions_of_brokers_are_not_those_of_clients() -> None:
    with InsideCluster(brokers=2) as cluster:
        of_clients = cluster.request_faults.observe(api="api_versions")
        of_brokers = cluster.request_faults.observe(api="api_versions", of_broker=True)
        cluster.stop_broker(2)
        cluster.start_broker(2)
        of_brokers.wait()  # the controller's
        assert of_clients.hits == 0


@pytest.mark.mission("IN-33")
def test_metadata_of_all_topics_has_the_error_in_each(
    cluster: InsideCluster, faults: RequestFaults, topic: str
) -> None:
    with faults.answer("TOPIC_AUTHORIZATION_FAILED", api="metadata", times=None):
        listed = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=LIMIT_S)
    assert len(listed.brokers) == 1
    assert topic in listed.topics
    assert all(found.error is not None for found in listed.topics.values())
