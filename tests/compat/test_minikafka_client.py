"""Our client beside others: keys in the same places, records of ours in theirs, one group."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest

from minikafka.aio import Admin, Compression, Consumer, Producer
from tests.support.clients.group_clients import GroupClient
from tests.support.clients.places import Cluster, in_both_places

pytestmark = pytest.mark.compat

PARTITIONS = 7
KEYS = [b"", b"k", "ключ".encode(), b"\x00\xff", *(b"key-%d" % number for number in range(60))]


async def create(cluster: Cluster, topic: str, partitions: int = PARTITIONS) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(topic, partitions, 3)
        await admin.wait_for_topic(topic, partitions)


async def read_all(cluster: Cluster, topic: str) -> dict[tuple[bytes | None, bytes | None], int]:
    """Partitions by key and value."""
    async with Consumer(
        cluster.bootstrap, topics=[topic], auto_offset_reset="earliest"
    ) as consumer:
        found = [record async for record in consumer.read_to()]
    return {(record.key, record.value): record.partition for record in found}


def send_confluent(cluster: Cluster, topic: str) -> None:
    from confluent_kafka import Producer as Confluent

    settings = {"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2_random"}
    producer = Confluent(settings)
    for key in KEYS:
        producer.produce(topic, b"confluent", key)
    assert producer.flush(60) == 0


def send_kafka_python(cluster: Cluster, topic: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that package's own
        from kafka import KafkaProducer
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    for key in KEYS:
        producer.send(topic, b"kafka-python", key)
    producer.flush(60)
    producer.close()


@in_both_places
@pytest.mark.mission("PAR-3", "PAR-8")
async def test_keys_land_where_other_clients_put_them(cluster: Cluster, topic: str) -> None:
    """librdkafka with murmur2_random, kafka-python, and kcat where it is; ours."""
    await create(cluster, topic)
    async with Producer(cluster.bootstrap) as producer:
        for key in KEYS:
            await producer.send(topic, b"minikafka", key)
    await asyncio.to_thread(send_confluent, cluster, topic)
    await asyncio.to_thread(send_kafka_python, cluster, topic)
    plain = [key for key in KEYS if key.startswith(b"key-")]
    if shutil.which("kcat"):
        command = ["kcat", "-b", cluster.bootstrap, "-P", "-t", topic, "-K", "|"]
        command += ["-X", "partitioner=murmur2_random"]
        text = b"".join(key + b"|kcat\n" for key in plain)
        await asyncio.to_thread(subprocess.run, command, input=text, check=True, timeout=60)
    placed = await read_all(cluster, topic)
    ours = {key: placed[key, b"minikafka"] for key in KEYS}
    assert len(set(ours.values())) == PARTITIONS
    for library in (b"confluent", b"kafka-python", b"kcat"):
        theirs = {key: number for (key, value), number in placed.items() if value == library}
        if library == b"confluent":
            theirs.pop(b"", None)  # librdkafka takes an empty key for none
        assert theirs == {key: ours[key or b""] for key in theirs}
        assert len(theirs) >= len(plain) or library == b"kcat"


@pytest.mark.parametrize("codec", list(Compression))
async def test_other_clients_read_records_of_this_producer(
    cluster: Cluster, topic: str, codec: Compression
) -> None:
    from confluent_kafka import Consumer as Confluent
    from confluent_kafka import TopicPartition

    await create(cluster, topic, 1)
    headers = [("h", b"x"), ("nothing", None)]
    async with Producer(cluster.bootstrap, compression=codec, linger_ms=20) as producer:
        for number in range(300):
            value = None if number % 50 == 7 else codec.name.encode() * number
            await producer.send(
                topic, value, b"%d" % number, headers=headers, timestamp_ms=1_000_000 + number
            )

    def read() -> None:
        settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "unused"}
        consumer = Confluent({**settings, "check.crcs": True})
        consumer.assign([TopicPartition(topic, 0, 0)])
        for number in range(300):
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None
            assert message.offset() == number
            assert message.key() == b"%d" % number
            wanted = None if number % 50 == 7 else codec.name.encode() * number
            assert message.value() == wanted
            assert message.headers() == headers
            assert message.timestamp()[1] == 1_000_000 + number
        consumer.close()

    await asyncio.to_thread(read)


@pytest.mark.mission("ASG-1", "ASG-2")
@pytest.mark.parametrize("library", ["confluent", "kafka-python", "aiokafka"])
async def test_one_group_with_members_of_another_library(
    cluster: Cluster, topic: str, tmp_path: Path, library: str
) -> None:
    """Ours comes to theirs, leads or follows, leaves again; what is committed goes over."""
    await create(cluster, topic, 4)
    async with Producer(cluster.bootstrap) as producer:
        for number in range(40):
            await producer.send(topic, b"%d" % number, partition=number % 4)
    options = {"bootstrap": cluster.bootstrap, "topic": topic, "group": f"g-{topic}"}
    theirs = GroupClient(library, tmp_path, "theirs", **options)
    try:
        mine: list[bytes | None] = []
        async with Consumer(
            cluster.bootstrap,
            group_id=f"g-{topic}",
            topics=[topic],
            auto_offset_reset="earliest",
            partition_assignment_strategy=("range",),
            heartbeat_interval_ms=500,
        ) as consumer:

            async def until(what: str, limit: int, reached: object) -> None:
                for _ in range(limit):
                    mine.extend(record.value for record in await consumer.poll(200))
                    if reached():  # type: ignore[operator]
                        return
                raise AssertionError(f"not reached: {what}")

            await until(
                "both have two",
                450,
                lambda: len(theirs.assigned) == 2 and len(consumer.assignment) == 2,
            )
            await until("all is read", 300, lambda: len(mine) + len(theirs.records) >= 40)
        for _ in range(450):
            if len(theirs.assigned) == 4:
                break
            await asyncio.sleep(0.2)
        assert sorted(theirs.assigned) == [0, 1, 2, 3], "ours has left"
    finally:
        theirs.kill()
