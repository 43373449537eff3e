"""The types of assignors: they take subscriptions and return the partitions of each member."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from minikafka.core.client.offsets import NO_GENERATION
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.lazy_dataclass import dataclass

# Every member is a key, also one that gets nothing.
Shares: TypeAlias = dict[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscription of one member (Kafka: ``ConsumerPartitionAssignor.Subscription``).

    A cooperative member lists the partitions that it still owns in ``owned``, as of ``generation``.
    An eager member has revoked all its partitions before it joins; the sticky assignor keeps its
    previous assignment in ``user_data``.
    """

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
    """A partition assignor under the protocol name on which the members of a group agree.

    ``cooperative`` members keep their partitions while they join, and a partition moves between
    members in two rebalances. ``user_data(assigned, generation)`` returns the user data of the
    member's next subscription; ``assigned`` is None before its first assignment.
    """

    name: str
    assign: Callable[[PartitionCounts, Subscriptions], Shares]
    cooperative: bool = False
    user_data: Callable[[Iterable[TopicPartition] | None, int], bytes | None] = (
        lambda assigned, generation: None
    )


def members_in_order(subscriptions: Subscriptions) -> list[str]:
    """Return member ids in the order of assignment: static members first, then dynamic ones.

    Static members are ordered by instance id, which stays the same when the member id changes.
    Kafka: ``AbstractPartitionAssignor.MemberInfo``.
    """

    def rank(member: str) -> tuple[bool, str]:
        instance = subscriptions[member].group_instance_id
        return (instance is None, member if instance is None else instance)

    return sorted(subscriptions, key=rank)


def partitions_of(topic: str, counts: PartitionCounts) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(counts.get(topic, 0))]


def subscribed_partitions(
    counts: PartitionCounts, subscriptions: Subscriptions
) -> list[TopicPartition]:
    """Return every partition with at least one subscriber, sorted by topic, then number."""
    topics = {topic for wanted in subscriptions.values() for topic in wanted.topics}
    return [tp for topic in sorted(topics) for tp in partitions_of(topic, counts)]
