"""The commits of a query to a consumer group: what brokers have then, and what a failure says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from minikafka.kernel import cluster as kernel
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.spark import group_commits as module
from minikafka.spark.client_options import client_options
from minikafka.spark.group_commits import GroupCommits
from minikafka.testing.inside.cluster import InsideCluster

pytestmark = pytest.mark.mission("SPO-1")

TOPIC = "orders"


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster(1) as running:
        running.create_topic(TOPIC, 2)
        yield running


def offsets(*numbers: int) -> dict[kernel.TopicPartition, int]:
    return {kernel.TopicPartition(TOPIC, i): number for i, number in enumerate(numbers)}


def commits(bootstrap: str, group: str, lines: list[str]) -> GroupCommits:
    client = client_options({"kafka.bootstrap.servers": bootstrap})
    return GroupCommits(client, group, lines.append)


def committed(cluster: InsideCluster, group: str) -> list[int]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = ConsumerGroupTopicPartitions(group)
    found = admin.list_consumer_group_offsets([wanted])[group].result(60)
    return [each.offset for each in sorted(found.topic_partitions, key=lambda e: e.partition)]


def test_processed_offsets_are_committed(cluster: InsideCluster) -> None:
    lines: list[str] = []
    group = commits(cluster.bootstrap, "audit", lines)
    group.commit(offsets(3, 4))
    assert committed(cluster, "audit") == [3, 4]
    group.commit(offsets(5, 4))
    assert committed(cluster, "audit") == [5, 4]
    assert (lines, group.failure) == ([], None)
    group.close()


def test_members_of_the_group_keep_their_offsets(
    cluster: InsideCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AFTER_FAILURE_MS", 0)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "taken"})
    consumer.subscribe([TOPIC])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
    lines: list[str] = []
    group = commits(cluster.bootstrap, "taken", lines)
    group.commit(offsets(7, 7))
    group.commit(offsets(8, 8))
    failure = (
        "offsets not committed to group taken: UNKNOWN_MEMBER_ID, it has members: give the query "
        "a separate group"
    )
    assert group.failure == failure
    assert lines == [f"{failure} (the query goes on: its offsets are in its checkpoint)"]
    assert committed(cluster, "taken") == [1]
    consumer.close()
    group.commit(offsets(8, 8))
    assert committed(cluster, "taken") == [8, 8]
    assert group.failure is None
    assert lines[1:] == ["offsets are committed to group taken again"]
    group.close()


def test_brokers_that_are_gone_fail_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_MS", 1)
    lines: list[str] = []
    group = commits("127.0.0.1:1", "audit", lines)
    group.commit(offsets(1))
    assert group.failure is not None
    assert group.failure.startswith("offsets not committed to group audit: NETWORK_EXCEPTION: ")
    assert len(lines) == 1


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is committed, to brokers that raise each KafkaError that a test puts in front of it."""
    found: list[Any] = []

    def commit_offsets(cluster: object, group: str, offsets: object) -> None:
        if found and isinstance(found[-1], KafkaError):
            raise found.pop()
        found.append(offsets)

    monkeypatch.setattr(module, "commit_offsets", commit_offsets)
    return found


def test_nothing_new_is_not_committed_until_it_could_expire(
    sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = commits("127.0.0.1:1", "audit", [])
    group.commit({})
    group.commit(offsets(1))
    group.commit(offsets(1))
    assert sent == [offsets(1)]
    monkeypatch.setattr(module, "_REPEAT_MS", 0)
    group.commit(offsets(2))
    group.commit(offsets(2))
    assert sent == [offsets(1), offsets(2), offsets(2)]


def test_a_failed_commit_is_not_repeated_at_once(sent: list[Any]) -> None:
    """With no trigger interval Spark plans a batch every few milliseconds."""
    lines: list[str] = []
    group = commits("127.0.0.1:1", "audit", lines)
    sent.append(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "orders-0"))
    group.commit(offsets(1))
    group.commit(offsets(2))
    assert sent == []
    assert group.failure == (
        "offsets not committed to group audit: GROUP_AUTHORIZATION_FAILED, the query's principal "
        "needs the ACL Read on it"
    )
    assert len(lines) == 1
