"""Records as librdkafka writes and reads them, and as kafka-python reads them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import kafka
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.confluent import partition_of

Rows = list[tuple[Any, ...]]


def produce(bootstrap: str, topic: str, messages: Iterable[Any], **settings: Any) -> None:
    """``messages``: dicts of Producer.produce, or plain values."""
    config = {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, **config})
    failures: list[Any] = []
    for message in messages:
        given = message if isinstance(message, dict) else {"value": message}
        producer.produce(
            topic, on_delivery=lambda error, _: failures.extend([error] if error else []), **given
        )
    assert producer.flush(60) == 0
    assert failures == []


def consume(bootstrap: str, topic: str, partitions: int, isolation: str) -> Rows:
    """(partition, offset, timestamp, key, value, headers) of everything, sorted."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    rows: Rows = []
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(60)
        assert message is not None, "nothing came for a minute"
        error = message.error()
        if error is not None:
            assert error.name() == "_PARTITION_EOF", error
            ended.add(partition_of(message))
            continue
        rows.append(
            (
                message.partition(),
                message.offset(),
                message.timestamp()[1],
                message.key(),
                message.value(),
                message.headers(),
            )
        )
    consumer.close()
    return sorted(rows, key=lambda row: row[:2])


def consume_by_kafka_python(bootstrap: str, topic: str, partitions: int, isolation: str) -> Rows:
    """The same rows as ``consume``, read by a client that shares no code with librdkafka."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        isolation_level=isolation,
        enable_auto_commit=False,
    )
    wanted = [kafka.TopicPartition(topic, number) for number in range(partitions)]
    consumer.assign(wanted)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(wanted)
    rows: Rows = []
    for _ in range(600):
        if all(consumer.position(each) >= end for each, end in ends.items()):
            break
        for records in consumer.poll(timeout_ms=100).values():
            rows += [
                (r.partition, r.offset, r.timestamp, r.key, r.value, list(r.headers) or None)
                for r in records
            ]
    else:
        raise AssertionError(f"the end of {topic} was not reached: {ends}")
    consumer.close()
    return sorted(rows, key=lambda row: row[:2])


def create_again(bootstrap: str, topic: str, partitions: int = 3) -> None:
    """Delete a topic, and create one of its name when it is gone."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic], operation_timeout=60)[topic].result(60)
    deadline = time.monotonic() + 60
    while True:
        try:
            admin.create_topics([NewTopic(topic, partitions, 3)], operation_timeout=60)[
                topic
            ].result(60)
        except KafkaException as error:
            name = error.args[0].name()
            if name != "TOPIC_ALREADY_EXISTS" or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def numbered(first: int, count: int) -> list[dict[str, Any]]:
    """Messages with their number as key, in turns to three partitions."""
    return [
        {"key": b"%d" % n, "value": b"v%d" % n, "partition": n % 3}
        for n in range(first, first + count)
    ]


def committed(bootstrap: str, topic: str) -> list[int]:
    """The numbers that are the keys in a topic of three partitions, sorted."""
    return sorted(int(row[3]) for row in consume(bootstrap, topic, 3, "read_committed"))


def groups_of(bootstrap: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # its end would drop the answer
    return {each.group_id for each in admin.list_consumer_groups().result(60).valid}


def offsets_of_group(bootstrap: str, group: str) -> dict[int, int]:
    """The committed offsets of a group that reads one topic, by partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [ConsumerGroupTopicPartitions(group)]
    found = admin.list_consumer_group_offsets(wanted)[group].result(60)
    return {each.partition: each.offset for each in found.topic_partitions}


def spark_rows(frame: Any) -> Rows:
    """The same of a DataFrame with headers."""
    rows = [
        (
            row.partition,
            row.offset,
            round(row.timestamp.timestamp() * 1000),
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            None
            if row.headers is None
            else [(h.key, None if h.value is None else bytes(h.value)) for h in row.headers],
        )
        for row in frame.collect()
    ]
    return sorted(rows, key=lambda row: row[:2])
