"""The waits of CreateTopics and DeleteTopics for the metadata cache."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.server.broker.admin.topics import (
    DelayedCreatePartitions,
    DelayedDeleteTopics,
    DelayedTopics,
)

COUNT = 300
PARTITIONS = 3
TOPICS = [f"t{number}" for number in range(COUNT)]


class Leader:
    has_leader = True


class CountedCache:
    """Topics whose partitions have leaders; counts what is looked up."""

    def __init__(self, topics: Iterable[str] = ()) -> None:
        self.topics = set(topics)
        self.lookups = 0

    def partition(self, topic_partition: TopicPartition) -> Leader | None:
        self.lookups += 1
        return Leader() if topic_partition.topic in self.topics else None

    def contains_topic(self, topic: str) -> bool:
        self.lookups += 1
        return topic in self.topics


def creation(cache: CountedCache) -> DelayedTopics:
    return DelayedCreatePartitions(1_000, dict.fromkeys(TOPICS, PARTITIONS), cast(Any, cache))


@pytest.mark.mission("SAFE-74")
@pytest.mark.parametrize("changed", [TOPICS, TOPICS[::-1]], ids=["in order", "reversed"])
async def test_a_creation_looks_at_each_partition_a_few_times(changed: list[str]) -> None:
    cache = CountedCache()
    operation = creation(cache)
    for topic in changed:
        assert not operation.is_completed
        cache.topics.add(topic)
        operation.try_complete()
    assert operation.ended.result() == []
    assert cache.lookups <= 5 * COUNT * PARTITIONS


@pytest.mark.mission("SAFE-74")
@pytest.mark.parametrize("changed", [TOPICS, TOPICS[::-1]], ids=["in order", "reversed"])
async def test_a_deletion_looks_at_each_topic_a_few_times(changed: list[str]) -> None:
    cache = CountedCache(TOPICS)
    operation = DelayedDeleteTopics(1_000, TOPICS, cast(Any, cache))
    for topic in changed:
        assert not operation.is_completed
        cache.topics.discard(topic)
        operation.try_complete()
    assert operation.ended.result() == []
    assert cache.lookups <= 5 * COUNT


async def test_a_topic_that_was_seen_and_is_missing_again_is_waited_for() -> None:
    cache = CountedCache(TOPICS[1:])
    operation = creation(cache)
    assert not operation.try_complete()
    cache.topics.discard(TOPICS[-1])
    cache.topics.add(TOPICS[0])
    assert not operation.try_complete()
    cache.topics.add(TOPICS[-1])
    assert operation.try_complete()
    assert operation.ended.result() == []


async def test_after_the_time_out_the_missing_topics_are_named() -> None:
    cache = CountedCache(TOPICS)
    cache.topics -= {TOPICS[0], TOPICS[7]}
    operation = creation(cache)
    assert not operation.try_complete()
    assert operation.expire()
    assert operation.ended.result() == [TOPICS[0], TOPICS[7]]
