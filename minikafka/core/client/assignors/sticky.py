"""The sticky assignors: as balanced as possible, then with as few moves as possible.

Kafka: ``StickyAssignor``, ``CooperativeStickyAssignor`` and their base class.

Members that subscribe to different topics need the general algorithm (``GeneralAssignment``).
The previous owners of partitions are computed from the ownership that members report.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from heapq import heapify, heapreplace

from minikafka.core.client.assignors.model import (
    Assignor,
    PartitionCounts,
    Shares,
    Subscriptions,
    partitions_of,
    subscribed_partitions,
)
from minikafka.core.client.offsets import NO_GENERATION
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.buffer import DecodeError
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.messages.consumer_protocol import ConsumerTopicPartitions
from minikafka.protocol.messages.sticky_user_data import CooperativeStickyUserData, StickyUserData


@dataclass(frozen=True, slots=True)
class Memory:
    """The partitions that one member reports as its own, and the generation of that assignment."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION


@dataclass(slots=True)
class Claims:
    """The owners of partitions before this rebalance.

    ``owner`` maps a partition to the member whose claim is valid. ``disputed`` are the partitions
    that two members claim in the same, highest generation. ``previous`` maps a partition to the
    member with the second highest claim.
    """

    owner: dict[TopicPartition, str] = field(default_factory=dict)
    disputed: set[TopicPartition] = field(default_factory=set)
    previous: dict[TopicPartition, str] = field(default_factory=dict)

    def owned_by(self) -> dict[str, list[TopicPartition]]:
        return grouped((member, tp) for tp, member in sorted(self.owner.items()))


def settle_claims(memories: Mapping[str, Memory], counts: PartitionCounts) -> Claims:
    """Decide who owned each partition that still exists.

    Of several claims the one with the highest generation is valid. If two members claim a partition
    in the same highest generation, neither owns it (KAFKA-12984).
    """
    claimed = grouped(
        (tp, (memory.generation, member))
        for member, memory in sorted(memories.items())
        for tp in memory.partitions
        if tp.partition < counts.get(tp.topic, 0)
    )
    claims = Claims()
    for tp, found in claimed.items():
        found.sort(key=lambda claim: -claim[0])
        if len(found) > 1 and found[0][0] == found[1][0]:
            claims.disputed.add(tp)
            continue
        claims.owner[tp] = found[0][1]
        if len(found) > 1:
            claims.previous[tp] = found[1][1]
    return claims


# ------------------------------------------------------------------------- what members remember


def sticky_user_data(assigned: Iterable[TopicPartition] | None, generation: int) -> bytes | None:
    """Encode the user data of Kafka's ``StickyAssignor``: the assignment and its generation.

    None if the member has had no assignment yet.
    """
    if assigned is None:
        return None
    rows = [ConsumerTopicPartitions(*of_topic) for of_topic in grouped(sorted(assigned)).items()]
    return encode(StickyUserData(rows, generation), 1)


def cooperative_user_data(assigned: Iterable[TopicPartition] | None, generation: int) -> bytes:
    """Encode the user data of Kafka's ``CooperativeStickyAssignor``: the generation only.

    Unlike ``sticky_user_data`` it is sent with the first JoinGroup too.
    """
    return encode(CooperativeStickyUserData(generation), 0)


def remembered_by_user_data(subscriptions: Subscriptions) -> dict[str, Memory]:
    """Return the previous assignment of each eager member, from the user data of its subscription.

    User data that are missing or cannot be decoded count as no previous assignment.
    """
    return {
        member: Memory() if not wanted.user_data else _read(wanted.user_data)
        for member, wanted in subscriptions.items()
    }


def _read(user_data: bytes) -> Memory:
    for version in (1, 0):
        try:
            found = decode(StickyUserData, version, user_data)
        except DecodeError:
            continue
        partitions = tuple(
            TopicPartition(row.topic, number)
            for row in found.previous_assignment
            for number in row.partitions
        )
        return Memory(partitions, found.generation)
    return Memory()


