"""Share consumers of librdkafka and of Java share the records of a topic (KIP-932)."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections import Counter

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka import aio
from minikafka.core.config_resources import ResourceType
from scripts.lib.apache_kafka import NoApacheKafka, java_command
from scripts.lib.kraft_broker import KAFKA_4
from tests.support.clients.confluent import value_of
from tests.support.clients.places import Cluster
from tests.support.cluster.kafka_tools import QUIET, TOOL_JVM
from tests.support.cluster.leaders import wait_for_leaders

pytestmark = [pytest.mark.compat, pytest.mark.mission("SHR-12")]

PARTITIONS, COUNT = 3, 120
LIMIT_S = 60
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


@pytest.fixture
def group(cluster: Cluster, topic: str) -> str:
    """A group that reads from the beginning of a topic with records."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result()
    wait_for_leaders(cluster.bootstrap, topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    producer.flush()
    name = f"g-{topic}"

    async def begin_early() -> None:
        async with aio.Admin(cluster.bootstrap) as own:
            await own.alter_configs(
                ResourceType.GROUP, name, {"share.auto.offset.reset": "earliest"}
            )

    asyncio.run(begin_early())
    return name


def share_consumer(cluster: Cluster, topic: str, group: str, **more: str | int) -> ShareConsumer:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            **more,
        }
    )
    consumer.subscribe([topic])
    return consumer


def test_released_records_are_delivered_again_and_accepted_ones_are_not(
    cluster: Cluster, topic: str, group: str
) -> None:
    consumers = [share_consumer(cluster, topic, group) for _ in range(2)]
    delivered: Counter[bytes] = Counter()
    accepted: set[bytes] = set()
    until = time.monotonic() + LIMIT_S
    while len(accepted) < COUNT and time.monotonic() < until:
        for consumer in consumers:
            for message in consumer.poll(0.2):
                assert message.error() is None, message.error()
                value = value_of(message)
                delivered[value] += 1
                if int(value) % 10 == 0 and delivered[value] == 1:
                    consumer.acknowledge(message, AcknowledgeType.RELEASE)
                else:
                    assert value not in accepted
                    accepted.add(value)
                    consumer.acknowledge(message)
    for consumer in consumers:
        consumer.commit_sync(5)
        consumer.close()
    assert delivered == {b"%d" % n: 2 if n % 10 == 0 else 1 for n in range(COUNT)}


@pytest.mark.kafka
def test_javas_share_consumer_reads_what_is_left(cluster: Cluster, topic: str, group: str) -> None:
    # A fetch gets the first record batch, although it asks for less, and nothing else.
    consumer = share_consumer(cluster, topic, group, **{"max.poll.records": 10})
    left = {b"%d" % number for number in range(COUNT)}
    until = time.monotonic() + LIMIT_S
    while len(left) == COUNT and time.monotonic() < until:
        for message in consumer.poll(0.2):
            left.discard(value_of(message))
            consumer.acknowledge(message)
    consumer.commit_sync(5)
    consumer.close()
    assert 0 < len(left) < COUNT
    arguments = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--group", group)
    most = ("--max-messages", str(len(left)), "--timeout-ms", "30000")
    try:
        command = java_command(KAFKA_4, CONSOLE, *arguments, *most, jvm=(*TOOL_JVM, QUIET))
    except NoApacheKafka as why:
        pytest.skip(str(why))
    done = subprocess.run(command, capture_output=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr[-2000:]
    assert Counter(done.stdout.split()) == Counter(left)
