"""The coordinator of a group is killed under consumption: nothing skipped, no commit lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.clients.group_clients import Clients
from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]
PARTITIONS = 4


@pytest.fixture
def whole(trio: RealCluster) -> Iterator[RealCluster]:
    trio.until_whole()
    yield trio
    for broker_id in trio.broker_ids:
        if not (trio.home(f"broker-{broker_id}") / "pid").exists():
            trio.restart_broker(broker_id)


class Watcher:
    """Looks at a group as an administrator does, asking again where there is no coordinator."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._group = group
        self._topic = topic

    def coordinator(self) -> int:
        described = self._admin.describe_consumer_groups([self._group])[self._group]
        return int(described.result(30).coordinator.id)

    def committed(self) -> list[int] | None:
        """Committed offsets by partition; None while no coordinator responds."""
        asked = [TopicPartition(self._topic, n) for n in range(PARTITIONS)]
        request = [ConsumerGroupTopicPartitions(self._group, asked)]
        try:
            future = self._admin.list_consumer_group_offsets(request, request_timeout=5)[
                self._group
            ]
            found = future.result(10).topic_partitions
        except KafkaException:
            return None
        if any(partition.error for partition in found):
            return None
        return [p.offset for p in sorted(found, key=lambda p: p.partition)]


def produce(bootstrap: str, topic: str, first: int, count: int) -> set[str]:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    values = [str(n) for n in range(first, first + count)]
    for n, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=n % PARTITIONS)
    assert producer.flush(60) == 0
    return set(values)


@pytest.mark.parametrize("library", ["confluent", "aiokafka"])
def test_the_coordinator_is_killed(whole: RealCluster, tmp_path: Path, library: str) -> None:
    topic = group = f"failover-{library}"
    whole.create_topic(topic, partitions=PARTITIONS)
    watcher = Watcher(whole.bootstrap, group, topic)
    with Clients(whole.bootstrap, tmp_path, group, topic) as clients:
        members = [clients.start(library), clients.start(library)]
        clients.until_shared(members, PARTITIONS)
        before = watcher.committed() or []
        start = max(0, sum(before))
        expected = produce(whole.bootstrap, topic, start, 200)
        clients.until_read(expected)
        behind = [offset + 50 for offset in (max(0, o) for o in before)]
        until(lambda: watcher.committed() == behind, "all committed")
        coordinator = watcher.coordinator()
        whole.end_broker(coordinator, signal.SIGKILL)
        expected |= produce(whole.bootstrap, topic, start + 200, 200)
        found = until(watcher.committed, "another coordinator", 60)
        assert found is not None
        assert all(now >= then for now, then in zip(found, behind, strict=True))
        assert watcher.coordinator() != coordinator
        clients.until_read(expected)
        until(lambda: watcher.committed() == [o + 50 for o in behind], "the rest committed", 60)
        clients.until_shared(members, PARTITIONS)
        whole.restart_broker(coordinator)
        whole.until_whole()
        expected |= produce(whole.bootstrap, topic, start + 400, 40)
        clients.until_read(expected)
        for member in members:
            member.stop()
