"""Sets of partitions by topic id, and the algebra of such sets."""

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

# Topic id to partitions, never an empty set. Treated as immutable: members and results share them.
Partitions: TypeAlias = dict[UUID, frozenset[int]]


def count(partitions: Partitions) -> int:
    """Return the number of partitions in all topics."""
    return sum(map(len, partitions.values()))


def of_topics(partitions: Partitions, topics: frozenset[UUID]) -> Partitions:
    """Return the partitions of ``topics``; ``partitions`` itself if it has no other topics."""
    # Two frozensets compare by the hashes that they store. UUID computes its hash in Python.
    if frozenset(partitions) <= topics:
        return partitions
    return {topic: some for topic, some in partitions.items() if topic in topics}


def intersection(left: Partitions, right: Partitions) -> Partitions:
    """Return the partitions in both; ``left`` itself if all of it is in ``right``."""
    both = {topic: some & right[topic] for topic, some in left.items() if topic in right}
    return left if both == left else {topic: some for topic, some in both.items() if some}


def difference(left: Partitions, right: Partitions) -> Partitions:
    """Return the partitions of ``left`` that are not in ``right``."""
    rest = {topic: some - right.get(topic, frozenset()) for topic, some in left.items()}
    return {topic: some for topic, some in rest.items() if some}


def union(left: Partitions, right: Partitions) -> Partitions:
    """Return the partitions in either; ``left`` itself if ``right`` is empty."""
    if not right:
        return left
    return left | {topic: left.get(topic, frozenset()) | some for topic, some in right.items()}


def overlap(left: Partitions, right: Partitions) -> bool:
    """Return whether a partition is in both."""
    return any(not some.isdisjoint(right.get(topic, ())) for topic, some in left.items())
