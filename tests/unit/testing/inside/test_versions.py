"""Brokers inside the process that serve clients as an older Kafka does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.network.channel import Channel
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minikafka.protocol.messages.describe_configs import DescribeConfigsRequest
from minikafka.protocol.schema import Message
from minikafka.testing.inside.cluster import InsideCluster

TIMEOUT_S = 20


@pytest.fixture(scope="module")
def two() -> Iterator[InsideCluster]:
    with InsideCluster(2, {"min.insync.replicas": 2}) as cluster:
        yield cluster


def asked(cluster: InsideCluster, broker: int, request: Message, version: int) -> Any:
    """Return the response of a broker. Raises ConnectionError."""

    async def read() -> Any:
        world, config = cluster.client()
        host, _, port = config.bootstrap_servers.split(",")[broker - 1].partition(":")
        channel = await Channel.open(world.network, world.clock, host, int(port), "test")
        try:
            return await channel.request(request, version, 10_000)
        finally:
            channel.close()

    return cluster.call(read())


def ranges(cluster: InsideCluster, broker: int) -> dict[int, tuple[int, int]]:
    """Return the versions of each API that a broker lists."""
    rows = asked(cluster, broker, ApiVersionsRequest(), 0).api_keys
    return {row.api_key: (row.min_version, row.max_version) for row in rows}


def listed(cluster: InsideCluster, broker: int) -> dict[int, int]:
    """Return the highest version of each API that a broker lists."""
    return {key: last for key, (_, last) in ranges(cluster, broker).items()}


def exchange(cluster: InsideCluster, topic: str) -> None:
    """Produce with acks=all and consume with confluent-kafka, in a group."""
    cluster.create_topic(topic)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    producer.produce(topic, b"value")
    assert producer.flush(TIMEOUT_S) == 0
    settings = {"group.id": topic, "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **settings})
    consumer.subscribe([topic])
    (message,) = consumer.consume(1, TIMEOUT_S)
    consumer.close()
    assert message.value() == b"value"


def list_transactions(cluster: InsideCluster) -> None:
    async def call() -> None:
        async with cluster.admin() as admin:
            await admin.list_transactions(timeout_ms=5000)

    cluster.call(call())


@pytest.mark.mission("IN-70")
def test_clients_find_the_versions_of_an_old_release(two: InsideCluster) -> None:
    newest = listed(two, 1)
    assert newest[ApiKey.METADATA] == ApiKey.METADATA.max_version
    two.as_version("2.8")
    keys = [key for key in ApiKey if key in newest]
    expected = {key: key.max_version_2_8 for key in keys if key.max_version_2_8 is not None}
    assert listed(two, 1) == expected
    exchange(two, "old")
    with pytest.raises(KafkaError) as caught:
        list_transactions(two)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    two.stop_broker(2)
    two.start_broker(2)
    assert listed(two, 2) == expected
    two.as_version(None)
    assert listed(two, 1) == listed(two, 2) == newest
    exchange(two, "new")
    list_transactions(two)


def test_clients_find_the_versions_of_3_9(two: InsideCluster) -> None:
    newest = listed(two, 1)
    two.as_version("3.9")
    expected = {key: key.max_version_3_9 for key in ApiKey if key in newest}
    assert listed(two, 1) == {key: last for key, last in expected.items() if last is not None}
    exchange(two, "of-3.9")
    two.as_version(None)
    assert listed(two, 1) == newest


@pytest.mark.mission("IN-70")
@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("4.2", {ApiKey.FETCH: (4, 18), ApiKey.JOIN_GROUP: (0, 9), ApiKey.OFFSET_COMMIT: (2, 10)}),
        ("4.1", {ApiKey.FETCH: (4, 18), ApiKey.LIST_OFFSETS: (1, 10), ApiKey.JOIN_GROUP: (0, 9)}),
        (
            "4.0",
            {ApiKey.FETCH: (4, 17), ApiKey.JOIN_GROUP: (2, 9), ApiKey.LIST_TRANSACTIONS: (0, 1)},
        ),
    ],
)
def test_clients_find_the_versions_of_kafka_4(
    two: InsideCluster, version: str, expected: dict[ApiKey, tuple[int, int]]
) -> None:
    """tests/kafka/test_kafka_4_apis.py compares all of 4.2 with an official broker."""
    two.as_version(version)
    rows = ranges(two, 1)
    assert {key: rows[key] for key in expected} == expected
    assert rows[ApiKey.PRODUCE][0] == 0  # KAFKA-18659
    assert ApiKey.LEADER_AND_ISR not in rows
    with pytest.raises(ConnectionError):
        asked(two, 1, DescribeConfigsRequest([]), 0)  # which 4.0 has removed
    exchange(two, f"of-{version}")
    two.create_topic(f"at-any-broker-{version}")
    two.as_version(None)


def test_an_unknown_version_is_an_error(two: InsideCluster) -> None:
    with pytest.raises(ValueError, match="is not a valid Release"):
        two.as_version("1.1")


@pytest.mark.mission("G848-12")
def test_consumer_groups_need_their_feature() -> None:
    def join(cluster: InsideCluster) -> int:
        request = ConsumerGroupHeartbeatRequest(
            "g", "m", 0, rebalance_timeout_ms=1_000, subscribed_topic_names=[], topic_partitions=[]
        )
        error: int = asked(cluster, 1, request, 1).error_code
        return error

    only_classic = {"group.coordinator.rebalance.protocols": "classic"}
    with InsideCluster(1, only_classic) as cluster:
        assert join(cluster) == ErrorCode.UNSUPPORTED_VERSION
    with InsideCluster(1) as cluster:
        assert join(cluster) != ErrorCode.UNSUPPORTED_VERSION