def remembered_by_ownership(subscriptions: Subscriptions) -> dict[str, Memory]:
    """Return the owned partitions of each cooperative member, from its subscription.

    The generation is that of the subscription (version 2 and later), otherwise that of the user
    data.
    """
    memories: dict[str, Memory] = {}
    for member, wanted in subscriptions.items():
        generation = wanted.generation
        if generation == NO_GENERATION and wanted.user_data:
            try:
                generation = decode(CooperativeStickyUserData, 0, wanted.user_data).generation
            except DecodeError:
                generation = NO_GENERATION
        memories[member] = Memory(wanted.owned, generation)
    return memories


class PartitionMovements:
    """Net movements from member to member, by topic.

    Partitions of one topic are interchangeable: where one moved from A to B, another one need not
    move from B to A; the first one moves back instead. Kafka: ``PartitionMovements``.
    """

    def __init__(self) -> None:
        self._moved: dict[TopicPartition, tuple[str, str]] = {}  # from its first owner to the last
        self._by_way: dict[tuple[str, str, str], dict[TopicPartition, None]] = {}

    def best_to_move(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition to move from ``source`` to ``target`` instead of ``partition``, or
        it.

        If another partition of the topic has moved from ``target`` to the first owner of
        ``partition``, moving that one back avoids that the two partitions change places. The first
        owner is ``source`` unless ``partition`` has moved before. Kafka:
        ``getTheActualPartitionToBeMoved``.
        """
        first_owner, _ = self._moved.get(partition, (source, target))
        came = self._by_way.get((partition.topic, target, first_owner))
        return next(iter(came)) if came else partition

    def record(self, partition: TopicPartition, source: str, target: str) -> None:
        """Record that ``partition`` moves. Moves of one partition are merged; a return home deletes
        them."""
        earlier = self._moved.pop(partition, None)
        if earlier is not None:
            assert earlier[1] == source, "a partition moves on from where it is"
            way = (partition.topic, *earlier)
            del self._by_way[way][partition]
            if not self._by_way[way]:
                del self._by_way[way]
            source = earlier[0]
            if source == target:
                return
        self._moved[partition] = (source, target)
        self._by_way.setdefault((partition.topic, source, target), {})[partition] = None

    @property
    def is_sticky(self) -> bool:
        """Whether no two partitions of a topic have changed places between two members."""
        return not any((topic, b, a) in self._by_way for topic, a, b in self._by_way)


class _ByLoad:
    """Members ordered by the number of their partitions, then by member id.

    Kafka: ``sortedCurrentSubscriptions`` with its ``SubscriptionComparator``.
    """

    def __init__(self, shares: Shares) -> None:
        self._rows = sorted((len(share), member) for member, share in shares.items())

    @property
    def spread(self) -> int:
        return self._rows[-1][0] - self._rows[0][0]

    def members(self) -> list[str]:
        return [member for _, member in self._rows]

    def change(self, member: str, before: int, after: int) -> None:
        del self._rows[bisect_left(self._rows, (before, member))]
        insort(self._rows, (after, member))

    def lightest(self, among: frozenset[str]) -> str:
        return next(member for _, member in self._rows if member in among)


class GeneralAssignment:
    """One assignment for members with different subscriptions; call ``build`` once.

    The structures have Kafka's names in snake case: ``current_assignment`` (partitions by member),
    ``current_partition_consumer`` (member by partition), ``topic_to_all_potential_consumers`` and
    ``consumer_to_all_potential_partitions`` (the subscriptions), ``partition_movements``.
    """

    def __init__(
        self, counts: PartitionCounts, subscriptions: Subscriptions, claims: Claims
    ) -> None:
        self._claims = claims
        self.partition_movements = PartitionMovements()
        self.topic_to_all_potential_consumers: dict[str, frozenset[str]] = {
            topic: frozenset(m for m, wanted in subscriptions.items() if topic in wanted.topics)
            for topic in sorted({t for wanted in subscriptions.values() for t in wanted.topics})
        }
        self.consumer_to_all_potential_partitions = {
            member: [tp for topic in sorted(set(w.topics)) for tp in partitions_of(topic, counts)]
            for member, w in sorted(subscriptions.items())
        }
        owned = claims.owned_by()
        # What is gone, or no longer subscribed to, is dropped here.
        self.current_assignment: Shares = {
            member: [tp for tp in owned.get(member, ()) if tp.topic in subscriptions[member].topics]
            for member in sorted(subscriptions)
        }
        self.current_partition_consumer = {
            tp: member for member, share in self.current_assignment.items() for tp in share
        }
        self.is_fresh = not self.current_partition_consumer
        self._everything = subscribed_partitions(counts, subscriptions)
        self._by_load = _ByLoad(self.current_assignment)

    def build(self) -> Shares:
        order = self.sort_partitions()
        unassigned = [tp for tp in order if tp not in self.current_partition_consumer]
        self._balance(order, unassigned)
        return self.current_assignment

    # -- the order in which partitions are looked at

    def sort_partitions(self) -> list[TopicPartition]:
        """Return the partitions in the order in which they are placed.

        Partitions with the fewest potential consumers, which are the hardest to place, come first.
        If all topics have the same subscribers and there is a previous assignment, the order takes
        one partition at a time from the member that has the most left.
        """
        if self.is_fresh or not self._all_want_the_same():
            potential = self.topic_to_all_potential_consumers
            return sorted(self._everything, key=lambda tp: (len(potential[tp.topic]), tp))
        rest = {member: list(share) for member, share in self.current_assignment.items()}
        by_load = _ByLoad(rest)
        order: list[TopicPartition] = []
        while any(rest.values()):
            member = by_load.members()[-1]
            order.append(rest[member].pop(0))
            by_load.change(member, len(rest[member]) + 1, len(rest[member]))
        return order + [tp for tp in self._everything if tp not in self.current_partition_consumer]

    def _all_want_the_same(self) -> bool:
        return len(set(self.topic_to_all_potential_consumers.values())) <= 1

    # -- balance

    def _balance(
        self, order: Sequence[TopicPartition], unassigned: Sequence[TopicPartition]
    ) -> None:
        for tp in unassigned:
            self._give(tp, self._by_load.lightest(self.topic_to_all_potential_consumers[tp.topic]))
        movable = [tp for tp in order if len(self.topic_to_all_potential_consumers[tp.topic]) > 1]
        new = set(unassigned)
        self._reassign([tp for tp in movable if tp in new])  # rather than those that somebody has
        self._reassign(movable)

    def _reassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Move partitions until no member has two more than another one that could take one of
        them.

        Every move makes the loads more equal, or leaves them as equal and undoes an earlier move.
        Therefore the loop ends, and the result is at least as balanced as before: Kafka's
        comparison of balance scores is not needed.
        """
        again = True
        while again:
            again = False
            for tp in partitions:
                if self._by_load.spread <= 1:
                    break
                source = self.current_partition_consumer[tp]
                target = self._better_for(tp, source)
                if target is not None:
                    self._move(self._best_to_move(tp, source, target), target)
                    again = True

    def _best_to_move(self, tp: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition to move to ``target``: ``tp``, or one whose move back replaces it.

        The replacement is used only if its owner has more partitions than ``target``. Kafka does
        not check this, after which its loop need not end.
        """
        best = self.partition_movements.best_to_move(tp, source, target)
        owner = self.current_partition_consumer[best]
        more_loaded = len(self.current_assignment[owner]) > len(self.current_assignment[target])
        return best if more_loaded else tp

    def _better_for(self, tp: TopicPartition, source: str) -> str | None:
        """Return the member to which ``tp`` should move from ``source``, or None to leave it there.

        The owner in the generation before is preferred, then the potential consumer with the fewest
        partitions. The target must have at least two partitions fewer than ``source``.
        """
        load = len(self.current_assignment[source])
        potential = self.topic_to_all_potential_consumers[tp.topic]
        former = self._claims.previous.get(tp)
        lightest = self._by_load.lightest(potential)
        for target in (former, lightest):
            if target is None or target not in potential:
                continue
            if load > len(self.current_assignment[target]) + 1:
                return target
        return None

    def _give(self, tp: TopicPartition, member: str) -> None:
        share = self.current_assignment[member]
        share.append(tp)
        self.current_partition_consumer[tp] = member
        self._by_load.change(member, len(share) - 1, len(share))

    def _move(self, tp: TopicPartition, target: str) -> None:
        source = self.current_partition_consumer[tp]
        self.partition_movements.record(tp, source, target)
        share = self.current_assignment[source]
        share.remove(tp)
        self._by_load.change(source, len(share) + 1, len(share))
        self._give(tp, target)


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
