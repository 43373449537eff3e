"""The proxy in front of official Kafka: three brokers, three client libraries, every effect."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from signal import SIGKILL
from typing import Any

import confluent_kafka
import kafka
import pytest
from kafka.errors import CorruptRecordError

from minikafka.testing.proxy.fault_proxy import FaultProxy
from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.support.cluster.mixed_cluster import MixedCluster
from tests.support.cluster.tool_jvm import ToolJvm

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("kafka"),
    pytest.mark.mission("IN-83"),
    pytest.mark.mission("IN-100"),
    pytest.mark.mission("IN-101"),
    pytest.mark.mission("IN-102"),
    pytest.mark.mission("IN-103"),
]
NUMBERS = count()
ROTATION = ([1, 2, 3], [2, 3, 1], [3, 1, 2])


@pytest.fixture(scope="module")
def cluster(mixed: Mixed) -> Iterator[MixedCluster]:
    with mixed(NEWEST, NEWEST, NEWEST) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(cluster: MixedCluster) -> Iterator[FaultProxy]:
    """``localhost`` is the broker that is advertised as 127.0.0.1."""
    with FaultProxy(cluster.address(1).replace("127.0.0.1", "localhost")) as running:
        assert set(running.brokers) == {1, 2, 3}
        assert running.ports[0] == int(running.brokers[1][0].rpartition(":")[2])
        yield running


@pytest.fixture
def topic(cluster: MixedCluster) -> str:
    """Partition 0 is led by broker 1, and so on."""
    name = f"t{next(NUMBERS)}"
    cluster.create_topic(name, *ROTATION)
    return name


def producer(proxy: FaultProxy, **settings: Any) -> confluent_kafka.Producer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return confluent_kafka.Producer(
        {"bootstrap.servers": proxy.bootstrap, "retry.backoff.ms": 1, **named}
    )


def send(client: confluent_kafka.Producer, topic: str, partition: int = 0) -> None:
    errors: list[Any] = []
    client.produce(topic, b"v", partition=partition, on_delivery=lambda e, _: errors.append(e))
    assert client.flush(60) == 0
    assert errors == [None]


def offsets(cluster: MixedCluster, topic: str) -> list[int]:
    """Return the end of each partition, as the brokers say."""
    reader = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "ends"})
    found = [
        reader.get_watermark_offsets(confluent_kafka.TopicPartition(topic, number), timeout=30)[1]
        for number in range(len(ROTATION))
    ]
    reader.close()
    return found


def test_a_group_of_kafka_python_reads_records_of_librdkafka(proxy: FaultProxy, topic: str) -> None:
    client = producer(proxy, client_id=topic)
    for partition in range(3):
        send(client, topic, partition)
    reader = kafka.KafkaConsumer(
        topic, bootstrap_servers=proxy.bootstrap, group_id=topic, auto_offset_reset="earliest"
    )
    found = [next(reader).partition for _ in range(3)]
    assert sorted(found) == [0, 1, 2]
    reader.commit()
    reader.close()
    seen = proxy.request_faults.requests("Produce", topic)
    assert {(each.broker, *each.partitions) for each in seen} == {
        (partition + 1, (topic, partition)) for partition in range(3)
    }
    committed = proxy.request_faults.requests("OffsetCommit")
    assert topic in {group for each in committed for group in each.groups}


def test_the_java_client_goes_through_the_proxy(
    cluster: MixedCluster, proxy: FaultProxy, tools: ToolJvm, topic: str
) -> None:
    at = ("--bootstrap-server", proxy.bootstrap.split(",")[1])
    with proxy.request_faults.answer("NOT_LEADER_OR_FOLLOWER", api="produce", topic=topic) as fault:
        done = tools.run(cluster, "console-producer", *at, "--topic", topic, stdin="one\ntwo\n")
        assert (done.status, fault.hits) == (0, 1), done.err
    assert sum(offsets(cluster, topic)) == 2
    read = (*at, "--topic", topic, "--from-beginning", "--max-messages", "2")
    with proxy.request_faults.corrupt(topic=topic, times=None):
        done = tools.run(cluster, "console-consumer", *read)
        assert done.out == ""  # the tool ends at a record that is corrupt
    done = tools.run(cluster, "console-consumer", *read)
    assert sorted(done.out.split()) == ["one", "two"], done.err
    described = tools.run(cluster, "topics", *at, "--describe", "--topic", topic)
    assert described.status == 0


def test_errors_before_and_after_the_work(
    cluster: MixedCluster, proxy: FaultProxy, topic: str
) -> None:
    faults, client = proxy.request_faults, producer(proxy)
    with faults.answer("NOT_LEADER_OR_FOLLOWER", api="produce", topic=topic, broker=1) as refused:
        send(client, topic, 1)
        send(client, topic, 0)
    with faults.answer("REQUEST_TIMED_OUT", api="produce", topic=topic) as late:
        send(client, topic, 2)
    assert (refused.hits, late.hits) == (1, 1)
    assert offsets(cluster, topic) == [1, 1, 2]


def test_lost_held_late_and_swallowed_requests(
    cluster: MixedCluster, proxy: FaultProxy, topic: str
) -> None:
    faults = proxy.request_faults
    with faults.disconnect("before", api="produce", topic=topic) as before:
        send(producer(proxy), topic, 0)
    with faults.disconnect("after", api="produce", topic=topic) as after:
        send(producer(proxy), topic, 1)
    with faults.swallow(api="produce", topic=topic) as swallowed:
        send(producer(proxy, socket_timeout_ms=10_000), topic, 2)
    assert (before.hits, after.hits, swallowed.hits) == (1, 1, 1)
    assert offsets(cluster, topic) == [1, 2, 1]
    with (
        faults.delay(0.01, api="produce", topic=topic) as late,
        faults.hold(api="produce", topic=topic) as hold,
    ):
        client = producer(proxy)
        client.produce(topic, b"v", partition=0)
        client.poll(0)
        hold.wait(timeout=60)
        assert offsets(cluster, topic) == [1, 2, 1]
        hold.release()
        assert client.flush(60) == 0
    assert late.hits == 1
    assert offsets(cluster, topic) == [2, 2, 1]


def test_throttled_clients_and_corrupt_records(proxy: FaultProxy, topic: str) -> None:
    """The fetch is one by topic ids, in a session."""
    throttled: list[int] = []
    client = confluent_kafka.Producer(
        {
            "bootstrap.servers": proxy.bootstrap,
            "throttle_cb": lambda event: throttled.append(round(event.throttle_time * 1000)),
        }
    )
    with proxy.request_faults.throttle(0.02, api="produce", topic=topic) as fault:
        send(client, topic)
        while not throttled:
            client.poll(0.01)
    assert (fault.hits, throttled[0]) == (1, 20)
    reader = fetching(proxy, topic)
    with proxy.request_faults.corrupt(topic=topic, times=None), pytest.raises(CorruptRecordError):
        next(reader)
    reader.close()
    reader = fetching(proxy, topic)  # kafka-python does not go on after the error
    assert next(reader).value == b"v"
    reader.close()


def fetching(proxy: FaultProxy, topic: str) -> kafka.KafkaConsumer:
    """Return a consumer of partition 0 from its beginning."""
    reader = kafka.KafkaConsumer(bootstrap_servers=proxy.bootstrap, auto_offset_reset="earliest")
    reader.assign([kafka.TopicPartition(topic, 0)])
    return reader


def test_a_broker_that_is_killed_behind_the_proxy(
    cluster: MixedCluster, proxy: FaultProxy, topic: str
) -> None:
    client = producer(proxy)
    send(client, topic, 2)
    cluster.end_broker(3, SIGKILL)
    send(client, topic, 2)
    cluster.restart_broker(3)
    cluster.until_ready()
    send(client, topic, 2)
    assert offsets(cluster, topic) == [0, 0, 3]
