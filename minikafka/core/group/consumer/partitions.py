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


def union(left: Partitions, right: Partitions) -> Partitions:
    """Return the partitions in either; ``left`` itself if ``right`` is empty."""
    if not right:
        return left
    return left | {topic: left.get(topic, frozenset()) | some for topic, some in right.items()}
