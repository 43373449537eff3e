"""Transactions of kafka-python and aiokafka: commit, abort, zombies, offsets; a time-out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import KafkaError as AioKafkaError
from aiokafka.errors import ProducerFenced
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

from tests.support.clients.places import Cluster, in_both_places
from tests.support.cluster.cluster_state import until
from tests.support.cluster.leaders import wait_for_leaders

pytestmark = pytest.mark.compat
TIMEOUT_S = 60


@pytest.fixture
def made_topic(cluster: Cluster, topic: str) -> str:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    admin.create_topics([NewTopic(topic, 1, 3)])
    wait_for_leaders(cluster.bootstrap, topic, 1)
    admin.close()
    return topic


def values(cluster: Cluster, topic: str, level: str = "read_committed") -> list[bytes]:
    """All that a consumer of kafka-python can read now."""
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), isolation_level=level)
    where = TopicPartition(topic, 0)
    consumer.assign([where])
    consumer.seek_to_beginning()
    end = consumer.end_offsets([where])[where]
    found: list[bytes] = []
    while consumer.position(where) < end:
        for records in consumer.poll(timeout_ms=500).values():
            found += [record.value for record in records]
    consumer.close()
    return found


def ended(cluster: Cluster, topic: str) -> bool:
    """The last stable offset has come to the end."""
    ends = []
    for level in ("read_uncommitted", "read_committed"):
        consumer = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap.split(","), isolation_level=level
        )
        where = TopicPartition(topic, 0)
        ends.append(consumer.end_offsets([where])[where])
        consumer.close()
    return bool(ends[0] == ends[1])


# -- kafka-python


def producer(cluster: Cluster, transactional_id: str, timeout_ms: int = 60_000) -> Any:
    made = KafkaProducer(
        bootstrap_servers=cluster.bootstrap.split(","),
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
    )
    made.init_transactions()
    return made


@in_both_places
@pytest.mark.mission("DOP-5", "IN-98")
def test_kafka_python_commits_and_aborts(cluster: Cluster, made_topic: str) -> None:
    writer = producer(cluster, f"tx-{made_topic}")
    for number, commit in enumerate([True, False, True]):
        writer.begin_transaction()
        writer.send(made_topic, b"%d" % number).get(TIMEOUT_S)
        if commit:
            writer.commit_transaction()
        else:
            writer.abort_transaction()
    writer.close()
    assert values(cluster, made_topic) == [b"0", b"2"]
    assert values(cluster, made_topic, "read_uncommitted") == [b"0", b"1", b"2"]


def test_a_zombie_of_kafka_python_is_fenced(cluster: Cluster, made_topic: str) -> None:
    zombie = producer(cluster, f"tx-{made_topic}")
    zombie.begin_transaction()
    zombie.send(made_topic, b"of the zombie").get(TIMEOUT_S)
    successor = producer(cluster, f"tx-{made_topic}")
    with pytest.raises(KafkaError):
        zombie.commit_transaction()
    successor.begin_transaction()
    successor.send(made_topic, b"of the successor")
    successor.commit_transaction()
    successor.close()
    zombie.close(timeout=1)
    assert values(cluster, made_topic) == [b"of the successor"]


def test_a_slow_transaction_of_kafka_python_is_aborted(cluster: Cluster, made_topic: str) -> None:
    slow = producer(cluster, f"tx-{made_topic}", timeout_ms=1000)
    slow.begin_transaction()
    slow.send(made_topic, b"late").get(TIMEOUT_S)
    until(lambda: ended(cluster, made_topic), "the coordinator gives it up", TIMEOUT_S)
    assert values(cluster, made_topic) == []
    assert values(cluster, made_topic, "read_uncommitted") == [b"late"]
    with pytest.raises(KafkaError):
        slow.commit_transaction()
    slow.close(timeout=1)


@in_both_places
def test_offsets_in_transactions_of_kafka_python(cluster: Cluster, made_topic: str) -> None:
    group = f"g-{made_topic}"
    where = TopicPartition(made_topic, 0)
    writer = producer(cluster, f"tx-{made_topic}")
    reader = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap.split(","), group_id=group, enable_auto_commit=False
    )
    reader.assign([where])
    for offset, commit in ((41, False), (42, True)):
        writer.begin_transaction()
        writer.send_offsets_to_transaction(
            {where: OffsetAndMetadata(offset, "", -1)}, ConsumerGroupMetadata(group, -1, "", None)
        )
        if commit:
            writer.commit_transaction()
        else:
            writer.abort_transaction()
            assert reader.committed(where) is None
    until(lambda: reader.committed(where) == 42, "the marker is written", TIMEOUT_S)
    writer.close()
    reader.close()


def test_kafka_python_describes_transactions(cluster: Cluster, made_topic: str) -> None:
    name, where = f"tx-{made_topic}", TopicPartition(made_topic, 0)
    writer = producer(cluster, name)
    admin: Any = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    writer.begin_transaction()
    writer.send(made_topic, b"v").get(TIMEOUT_S)
    described = admin.describe_transactions([name])[name]
    assert described.state.value == "Ongoing"
    assert described.topic_partitions == {where}
    listed = admin.list_transactions(state_filters=["Ongoing"])
    assert name in [row.transactional_id for rows in listed.values() for row in rows]
    (known,) = admin.describe_producers([where])[where].active_producers
    assert (known.producer_id, known.producer_epoch) == (
        described.producer_id,
        described.producer_epoch,
    )
    assert known.current_transaction_start_offset == 0
    assert not admin.find_hanging_transactions()
    writer.commit_transaction()
    until(
        lambda: admin.describe_transactions([name])[name].state.value == "CompleteCommit",
        "it is over",
        TIMEOUT_S,
    )
    writer.close()
    admin.close()


# -- aiokafka


async def aio_producer(cluster: Cluster, transactional_id: str, **settings: Any) -> Any:
    made = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap, transactional_id=transactional_id, **settings
    )
    await made.start()
    return made


@in_both_places
@pytest.mark.mission("IN-98")
async def test_aiokafka_commits_and_aborts(cluster: Cluster, made_topic: str) -> None:
    writer = await aio_producer(cluster, f"tx-{made_topic}")
    for number, commit in enumerate([True, False, True]):
        await writer.begin_transaction()
        await writer.send_and_wait(made_topic, b"%d" % number)
        if commit:
            await writer.commit_transaction()
        else:
            await writer.abort_transaction()
    await writer.stop()
    assert values(cluster, made_topic) == [b"0", b"2"]
    consumer = AIOKafkaConsumer(
        made_topic,
        bootstrap_servers=cluster.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    assert [(await consumer.getone()).value for _ in range(2)] == [b"0", b"2"]
    await consumer.stop()


async def test_a_zombie_of_aiokafka_is_fenced(cluster: Cluster, made_topic: str) -> None:
    zombie = await aio_producer(cluster, f"tx-{made_topic}")
    await zombie.begin_transaction()
    await zombie.send_and_wait(made_topic, b"of the zombie")
    successor = await aio_producer(cluster, f"tx-{made_topic}")
    with pytest.raises(ProducerFenced):
        await zombie.commit_transaction()
    async with successor.transaction():
        await successor.send_and_wait(made_topic, b"of the successor")
    await successor.stop()
    await zombie.stop()
    assert values(cluster, made_topic) == [b"of the successor"]


async def test_a_slow_transaction_of_aiokafka_is_aborted(cluster: Cluster, made_topic: str) -> None:
    slow = await aio_producer(cluster, f"tx-{made_topic}", transaction_timeout_ms=1000)
    await slow.begin_transaction()
    await slow.send_and_wait(made_topic, b"late")
    until(lambda: ended(cluster, made_topic), "the coordinator gives it up", TIMEOUT_S)
    assert values(cluster, made_topic) == []
    assert values(cluster, made_topic, "read_uncommitted") == [b"late"]
    with pytest.raises(AioKafkaError):
        await slow.commit_transaction()
    await slow.stop()


@in_both_places
async def test_offsets_in_transactions_of_aiokafka(cluster: Cluster, made_topic: str) -> None:
    group = f"g-{made_topic}"
    where = AioTopicPartition(made_topic, 0)
    writer = await aio_producer(cluster, f"tx-{made_topic}")
    reader = AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap, group_id=group, enable_auto_commit=False
    )
    await reader.start()
    reader.assign([where])
    for offset, commit in ((41, False), (42, True)):
        await writer.begin_transaction()
        await writer.send_offsets_to_transaction({where: offset}, group)
        if commit:
            await writer.commit_transaction()
        else:
            await writer.abort_transaction()
            assert await reader.committed(where) is None
    async with asyncio.timeout(TIMEOUT_S):  # it asks before the marker is written, perhaps
        while await reader.committed(where) != 42:
            pass
    await writer.stop()
    await reader.stop()
