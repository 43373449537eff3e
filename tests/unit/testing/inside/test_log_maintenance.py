"""Compaction and retention on command, read by clients of others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import Consumer, Producer

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.inside.cluster import InsideCluster

TIMEOUT_S = 20
COMPACTED = {"cleanup.policy": "compact"}


@pytest.fixture(scope="module")
def three() -> Iterator[InsideCluster]:
    with InsideCluster(3) as cluster:
        yield cluster


def produce(
    cluster: InsideCluster, topic: str, records: list[tuple[str, str]], timestamp: int = 0
) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for key, value in records:
        producer.produce(topic, value, key, timestamp=timestamp)
    assert producer.flush(TIMEOUT_S) == 0


async def read_all(cluster: InsideCluster, topic: str) -> list[tuple[str, str]]:
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, enable_auto_commit=False)
    async with consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        found: list[tuple[str, str]] = []
        while await consumer.position(partition) < end:
            for record in (await consumer.getmany(partition, timeout_ms=1000)).get(partition, []):
                found.append((record.key.decode(), record.value.decode()))
        return found


@pytest.mark.mission("IN-68")
async def test_compaction_keeps_the_last_value_of_each_key(three: InsideCluster) -> None:
    three.create_topic("compacted", settings=COMPACTED)
    for turn in range(3):
        produce(three, "compacted", [(f"key{n}", f"{turn}.{n}") for n in range(10)])
    produce(three, "compacted", [("key3", "last")])
    expected = [(f"key{n}", f"2.{n}") for n in range(10) if n != 3] + [("key3", "last")]
    assert len(await read_all(three, "compacted")) == 31
    three.compact("compacted")
    for broker in (1, 2, 3):  # each replica has been compacted
        three.move_leader("compacted", 0, broker)
        assert await read_all(three, "compacted") == expected
    produce(three, "compacted", [("key4", "later")])
    three.compact("compacted")
    later = [row for row in expected if row[0] != "key4"] + [("key4", "later")]
    assert await read_all(three, "compacted") == later


@pytest.mark.mission("IN-68")
@pytest.mark.parametrize("delete_retention_ms", ["0", "1000"])
async def test_partitions_without_records_are_left_alone(
    three: InsideCluster, delete_retention_ms: str
) -> None:
    topic = f"sparse-{delete_retention_ms}"
    three.create_topic(topic, 9, settings={**COMPACTED, "delete.retention.ms": delete_retention_ms})
    three.compact(topic)
    produce(three, topic, [("a", "old"), ("a", "new")])
    three.compact(topic)
    settings = {"bootstrap.servers": three.bootstrap, "group.id": topic}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    while b"new" not in found:
        found += [record.value() for record in consumer.consume(2, 1)]
    consumer.close()
    assert found == ([b"new"] if delete_retention_ms != "0" else [b"old", b"new"])


@pytest.mark.mission("IN-69")
async def test_retention_deletes_old_segments(three: InsideCluster) -> None:
    three.create_topic("retained", settings={"retention.ms": "60000"})
    produce(three, "retained", [("a", "old")], timestamp=1_000_000)
    assert three.apply_retention("retained") == 3  # the segment of each replica
    produce(three, "retained", [("a", "young")])
    assert three.apply_retention() == 0
    for broker in (1, 2, 3):
        three.move_leader("retained", 0, broker)
        assert await read_all(three, "retained") == [("a", "young")]


def test_topics_that_cannot_be_maintained_are_errors(three: InsideCluster) -> None:
    three.create_topic("deleted")
    with pytest.raises(KafkaError, match=r"cleanup\.policy of deleted") as caught:
        three.compact("deleted")
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    for call in (three.compact, three.apply_retention):
        with pytest.raises(KafkaError) as caught:
            call("missing")
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
