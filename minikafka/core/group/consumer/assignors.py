"""The server-side assignors of consumer groups: ``uniform`` and ``range`` (KIP-848).

They compute the target assignment of a group from the subscriptions of its members and their
previous targets:

- ``uniform`` (Kafka's ``UniformAssignor``): all members get the same number of partitions, give or
  take one, and keep what they have as far as that allows. If subscriptions differ, the subscribers
  of each topic are balanced as far as moves of its partitions can do that.
- ``range`` (Kafka's ``RangeAssignor``): each topic is cut into contiguous ranges, one for each
  subscriber, in the order of members. Topics with the same number of partitions and the same
  subscribers are cut alike.

Racks have no effect. The interface of Kafka 4's server-side assignors offers the racks of members
and partitions, and neither of these two reads them.

The order of the mappings has no effect, either. Results share objects with the arguments: nobody
may change an assignment in place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappop, heapreplace, merge
from operator import attrgetter
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from minikafka.core.group.modern.partitions import Partitions, count, of_topics, union


class Subscriber(NamedTuple):
    """A member as an assignor sees it (Kafka's ``MemberSubscription`` and ``MemberAssignment``).

    ``topics`` are the ids of the topics that it subscribes to. ``target`` is its previous target
    assignment; the targets of two members have no partition in common. ``instance`` is the
    ``group.instance.id`` of a static member.
    """

    topics: frozenset[UUID]
    rack: str | None
    target: Partitions
    instance: str | None = None


# From the members by id, and the partition count of each existing topic, to the members' targets.
Assign: TypeAlias = Callable[[Mapping[str, Subscriber], Mapping[UUID, int]], dict[str, Partitions]]

# Partitions of one topic, in descending order, so that the first ones can be taken off the end.
_Run: TypeAlias = tuple[UUID, list[int]]


def assign_uniform(
    members: Mapping[str, Subscriber], topics: Mapping[UUID, int]
) -> dict[str, Partitions]:
    """Return the target of each member: balanced first, then with few moves.

    ``topics`` has the partition count of each existing topic; other subscribed topics are ignored.
    A member whose target stays gets its old object again.
    """
    if not members:
        return {}
    if len({subscriber.topics for subscriber in members.values()}) == 1:
        return _assign_alike(members, topics)
    assignment = _MixedAssignment(members, topics)
    assignment.assign_free_partitions()
    assignment.balance()
    return assignment.result()


def assign_range(
    members: Mapping[str, Subscriber], topics: Mapping[UUID, int]
) -> dict[str, Partitions]:
    """Return the target of each member: a contiguous range of each topic that it subscribes to.

    Static members come first, by instance id, then the others by member id. The first subscribers
    of a topic get one partition more if the partitions do not divide evenly. ``topics`` has the
    partition count of each existing topic; other subscribed topics are ignored. A member whose
    target stays gets its old object again.
    """
    order = sorted(members, key=lambda member: _range_key(member, members[member]))
    new: dict[str, Partitions] = {member: {} for member in order}
    for topic, subscribers in _subscribers(order, members, topics).items():
        size, larger = divmod(topics[topic], len(subscribers))
        start = 0
        for position, member in enumerate(subscribers[: topics[topic]]):
            end = start + size + (position < larger)
            new[member][topic] = frozenset(range(start, end))
            start = end
    return {member: _reused(members[member].target, target) for member, target in new.items()}


# The assignors by their names in heartbeats. The first is the default of a group.
ASSIGNORS: Final[Mapping[str, Assign]] = MappingProxyType(
    {"uniform": assign_uniform, "range": assign_range}
)


def _range_key(member: str, subscriber: Subscriber) -> tuple[bool, str]:
    return (subscriber.instance is None, subscriber.instance or member)


def _subscribers(
    order: list[str], members: Mapping[str, Subscriber], topics: Mapping[UUID, int]
) -> dict[UUID, list[str]]:
    """Return the subscribers of each existing topic that has some, in the given order.

    Members usually have few different subscriptions: the lists are made from these, and topics with
    the same subscribers share one.
    """
    existing = frozenset(topics)
    ranks: dict[frozenset[UUID], list[int]] = {}
    for rank, member in enumerate(order):
        ranks.setdefault(members[member].topics, []).append(rank)
    subscriptions: dict[UUID, list[frozenset[UUID]]] = {}
    for subscription in ranks:
        for topic in subscription & existing:
            subscriptions.setdefault(topic, []).append(subscription)
    lists: dict[tuple[frozenset[UUID], ...], list[str]] = {}
    for some in map(tuple, subscriptions.values()):
        if some not in lists:
            lists[some] = [order[rank] for rank in merge(*(ranks[one] for one in some))]
    return {topic: lists[tuple(some)] for topic, some in subscriptions.items()}


def _reused(old: Partitions, new: Partitions) -> Partitions:
    return old if old == new else new


def _unassigned(assigned: Iterable[Partitions], counts: Mapping[UUID, int]) -> Iterator[_Run]:
    """Yield the partitions of the topics in ``counts`` that nobody has, in ascending order."""
    held: dict[UUID, list[frozenset[int]]] = {topic: [] for topic in counts}
    for partitions in assigned:
        for topic, some in partitions.items():
            held[topic].append(some)
    for topic in sorted(held, key=attrgetter("int")):
        free = frozenset(range(counts[topic])).difference(*held[topic])
        if free:
            yield topic, sorted(free, reverse=True)


def _cut(partitions: Partitions, size: int, rest: deque[_Run]) -> Partitions:
    """Return the first ``size`` partitions, in ascending order, and append the others to
    ``rest``."""
    kept: dict[UUID, frozenset[int]] = {}
    for topic in sorted(partitions, key=attrgetter("int")):
        some = partitions[topic]
        if len(some) > size:
            order = sorted(some, reverse=True)
            rest.append((topic, order[: len(some) - size]))
            some = frozenset(order[len(some) - size :])
        if some:
            kept[topic] = some
        size -= len(some)
    return kept


def _take(free: deque[_Run], size: int) -> Partitions:
    """Remove and return the first ``size`` partitions."""
    taken: dict[UUID, frozenset[int]] = {}
    while size:
        topic, some = free[0]
        taken[topic] = taken.get(topic, frozenset()).union(some[-size:])
        left = max(len(some) - size, 0)
        size -= len(some) - left
        del some[left:]
        if not some:
            free.popleft()
    return taken


# -- uniform, all members subscribe to the same topics


def _assign_alike(
    members: Mapping[str, Subscriber], topics: Mapping[UUID, int]
) -> dict[str, Partitions]:
    """Give every member its quota with as few moves as possible.

    Kafka's ``UniformHomogeneousAssignmentBuilder``, with the members in the order of their ids.
    Members below their quota receive first the partitions that nobody has, then those that others
    give up. Of members at their quota only the sizes of the sets are read.
    """
    order = sorted(members)
    wanted = members[order[0]].topics & frozenset(topics)
    counts = {topic: topics[topic] for topic in wanted}
    result = {member: of_topics(members[member].target, wanted) for member in order}
    sizes = {member: count(target) for member, target in result.items()}
    total = sum(counts.values())
    quotas = _quotas(sizes, total)

    free: deque[_Run] = deque()
    if sum(sizes.values()) < total:
        free.extend(_unassigned(result.values(), counts))
    for member, quota in quotas.items():
        if sizes[member] > quota:
            result[member] = _cut(result[member], quota, free)
    for member, quota in quotas.items():
        if sizes[member] < quota:
            result[member] = union(result[member], _take(free, quota - sizes[member]))
    assert not free, "the quotas add up to all partitions"
    return result


def _quotas(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Return how many of ``total`` partitions each member shall have, by what it has already.

    If they do not divide evenly, the first members that already have more than the smaller share
    get the larger one, and if these are too few, the last of the others do.
    """
    share, larger = divmod(total, len(sizes))
    above = [member for member, size in sizes.items() if size > share]
    others = [member for member, size in sizes.items() if size <= share]
    rest = max(larger - len(above), 0)
    extra = {*above[:larger], *others[len(others) - rest :]}
    return {member: share + (member in extra) for member in sizes}


# -- uniform, subscriptions differ

# As in Kafka: each round is expected to halve the imbalance.
_MAX_ROUNDS: Final = 16


class _MixedAssignment:
    """An assignment to members with different subscriptions, while it is being balanced.

    Kafka's ``UniformHeterogeneousAssignmentBuilder``. It starts with the old targets, without the
    topics that their members no longer subscribe to. It treats one topic at a time, those with the
    most partitions for each subscriber first, since these have the least choice.
    """

    def __init__(self, members: Mapping[str, Subscriber], topics: Mapping[UUID, int]) -> None:
        order = sorted(members)
        self._members = members
        self._subscribers = _subscribers(order, members, topics)
        self._counts = {topic: topics[topic] for topic in self._subscribers}
        # Topic id to member to the partitions that it has.
        self._owned: dict[UUID, dict[str, frozenset[int]]] = {topic: {} for topic in self._counts}
        self._sizes = dict.fromkeys(order, 0)
        existing = frozenset(topics)
        for member in order:
            kept = of_topics(members[member].target, members[member].topics & existing)
            self._sizes[member] = count(kept)
            for topic, some in kept.items():
                self._owned[topic][member] = some

    def assign_free_partitions(self) -> None:
        """Give each partition that nobody has to the subscriber with the fewest partitions."""
        for topic in self._topics_in_order():
            owned = self._owned[topic]
            free = frozenset(range(self._counts[topic])).difference(*owned.values())
            if free:
                least = self._by_size(topic)
                gained: dict[str, list[int]] = {}
                for partition in sorted(free):
                    gained.setdefault(_grow_least(least), []).append(partition)
                self._apply(topic, gained, {})

    def balance(self) -> None:
        """Move partitions between the subscribers of each topic until no move helps.

        Afterwards no member that has partitions of a topic has two more than another subscriber of
        that topic, counting those of all topics. Only the limit of 16 rounds over all topics can
        prevent that. Kafka may choose others among members of equal size.
        """
        topics = self._topics_in_order()
        for _ in range(_MAX_ROUNDS):
            if not sum(map(self._balance_topic, topics)):
                return

    def result(self) -> dict[str, Partitions]:
        new: dict[str, Partitions] = {member: {} for member in self._sizes}
        for topic, owned in self._owned.items():
            for member, some in owned.items():
                new[member][topic] = some
        return {m: _reused(self._members[m].target, target) for m, target in new.items()}

    def _topics_in_order(self) -> list[UUID]:
        def key(topic: UUID) -> tuple[float, int, int]:
            subscribers = len(self._subscribers[topic])
            return (-self._counts[topic] / subscribers, subscribers, topic.int)

        return sorted(self._counts, key=key)

    def _by_size(self, topic: UUID) -> list[_Load]:
        """Return the subscribers of the topic in ascending order of their sizes, a valid heap."""
        order = sorted(self._subscribers[topic], key=self._sizes.__getitem__)
        return [(self._sizes[member], rank, member) for rank, member in enumerate(order)]

    def _balance_topic(self, topic: UUID) -> bool:
        """Move partitions of the topic from the largest to the smallest of its subscribers.

        Return whether one was moved. No member both gives and receives: the sizes of the givers
        stay above those of the receivers until the last move.
        """
        sizes = [self._sizes[member] for member in self._subscribers[topic]]
        if max(sizes) - min(sizes) <= 1:
            return False
        least = self._by_size(topic)
        owned = self._owned[topic]
        most = [(-size, -rank, member) for size, rank, member in reversed(least) if member in owned]
        gained: dict[str, list[int]] = {}
        left: dict[str, list[int]] = {}
        while most and -most[0][0] - least[0][0] > 1:
            size, rank, giver = most[0]
            if giver not in left:
                left[giver] = sorted(owned[giver])
            partition = left[giver].pop()
            if left[giver]:
                heapreplace(most, (size + 1, rank, giver))
            else:
                heappop(most)
            gained.setdefault(_grow_least(least), []).append(partition)
        self._apply(topic, gained, left)
        return bool(gained)

    def _apply(
        self, topic: UUID, gained: Mapping[str, list[int]], left: Mapping[str, list[int]]
    ) -> None:
        """Set what the givers have ``left`` of the topic, and add what others ``gained``."""
        owned = self._owned[topic]
        for member, partitions in left.items():
            self._sizes[member] += len(partitions) - len(owned[member])
            owned[member] = frozenset(partitions)
            if not partitions:
                del owned[member]
        for member, partitions in gained.items():
            self._sizes[member] += len(partitions)
            owned[member] = owned.get(member, frozenset()).union(partitions)


# The number of partitions of a member, its rank among equals, its id.
_Load: TypeAlias = tuple[int, int, str]


def _grow_least(least: list[_Load]) -> str:
    """Return the member at the top of the heap, which is to receive one partition, and count it."""
    size, rank, member = least[0]
    heapreplace(least, (size + 1, rank, member))
    return member
