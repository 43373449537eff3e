"""The types of assignors: subscriptions in, partitions of each member out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from minikafka.core.client.offsets import NO_GENERATION
from minikafka.kernel.cluster import TopicPartition

# Every member is a key, also one that gets nothing.
Shares: TypeAlias = dict[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member wants. ``owned`` is what it holds as of ``generation`` (cooperative members
    say so; eager ones have given all back, and may remember it in ``user_data``)."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    user_data: bytes | None = None
    group_instance_id: str | None = None
    rack_id: str | None = None


Subscriptions: TypeAlias = Mapping[str, Subscription]  # by member id
PartitionCounts: TypeAlias = Mapping[str, int]  # by topic; a topic that is not there has no entry


@dataclass(frozen=True, slots=True)
class Assignor:
    """A strategy under the name that members agree on.

    ``cooperative``: members keep what they own while they join, and partitions move in two rounds.
    ``user_data(assigned, generation)`` is what a member sends along when it joins again;
    ``assigned`` is None before its first assignment.
    """

    name: str
    assign: Callable[[PartitionCounts, Subscriptions], Shares]
    cooperative: bool = False
    user_data: Callable[[Iterable[TopicPartition] | None, int], bytes | None] = (
        lambda assigned, generation: None
    )


def members_in_order(subscriptions: Subscriptions) -> list[str]:
    """Static members first, by their instance ids, which outlive member ids; then the others.
    Kafka: ``AbstractPartitionAssignor.MemberInfo``."""

    def rank(member: str) -> tuple[bool, str]:
        instance = subscriptions[member].group_instance_id
        return (instance is None, member if instance is None else instance)

    return sorted(subscriptions, key=rank)


def partitions_of(topic: str, counts: PartitionCounts) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(counts.get(topic, 0))]


def subscribed_partitions(
    counts: PartitionCounts, subscriptions: Subscriptions
) -> list[TopicPartition]:
    """Every partition that somebody wants, sorted by topic, then number."""
    topics = {topic for wanted in subscriptions.values() for topic in wanted.topics}
    return [tp for topic in sorted(topics) for tp in partitions_of(topic, counts)]
