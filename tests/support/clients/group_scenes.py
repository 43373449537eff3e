"""Scenes for groups of every client library: join, leave, die, commit and resume."""

from __future__ import annotations

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.clients.group_clients import Clients
from tests.support.cluster.cluster_state import until

PARTITIONS = 4
# Of a member that will be killed: the group waits for its end. The others have 6 s.
SHORT_SESSION_MS = 2_000


def produce(bootstrap: str, topic: str, first: int, count: int) -> set[str]:
    """Produce numbers as texts, to the partitions in turn."""
    producer = Producer({"bootstrap.servers": bootstrap})
    values = [str(n) for n in range(first, first + count)]
    for n, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=n % PARTITIONS)
    assert producer.flush(30) == 0
    return set(values)


def committed(bootstrap: str, group: str, topic: str) -> int:
    """Return the number of records below the group's committed offsets."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    partitions = [TopicPartition(topic, n) for n in range(PARTITIONS)]
    request = [ConsumerGroupTopicPartitions(group, partitions)]
    found = admin.list_consumer_group_offsets(request)[group].result(30)
    return sum(max(0, p.offset) for p in found.topic_partitions)


def join_leave_die_and_resume(library: str, bootstrap: str, topic: str, clients: Clients) -> None:
    """Play all scenes in the group ``g-{topic}``."""
    expected = produce(bootstrap, topic, 0, 200)
    first = clients.start(library)
    clients.until_shared([first], PARTITIONS)
    clients.until_read(expected)
    second = clients.start(library, session_ms=SHORT_SESSION_MS)
    clients.until_shared([first, second], PARTITIONS)
    expected |= produce(bootstrap, topic, 200, 100)
    clients.until_read(expected)
    second.kill()  # its session has to expire
    clients.until_shared([first], PARTITIONS)
    expected |= produce(bootstrap, topic, 300, 100)
    clients.until_read(expected)
    third = clients.start(library)
    clients.until_shared([first, third], PARTITIONS)
    until(lambda: committed(bootstrap, f"g-{topic}", topic) == 400, "all committed")
    first.stop()  # it leaves the group, so its session need not expire
    clients.until_shared([third], PARTITIONS, limit_s=5.5)
    assert third.records == [], "what others have committed is not read again"
    third.stop()
    fresh = produce(bootstrap, topic, 400, 40)
    last = clients.start(library)
    clients.until_read(expected | fresh)
    assert {value for _, _, value in last.records} == fresh
