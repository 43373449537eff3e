"""Faults that concern every client in the same way: a producer gets through in spite of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from minikafka.inside.cluster import InsideCluster
from tests.unit.inside.test_operations import TIMEOUT_S, read_all

VALUE = b"x" * 100


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    settings = {"log.dirs": "/one,/two", "zookeeper.session.timeout.ms": 500}
    with InsideCluster(2, settings) as cluster:
        yield cluster


def librdkafka(bootstrap: str, topic: str) -> None:
    fixed = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    producer = Producer({**fixed, "socket.timeout.ms": 1000, "retry.backoff.ms": 10})
    producer.produce(topic, VALUE)
    assert producer.flush(TIMEOUT_S) == 0


def kafka_python(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, request_timeout_ms=1000, retry_backoff_ms=10
    )
    producer.send(topic, VALUE).get(TIMEOUT_S)
    producer.close()


def aiokafka(bootstrap: str, topic: str) -> None:
    async def produce() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, request_timeout_ms=1000
        ) as producer:
            await producer.send_and_wait(topic, VALUE)

    asyncio.run(produce())


Faulty = Callable[[InsideCluster, str, int], Any]
# Each adds a fault that concerns Produce requests for the topic, or their broker.
LASTING: dict[str, Faulty] = {
    "delay": lambda c, topic, _: c.request_faults.delay(0.05, api="produce", topic=topic),
    "observe": lambda c, topic, _: c.request_faults.observe(api="produce", topic=topic),
    "slow disk": lambda c, _, leader: c.environment_faults.slow_disk(leader, 0.05),
    "slow link": lambda c, _, leader: c.environment_faults.slow_link(leader, None, 0.02),
}
# With these nothing can be appended: they are removed when they have struck.
REMOVED: dict[str, Faulty] = {
    "cut link": lambda c, _, leader: c.environment_faults.cut_link(leader, None),
    "full disk": lambda c, _, leader: c.environment_faults.full_disk(leader),
}


@pytest.mark.mission("IN-53", "IN-67", "IN-72")
@pytest.mark.parametrize("client", [librdkafka, kafka_python, aiokafka])
@pytest.mark.parametrize("effect", [*LASTING, *REMOVED])
async def test_a_producer_gets_through(
    cluster: InsideCluster, client: Callable[[str, str], None], effect: str
) -> None:
    topic = f"{client.__name__}-{effect}".replace(" ", "-")
    cluster.create_topic(topic, replication_factor=1, settings={"flush.messages": "1"})
    leader = cluster.leader(topic)
    fault = (LASTING | REMOVED)[effect](cluster, topic, leader)
    with ThreadPoolExecutor(1) as threads:
        produced = threads.submit(client, cluster.bootstrap, topic)
        await asyncio.to_thread(fault.wait)
        if effect in REMOVED:
            fault.remove()
        await asyncio.wrap_future(produced)
    fault.remove()
    assert await read_all(cluster, topic) == [VALUE]


@pytest.mark.mission("IN-66")
@pytest.mark.parametrize("client", [librdkafka, kafka_python, aiokafka])
async def test_a_producer_goes_to_another_broker_when_the_disk_breaks(
    client: Callable[[str, str], None],
) -> None:
    with InsideCluster(2, {"zookeeper.session.timeout.ms": 500}) as cluster:
        cluster.create_topic("t")
        old = cluster.leader("t")
        with cluster.environment_faults.broken_disk(old) as fault:
            await asyncio.to_thread(client, cluster.bootstrap, "t")
            await asyncio.to_thread(fault.wait)
        assert cluster.leader("t") != old
        assert await read_all(cluster, "t") == [VALUE]
