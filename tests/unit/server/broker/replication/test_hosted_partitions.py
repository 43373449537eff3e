"""Which partitions are here, and the names of their topics."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.partition import Partition
from tests.support.broker.replica_fakes import Metadata

KEPT, GONE = UUID(int=1), UUID(int=2)


@pytest.fixture
def hosted() -> HostedPartitions:
    return HostedPartitions(cast(Any, Metadata()))


def host(hosted: HostedPartitions, topic: str, index: int, topic_id: UUID) -> Partition:
    partition = Partition(TopicPartition(topic, index), 1, 1, (), lambda _: None, [])
    hosted.add(partition)
    hosted.identify(partition, topic_id)
    return partition


def test_a_topic_has_its_name_until_its_last_partition_is_gone(hosted: HostedPartitions) -> None:
    partitions = [host(hosted, "gone", index, GONE) for index in range(3)]
    host(hosted, "kept", 0, KEPT)
    for partition in partitions:
        assert hosted.topic_name(GONE) == "gone"
        assert hosted.remove(partition.topic_partition) is partition
    assert hosted.topic_name(GONE) is None
    assert hosted.topic_name(KEPT) == "kept"


def test_a_partition_whose_disk_failed_counts_until_it_is_removed(hosted: HostedPartitions) -> None:
    topic_partition = host(hosted, "gone", 0, GONE).topic_partition
    hosted.mark_offline(topic_partition)
    hosted.mark_offline(topic_partition)
    assert hosted.topic_name(GONE) == "gone"
    assert hosted.remove(topic_partition) is None
    assert hosted.topic_name(GONE) is None
    assert not hosted.is_offline(topic_partition)


def test_a_partition_that_was_never_online_can_be_offline(hosted: HostedPartitions) -> None:
    topic_partition = TopicPartition("gone", 0)
    hosted.mark_offline(topic_partition)
    assert hosted.offline_count == 1
    assert hosted.remove(topic_partition) is None
    assert hosted.offline_count == 0


@pytest.mark.interpreted  # a subclass that overrides a property
def test_a_partition_is_removed_without_a_look_at_the_others(hosted: HostedPartitions) -> None:
    """Thousands are removed in one turn, beside tens of thousands that stay."""
    looks: list[TopicPartition] = []

    class Watched(Partition):
        @property
        def topic_id(self) -> UUID | None:
            looks.append(self.topic_partition)
            return KEPT

        @topic_id.setter
        def topic_id(self, topic_id: UUID | None) -> None:
            pass

    for index in range(5):
        other = Watched(TopicPartition("kept", index), 1, 1, (), lambda _: None, [])
        hosted.add(other)
        hosted.identify(other, KEPT)
    gone = host(hosted, "gone", 0, GONE)
    looks.clear()
    hosted.remove(gone.topic_partition)
    assert looks == []
