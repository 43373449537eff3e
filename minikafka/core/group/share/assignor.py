"""The assignor of share groups: several members may get one partition (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, TypeAlias
from uuid import UUID

from minikafka.core.group.modern.partitions import Partitions

ASSIGNOR_NAME: Final = "simple"

_TopicPartition: TypeAlias = tuple[UUID, int]


def assign_simple(
    subscriptions: Mapping[str, frozenset[UUID]],
    targets: Mapping[str, Partitions],
    assignable: Partitions,
) -> dict[str, Partitions]:
    """Return the target of each member: balanced first, then with few moves.

    ``subscriptions`` has the topics of each member, ``targets`` the former targets. If all members
    have the same topics, the ``assignable`` partitions of these are shared out at once, otherwise
    those of each topic among its subscribers. Kafka: ``SimpleAssignor``.
    """
    members = sorted(subscriptions)
    found: dict[str, set[_TopicPartition]] = {member: set() for member in members}
    if len(set(subscriptions.values())) == 1:
        topics = subscriptions[members[0]]
        partitions = [p for topic in _in_order(topics) for p in _of_topic(topic, assignable)]
        _share_out(partitions, members, targets, found)
    else:
        for topic in _in_order(frozenset().union(*subscriptions.values())):
            subscribers = [member for member in members if topic in subscriptions[member]]
            _share_out(_of_topic(topic, assignable), subscribers, targets, found)
    return {member: _by_topic(partitions) for member, partitions in found.items()}


def _in_order(topics: frozenset[UUID]) -> list[UUID]:
    return sorted(topics, key=attrgetter("int"))


def _of_topic(topic: UUID, assignable: Partitions) -> list[_TopicPartition]:
    return [(topic, partition) for partition in sorted(assignable.get(topic, ()))]


def _pairs(target: Partitions) -> Iterator[_TopicPartition]:
    for topic in _in_order(frozenset(target)):
        for number in sorted(target[topic]):
            yield topic, number


def _share_out(
    partitions: Sequence[_TopicPartition],
    members: Sequence[str],
    targets: Mapping[str, Partitions],
    found: dict[str, set[_TopicPartition]],
) -> None:
    """Give each partition to ``sharing`` members, and each member its quota. Members keep what they
    have if neither has too many."""
    if not partitions:
        return
    sharing = -(-len(members) // len(partitions))
    quotas = _quotas(members, sharing * len(partitions))
    holders: dict[_TopicPartition, set[str]] = {partition: set() for partition in partitions}
    taken = dict.fromkeys(members, 0)
    for member in members:
        for partition in _pairs(targets.get(member, {})):
            if taken[member] == quotas[member]:
                break
            some = holders.get(partition)
            if some is not None and len(some) < sharing:
                some.add(member)
                taken[member] += 1
    _fill_up(holders, sharing, quotas, taken)
    for partition, some in holders.items():
        for member in some:
            found[member].add(partition)


def _quotas(members: Sequence[str], total: int) -> dict[str, int]:
    """Return how many of ``total`` assignments each member gets. They differ by at most one."""
    count = len(members)
    ends = [-(-total * (index + 1) // count) for index in range(count)]
    return {m: end - start for m, start, end in zip(members, [0, *ends], ends, strict=False)}


def _fill_up(
    holders: dict[_TopicPartition, set[str]],
    sharing: int,
    quotas: Mapping[str, int],
    taken: dict[str, int],
) -> None:
    """Give partitions that too few members have to members below their quota, in turn. A partition
    stays with fewer if all of these have it already, as in Kafka."""
    unfilled = [member for member in quotas if taken[member] < quotas[member]]
    turn = 0
    for some in holders.values():
        passed = 0
        while len(some) < sharing and unfilled and passed < len(unfilled):
            turn %= len(unfilled)
            member = unfilled[turn]
            if member in some:
                turn, passed = turn + 1, passed + 1
                continue
            some.add(member)
            taken[member] += 1
            passed = 0
            if taken[member] == quotas[member]:
                del unfilled[turn]
            else:
                turn += 1


def _by_topic(partitions: set[_TopicPartition]) -> Partitions:
    found: dict[UUID, set[int]] = {}
    for topic, number in sorted(partitions, key=lambda one: (one[0].int, one[1])):
        found.setdefault(topic, set()).add(number)
    return {topic: frozenset(numbers) for topic, numbers in found.items()}
