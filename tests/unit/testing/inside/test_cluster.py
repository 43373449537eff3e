"""Brokers inside this process, with clients of others over TCP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.inside.cluster import InsideCluster

TIMEOUT_S = 20
COUNT = 50
VALUES = [str(number).encode() for number in range(COUNT)]


@pytest.fixture(scope="module")
def three() -> Iterator[InsideCluster]:
    with InsideCluster(3, {"min.insync.replicas": 2}) as cluster:
        yield cluster


def produce(cluster: InsideCluster, topic: str, values: list[bytes] = VALUES) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "log_level": 0})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0


def consume(cluster: InsideCluster, topic: str, count: int, group: str = "group") -> list[bytes]:
    settings = {"group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **settings})
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        while len(found) < count:
            messages = consumer.consume(count, TIMEOUT_S)
            assert messages, f"{len(found)} records within {TIMEOUT_S} s"
            found += [message.value() or b"" for message in messages]
    finally:
        consumer.close()
    return found


@pytest.mark.mission("IN-1")
def test_confluent_kafka(three: InsideCluster) -> None:
    three.create_topic("confluent")
    produce(three, "confluent")
    assert consume(three, "confluent", COUNT) == VALUES


@pytest.mark.mission("IN-1")
def test_kafka_python(three: InsideCluster) -> None:
    three.create_topic("python")
    producer = KafkaProducer(bootstrap_servers=three.bootstrap)
    for value in VALUES:
        producer.send("python", value)
    producer.flush(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(
        "python",
        bootstrap_servers=three.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1000,
    )
    found = [next(consumer).value for _ in VALUES]
    consumer.close()
    assert found == VALUES


@pytest.mark.mission("IN-1")
async def test_aiokafka(three: InsideCluster) -> None:
    await asyncio.to_thread(three.create_topic, "aio")
    async with AIOKafkaProducer(bootstrap_servers=three.bootstrap) as producer:
        for value in VALUES:
            await producer.send_and_wait("aio", value)
    consumer = AIOKafkaConsumer(
        "aio", bootstrap_servers=three.bootstrap, auto_offset_reset="earliest"
    )
    async with consumer, asyncio.timeout(TIMEOUT_S):
        assert [(await consumer.getone()).value for _ in VALUES] == VALUES


@pytest.mark.mission("IN-2")
def test_brokers_are_killed_stopped_and_started_again() -> None:
    with InsideCluster(3, {"min.insync.replicas": 2}) as cluster:
        cluster.create_topic("t", 3)
        produce(cluster, "t")
        cluster.kill_broker(1)
        assert [cluster.is_running(broker) for broker in cluster.broker_ids] == [False, True, True]
        produce(cluster, "t")
        cluster.start_broker(1)
        assert cluster.is_running(1)
        cluster.stop_broker(2)
        assert [event.facts["broker"] for event in cluster.events("broker_stopped")] == [2]
        produce(cluster, "t")
        cluster.start_broker(2)
        cluster.kill_broker(3)
        produce(cluster, "t")
        assert sorted(consume(cluster, "t", 4 * COUNT)) == sorted(4 * VALUES)
        with pytest.raises(RuntimeError, match="broker 1 runs"):
            cluster.start_broker(1)


@pytest.mark.mission("IN-2")
def test_nothing_is_left_of_a_cluster() -> None:
    threads = threading.active_count()
    with InsideCluster() as cluster:
        cluster.create_topic("t")
        bootstrap = cluster.bootstrap
    assert threading.active_count() <= threads + 2  # the threads for work are kept
    with InsideCluster() as another:
        assert another.bootstrap != bootstrap
        another.create_topic("t")  # there was none
        with pytest.raises(KafkaError) as caught:
            another.create_topic("t")
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.mission("IN-3")
def test_the_events_are_kept_and_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with InsideCluster() as cluster:
        cluster.create_topic("seen")
        names = {event.name for event in cluster.events()}
        created = [event.facts["topic"] for event in cluster.events("topic_created")]
    assert {"broker_started", "topic_created"} <= names
    assert created == ["__consumer_offsets", "seen"]
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


@pytest.mark.mission("IN-74")
@pytest.mark.parametrize("brokers", [1, 3])
def test_the_first_consumer_finds_its_coordinator_at_once(brokers: int) -> None:
    with InsideCluster(brokers) as cluster:
        cluster.create_topic("t")
        settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "log_level": 0}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        while not consumer.assignment():
            consumer.poll(0.1)
        consumer.close()
        joined = cluster.requests(api="join_group", client_id="rdkafka")
        assert len({each.broker for each in joined}) == 1
        assert cluster.call(coordinator_errors(cluster)) == {}


async def coordinator_errors(cluster: InsideCluster) -> dict[str, Any]:
    """Count the responses that have sent a client to look for its coordinator again."""
    counts: dict[str, Any] = {}
    name = "kafka.network:type=RequestMetrics,name=ErrorsPerSec"
    for broker in cluster._brokers.values():
        assert broker.node is not None
        counts |= broker.node.metrics.snapshot(name)
    return {each: count for each, count in counts.items() if "COORDINATOR" in each and count}


def test_settings_that_cannot_be_used_are_an_error() -> None:
    with pytest.raises(ConfigError, match=r"min\.insync\.replicas"):
        InsideCluster(1, {"min.insync.replicas": "many"}).start()
    with pytest.raises(RuntimeError, match="not running"):
        InsideCluster().create_topic("t")
