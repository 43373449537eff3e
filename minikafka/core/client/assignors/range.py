"""The range assignor: of each topic a member gets consecutive partitions (``RangeAssignor``)."""

from __future__ import annotations

from minikafka.core.client.assignors.model import (
    Assignor,
    PartitionCounts,
    Shares,
    Subscriptions,
    members_in_order,
    partitions_of,
)


def assign_range(counts: PartitionCounts, subscriptions: Subscriptions) -> Shares:
    """Assign consecutive partitions of each topic to its subscribers.

    If the partitions of a topic do not divide evenly, its first members get one more each. Topics
    with equal numbers of partitions and the same subscribers are therefore co-partitioned: a member
    gets the same partition numbers of each.
    """
    order = members_in_order(subscriptions)
    shares: Shares = {member: [] for member in order}
    topics = sorted({topic for wanted in subscriptions.values() for topic in wanted.topics})
    for topic in topics:
        partitions = partitions_of(topic, counts)
        members = [member for member in order if topic in subscriptions[member].topics]
        each, extra = divmod(len(partitions), len(members))
        for number, member in enumerate(members):
            start = each * number + min(number, extra)
            length = each + (1 if number < extra else 0)
            shares[member].extend(partitions[start : start + length])
    return shares


RANGE = Assignor("range", assign_range)
