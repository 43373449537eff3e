"""librdkafka's consumers change from the classic protocol to that of KIP-848, and back, one after
the other, while records are written: none is lost, and those committed are not read again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.confluent import value_of
from tests.support.clients.places import Cluster
from tests.support.cluster.leaders import wait_for_leaders

pytestmark = [pytest.mark.compat, pytest.mark.mission("G848-14")]

PARTITIONS = 6
LIMIT_S = 40
CLASSIC, CONSUMER = "classic", "consumer"


class Reader:
    """A consumer that commits what it has read before it reads on."""

    def __init__(self, cluster: Cluster, topic: str, group: str, protocol: str) -> None:
        config: dict[str, str | int | bool] = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if protocol == CLASSIC:
            # After a second rebalance, librdkafka's cooperative-sticky sends user data with its
            # assignments, which stop an online upgrade, as in Kafka.
            config |= {
                "partition.assignment.strategy": "range",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 300,
            }
        self.consumer = Consumer(config)
        self.consumer.subscribe([topic])

    def read(self, read: set[bytes], committed: Counter[bytes]) -> None:
        """Read some records. A commit may fail while the group rebalances: its record is read
        again."""
        for message in self.consumer.consume(100, timeout=0.1):
            if message.error() is None:
                read.add(value_of(message))
                with suppress(KafkaException):
                    self.consumer.commit(message=message, asynchronous=False)
                    committed[value_of(message)] += 1

    def close(self) -> None:
        self.consumer.close()

    @property
    def partitions(self) -> int:
        return len(self.consumer.assignment())


class Traffic:
    """Records that are written in rounds, and what the readers of a group have read of them."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.producer = Producer({"bootstrap.servers": cluster.bootstrap})
        self.topic = topic
        self.written = 0
        self.read: set[bytes] = set()
        self.committed: Counter[bytes] = Counter()
        self.readers: list[Reader] = []

    def write(self) -> None:
        for number in range(self.written, self.written + 20):
            self.producer.produce(self.topic, b"%d" % number, partition=number % PARTITIONS)
        self.written += 20
        assert self.producer.flush(30) == 0

    def run_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline, [reader.partitions for reader in self.readers]
            for reader in self.readers:
                reader.read(self.read, self.committed)

    def settle(self) -> None:
        """Wait until the readers share all partitions, and have read all that is written."""
        shares = [PARTITIONS // len(self.readers)] * len(self.readers)
        self.run_until(lambda: [reader.partitions for reader in self.readers] == shares)
        self.write()
        self.run_until(lambda: len(self.read) == self.written)


def group_type(admin: AdminClient, group: str) -> str:
    listed = admin.list_consumer_groups().result(10).valid
    (found,) = [each for each in listed if each.group_id == group]
    return str(found.type.name).lower()


@pytest.mark.parametrize("closes_first", [False, True])
def test_members_change_their_protocol_one_after_the_other(
    cluster: Cluster, topic: str, closes_first: bool
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    wait_for_leaders(cluster.bootstrap, topic, PARTITIONS)
    traffic = Traffic(cluster, topic)
    traffic.write()
    traffic.readers = [Reader(cluster, topic, topic, CLASSIC) for _ in range(2)]
    traffic.settle()
    assert group_type(admin, topic) == CLASSIC
    for protocol in (CONSUMER, CLASSIC):
        for number in range(2):
            old = traffic.readers[number]
            if closes_first:
                old.close()
            traffic.readers[number] = Reader(cluster, topic, topic, protocol)
            if not closes_first:
                traffic.readers.append(old)
                traffic.settle()
                traffic.readers.remove(old)
                old.close()
            traffic.settle()
        assert group_type(admin, topic) == protocol
    for reader in traffic.readers:
        reader.close()
    assert traffic.read == {b"%d" % number for number in range(traffic.written)}
    assert [value for value, count in traffic.committed.items() if count > 1] == []
