"""The round-robin assignor: members take turns over all partitions (``RoundRobinAssignor``)."""

from __future__ import annotations

from minikafka.core.client.assignors.model import (
    Assignor,
    PartitionCounts,
    Shares,
    Subscriptions,
    members_in_order,
    subscribed_partitions,
)


def assign_round_robin(counts: PartitionCounts, subscriptions: Subscriptions) -> Shares:
    """Assign all partitions of all topics to the members in turn.

    A member that is not subscribed to the topic is skipped. With equal subscriptions the numbers of
    partitions differ by at most one; with different subscriptions by any number.
    """
    order = members_in_order(subscriptions)
    shares: Shares = {member: [] for member in order}
    wanted = {member: frozenset(subscriptions[member].topics) for member in order}
    turn = 0
    for tp in subscribed_partitions(counts, subscriptions):
        while tp.topic not in wanted[order[turn % len(order)]]:
            turn += 1
        shares[order[turn % len(order)]].append(tp)
        turn += 1
    return shares


ROUND_ROBIN = Assignor("roundrobin", assign_round_robin)
