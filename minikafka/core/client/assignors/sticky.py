"""The sticky assignors: as balanced as possible, then with as few moves as possible.

Kafka: ``StickyAssignor``, ``CooperativeStickyAssignor`` and their base class.
"""

from __future__ import annotations

from heapq import heapify, heapreplace

from minikafka.core.client.assignors.claims import (
    Claims,
    cooperative_user_data,
    remembered_by_ownership,
    remembered_by_user_data,
    settle_claims,
    sticky_user_data,
)
from minikafka.core.client.assignors.model import (
    Assignor,
    PartitionCounts,
    Shares,
    Subscriptions,
    subscribed_partitions,
)
from minikafka.core.client.assignors.sticky_general import GeneralAssignment


def assign_sticky(counts: PartitionCounts, subscriptions: Subscriptions) -> Shares:
    """Assign partitions to eager members, which report their previous assignment in user data."""
    claims = settle_claims(remembered_by_user_data(subscriptions), counts)
    return _assign(counts, subscriptions, claims)


def assign_cooperative_sticky(counts: PartitionCounts, subscriptions: Subscriptions) -> Shares:
    """Assign partitions to cooperative members, which keep the partitions that they own (KIP-429).

    A partition that moves is left out of this assignment, because its owner has to revoke it first.
    After the revocation the member joins again, and the next rebalance assigns the partition.
    """
    claims = settle_claims(remembered_by_ownership(subscriptions), counts)
    return {
        member: [
            tp
            for tp in share
            if tp not in claims.disputed and claims.owner.get(tp, member) == member
        ]
        for member, share in _assign(counts, subscriptions, claims).items()
    }


def _assign(counts: PartitionCounts, subscriptions: Subscriptions, claims: Claims) -> Shares:
    if len({frozenset(wanted.topics) for wanted in subscriptions.values()}) <= 1:
        return assign_equals(counts, subscriptions, claims)
    return GeneralAssignment(counts, subscriptions, claims).build()


def assign_equals(counts: PartitionCounts, subscriptions: Subscriptions, claims: Claims) -> Shares:
    """Assign partitions to members with equal subscriptions, without a search.

    The number of partitions of each member is known beforehand: each keeps previous partitions up
    to that number, and the others go to the member with the fewest partitions.

    Kafka's ``ConstrainedAssignmentBuilder`` assigns the others in turn. Assigning to the member
    with the fewest gives the same numbers, and is what Kafka did before 2.5.
    """
    members = sorted(subscriptions)
    if not members:
        return {}
    partitions = subscribed_partitions(counts, subscriptions)
    quota, ones_more = divmod(len(partitions), len(members))
    wanted = set(partitions)
    owned = claims.owned_by()
    shares: Shares = {}
    for member in members:
        had = [tp for tp in owned.get(member, ()) if tp in wanted]
        had.sort(key=lambda tp: (tp.partition, tp.topic))
        keeps = quota
        if len(had) > quota and ones_more > 0:
            ones_more -= 1
            keeps += 1
        shares[member] = had[:keeps]
    kept = {tp for share in shares.values() for tp in share}
    loads = [(len(share), member) for member, share in shares.items()]
    heapify(loads)
    for tp in partitions:
        if tp not in kept:
            load, member = loads[0]
            shares[member].append(tp)
            heapreplace(loads, (load + 1, member))
    return shares


STICKY = Assignor("sticky", assign_sticky, user_data=sticky_user_data)
COOPERATIVE_STICKY = Assignor(
    "cooperative-sticky",
    assign_cooperative_sticky,
    cooperative=True,
    user_data=cooperative_user_data,
)
