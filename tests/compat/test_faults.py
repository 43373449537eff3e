"""Each fault that a test may add, seen by the producers of five libraries, which get through."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import RequestTimedOutError
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError

from minikafka import aio
from minikafka.testing.inside.cluster import InsideCluster
from tests.unit.testing.inside.test_operations import TIMEOUT_S, read_all

pytestmark = pytest.mark.compat

VALUE = b"x" * 100
SCRIPT = Path(__file__).parents[1] / "support" / "clients" / "producer.js"


@pytest.fixture(scope="module")
def two() -> Iterator[InsideCluster]:
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
        bootstrap_servers=bootstrap,
        request_timeout_ms=1000,
        retry_backoff_ms=10,
        enable_idempotence=True,
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


def ours(bootstrap: str, topic: str) -> None:
    async def produce() -> None:
        async with aio.Producer(bootstrap, request_timeout_ms=1000) as producer:
            await producer.send_and_wait(topic, VALUE)

    asyncio.run(produce())


@pytest.fixture
def kafkajs(node_modules: Path) -> Callable[[str, str], None]:
    def produce(bootstrap: str, topic: str) -> None:
        options = {"bootstrap": bootstrap, "topic": topic, "value": VALUE.decode()}
        subprocess.run(
            ["node", str(SCRIPT), json.dumps(options)],
            env={**os.environ, "NODE_PATH": str(node_modules)},
            check=True,
            timeout=TIMEOUT_S,
        )

    return produce


LIBRARIES: dict[str, Callable[[str, str], None]] = {
    "librdkafka": librdkafka,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "ours": ours,
}


@pytest.fixture(params=[*LIBRARIES, "kafkajs"])
def client(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that writes ``VALUE`` to a topic, until that is acknowledged."""
    found = LIBRARIES.get(request.param)
    return found or request.getfixturevalue("kafkajs")


Faulty = Callable[[InsideCluster, str, int], Any]
# Each adds a fault that concerns Produce requests for the topic, or their broker.
LASTING: dict[str, Faulty] = {
    "answer": lambda c, topic, _: c.request_faults.answer(
        "NOT_LEADER_OR_FOLLOWER", api="produce", topic=topic
    ),
    "answer after": lambda c, topic, _: c.request_faults.answer(
        "NOT_LEADER_OR_FOLLOWER", "after", api="produce", topic=topic
    ),
    "delay": lambda c, topic, _: c.request_faults.delay(0.05, api="produce", topic=topic),
    "delay after": lambda c, topic, _: c.request_faults.delay(
        0.05, "after", api="produce", topic=topic
    ),
    "disconnect before": lambda c, topic, _: c.request_faults.disconnect(
        "before", api="produce", topic=topic
    ),
    "disconnect after": lambda c, topic, _: c.request_faults.disconnect(
        "after", api="produce", topic=topic
    ),
    "throttle": lambda c, topic, _: c.request_faults.throttle(0.05, api="produce", topic=topic),
    "observe": lambda c, topic, _: c.request_faults.observe(api="produce", topic=topic),
    "slow disk": lambda c, _, leader: c.environment_faults.slow_disk(leader, 0.05),
    "slow link": lambda c, _, leader: c.environment_faults.slow_link(leader, None, 0.02),
}
# With these nothing can be appended: they are removed when they have struck.
REMOVED: dict[str, Faulty] = {
    "hold before": lambda c, topic, _: c.request_faults.hold(api="produce", topic=topic),
    "hold after": lambda c, topic, _: c.request_faults.hold("after", api="produce", topic=topic),
    "cut link": lambda c, _, leader: c.environment_faults.cut_link(leader, None),
    "full disk": lambda c, _, leader: c.environment_faults.full_disk(leader),
}


@pytest.mark.mission("IN-53", "IN-67", "IN-72")
@pytest.mark.parametrize("effect", [*LASTING, *REMOVED])
async def test_a_producer_gets_through(
    two: InsideCluster,
    client: Callable[[str, str], None],
    effect: str,
    request: pytest.FixtureRequest,
) -> None:
    topic = request.node.name.partition("[")[2].strip("]").replace(" ", "-")
    two.create_topic(topic, replication_factor=1, settings={"flush.messages": "1"})
    leader = two.leader(topic)
    fault = (LASTING | REMOVED)[effect](two, topic, leader)
    with ThreadPoolExecutor(1) as threads:
        produced = threads.submit(client, two.bootstrap, topic)
        await asyncio.to_thread(fault.wait)
        if effect in REMOVED:
            fault.remove()
        await asyncio.wrap_future(produced)
    fault.remove()
    assert await read_all(two, topic) == [VALUE]


@pytest.mark.mission("JUDGE-72")
@pytest.mark.parametrize("first", [False, True])
async def test_batches_behind_one_that_a_full_disk_refused(two: InsideCluster, first: bool) -> None:
    """There is room for them, but not for the ``first`` batch of the producer, or for one after it.
    The producer sends all of them again, in order and in its epoch."""
    topic = f"behind-refused-{first}".lower()
    two.create_topic(topic, replication_factor=1)
    leader, epochs = two.leader(topic), set[int]()

    def measured(statistics: str) -> None:
        epochs.add(json.loads(statistics)["eos"]["producer_epoch"])

    producer = Producer(
        {
            "bootstrap.servers": two.bootstrap,
            "enable.idempotence": True,
            "batch.num.messages": 1,
            "statistics.interval.ms": 50,
            "stats_cb": measured,
            "retry.backoff.ms": 10,
            "log_level": 0,
        }
    )
    values = [VALUE, bytes(100_000), b"2", b"3", b"4"][first:]

    def produce() -> None:
        with two.environment_faults.slow_link(leader, None, 0.05):  # all are sent before a response
            for value in values[not first :]:
                producer.produce(topic, value, partition=0)
            full.wait(2)
            full.remove()
        assert producer.flush(TIMEOUT_S) == 0
        producer.poll(0.1)

    producer.produce("warm-up", VALUE)
    if not first:
        producer.produce(topic, VALUE, partition=0)
    assert await asyncio.to_thread(producer.flush, TIMEOUT_S) == 0
    full = two.environment_faults.full_disk(leader, 10_000)
    await asyncio.to_thread(produce)
    assert await read_all(two, topic) == values
    assert max(epochs) == 0


@pytest.mark.mission("IN-24", "IN-53")
@pytest.mark.parametrize("library", LIBRARIES)
async def test_a_producer_leaves_a_mute_connection(two: InsideCluster, library: str) -> None:
    """Some give the record up when the request has timed out; the next one gets through. kafkajs
    stays on the mute connection forever."""
    client, topic = LIBRARIES[library], f"mute-{library}"
    two.create_topic(topic, replication_factor=1)
    with two.request_faults.swallow(api="produce", topic=topic) as fault:
        try:
            await asyncio.to_thread(client, two.bootstrap, topic)
        except (RequestTimedOutError, KafkaTimeoutError):
            await asyncio.to_thread(client, two.bootstrap, topic)
        assert fault.hits == 1
    assert await read_all(two, topic) == [VALUE]


@pytest.mark.mission("IN-66")
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
