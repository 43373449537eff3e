"""Sticky: as balanced as can be, then with as few moves as can be (``StickyAssignor``)."""

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
    """Members gave everything back before they joined, and remember it in their user data."""
    claims = settle_claims(remembered_by_user_data(subscriptions), counts)
    return _assign(counts, subscriptions, claims)


def assign_cooperative_sticky(counts: PartitionCounts, subscriptions: Subscriptions) -> Shares:
    """Members go on with what they own, so nobody is given what another has to give up first: it is
    left out of this round, and the round after the revocation places it (KIP-429)."""
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
    """When all want the same, everybody's count is known beforehand: first each keeps what it may
    of what it had, then the rest goes to whoever has fewest. No search is needed.

    Kafka: ``ConstrainedAssignmentBuilder``, which deals the rest out in turn; fewest first comes to
    the same counts, and is what it did before 2.5.
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
