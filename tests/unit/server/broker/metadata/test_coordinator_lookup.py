"""A coordinator is found by the partition count of its topic, not by that of the metadata."""

from __future__ import annotations

from typing import Any, cast

from minikafka.core.coordinator_shard import partition_for
from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, CoordinatorType, TopicPartition
from minikafka.kernel.ports import SessionExpired
from minikafka.server.broker.metadata.coordinators import (
    NOT_AVAILABLE,
    CoordinatorLookup,
    InternalTopicSizes,
)
from minikafka.server.zookeeper.requests import MalformedZnode
from tests.support.broker.cluster_metadata import cache_with, partition_state, update

GROUP = CoordinatorType.GROUP
GROUPS = [f"g{i}" for i in range(40)]


class Clock:
    """Sleeps end immediately; ``slept`` counts them."""

    slept = 0

    async def sleep(self, delay_ms: int) -> None:
        self.slept += 1


class Lab:
    def __init__(self, configured: int) -> None:
        self.cache = cache_with()
        self.assigned: list[int | Exception | None] = []  # what ZooKeeper says, in turn
        self.clock = Clock()
        self.sizes = InternalTopicSizes(
            {GROUP_METADATA_TOPIC: configured},
            self.cache.contains_topic,
            self._read,
            cast(Any, self.clock),
        )
        self.lookup = CoordinatorLookup(self.cache, {GROUP: GROUP_METADATA_TOPIC}, self.sizes)

    async def _read(self, topic: str) -> int | None:
        found = self.assigned.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def tell(self, *partitions: int) -> None:
        """The controller sends UpdateMetadata for these partitions."""
        await self.sizes.learn([GROUP_METADATA_TOPIC])
        states = [partition_state(index, 1) for index in partitions]
        self.cache.update(update({GROUP_METADATA_TOPIC: states}))

    def found(self, group: str) -> bool:
        return self.lookup.find(GROUP, group, "PLAINTEXT") != NOT_AVAILABLE


async def test_group_has_no_coordinator_before_the_metadata_of_its_partition() -> None:
    lab = Lab(configured=50)
    lab.assigned = [50]
    await lab.tell(*range(30))
    for group in GROUPS:
        assert lab.found(group) == (partition_for(group, 50) < 30)
    await lab.tell(*range(30, 50))
    assert all(lab.found(group) for group in GROUPS)


async def test_a_topic_made_by_hand_has_the_size_it_has() -> None:
    lab = Lab(configured=50)
    assert not lab.found("g")
    assert lab.lookup.missing_topic(GROUP) == GROUP_METADATA_TOPIC
    assert lab.lookup.partition_count(GROUP) == 50
    lab.assigned = [3]
    await lab.tell(0, 1, 2)
    assert lab.lookup.missing_topic(GROUP) is None
    assert lab.lookup.partition_count(GROUP) == 3
    assert all(lab.found(group) for group in GROUPS)


async def test_partitions_added_later_move_no_group() -> None:
    lab = Lab(configured=50)
    lab.assigned = [3]
    await lab.tell(0, 1, 2)
    await lab.tell(3, 4, 5)
    assert lab.lookup.partition_count(GROUP) == 3


async def test_a_recreated_topic_has_its_partitions_counted_again() -> None:
    lab = Lab(configured=50)
    lab.assigned = [3]
    await lab.tell(0, 1, 2)
    gone = [partition_state(index, -2) for index in range(3)]
    lab.cache.update(update({GROUP_METADATA_TOPIC: gone}))
    assert not lab.cache.contains(TopicPartition(GROUP_METADATA_TOPIC, 0))
    lab.assigned = [5]
    await lab.tell(*range(5))
    assert lab.lookup.partition_count(GROUP) == 5


async def test_zookeeper_is_waited_for() -> None:
    lab = Lab(configured=50)
    lab.assigned = [SessionExpired(), SessionExpired(), 4]
    await lab.tell(0)
    assert lab.lookup.partition_count(GROUP) == 4
    assert lab.clock.slept == 2


async def test_a_topic_missing_or_malformed_in_zookeeper_has_the_configured_partition_count() -> (
    None
):
    lab = Lab(configured=50)
    lab.assigned = [None]
    await lab.sizes.learn([GROUP_METADATA_TOPIC, "t"])
    lab.assigned = [MalformedZnode("/brokers/topics/__consumer_offsets", b"{", "no JSON")]
    await lab.sizes.learn([GROUP_METADATA_TOPIC])
    assert lab.lookup.partition_count(GROUP) == 50
    await lab.sizes.learn(["t"])


async def test_coordinator_of_a_deleted_topic_uses_the_configured_partition_count() -> None:
    lab = Lab(configured=50)
    lab.assigned = [4, None]
    for size in (4, 50):
        await lab.sizes.learn([GROUP_METADATA_TOPIC])
        assert lab.lookup.partition_count(GROUP) == size
