"""Range: topic by topic, each member gets a run of neighbouring partitions (``RangeAssignor``)."""

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
    """The first members of a topic get one more where it does not divide. Several topics with
    equal counts therefore line up: the same member has the same numbers of each."""
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
