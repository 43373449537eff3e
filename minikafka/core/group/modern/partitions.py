"""Set algebra of partitions by topic id, and of tasks by subtopology."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Protocol, TypeAlias, TypeVar
from uuid import UUID

# Topic id to partitions, never an empty set. Treated as immutable: members and results share them.
Partitions: TypeAlias = dict[UUID, frozenset[int]]
K = TypeVar("K", bound=Hashable)


def count(partitions: Partitions) -> int:
    """Return the number of partitions in all topics."""
    return sum(map(len, partitions.values()))


def of_topics(partitions: Partitions, topics: frozenset[UUID]) -> Partitions:
    """Return the partitions of ``topics``; ``partitions`` itself if it has no other topics."""
    # Two frozensets compare by the hashes that they store. UUID computes its hash in Python.
    if frozenset(partitions) <= topics:
        return partitions
    return {topic: some for topic, some in partitions.items() if topic in topics}


def intersection(
    left: dict[K, frozenset[int]], right: dict[K, frozenset[int]]
) -> dict[K, frozenset[int]]:
    """Return the partitions in both; ``left`` itself if all of it is in ``right``."""
    both = {topic: some & right[topic] for topic, some in left.items() if topic in right}
    return left if both == left else {topic: some for topic, some in both.items() if some}


def difference(
    left: dict[K, frozenset[int]], right: dict[K, frozenset[int]]
) -> dict[K, frozenset[int]]:
    """Return the partitions of ``left`` that are not in ``right``."""
    rest = {topic: some - right.get(topic, frozenset()) for topic, some in left.items()}
    return {topic: some for topic, some in rest.items() if some}


def union(left: dict[K, frozenset[int]], right: dict[K, frozenset[int]]) -> dict[K, frozenset[int]]:
    """Return the partitions in either; ``left`` itself if ``right`` is empty."""
    if not right:
        return left
    return left | {topic: left.get(topic, frozenset()) | some for topic, some in right.items()}


def overlap(left: dict[K, frozenset[int]], right: dict[K, frozenset[int]]) -> bool:
    """Return whether a partition is in both."""
    return any(not some.isdisjoint(right.get(topic, ())) for topic, some in left.items())


def rows_of(partitions: Partitions) -> list[tuple[UUID, list[int]]]:
    """Return topic ids with sorted partitions, the fields of rows in messages and records."""
    return [(topic_id, sorted(indices)) for topic_id, indices in partitions.items()]


class _Row(Protocol):
    """Partitions of a topic, in a request or in a record."""

    topic_id: UUID
    partitions: list[int]


def read_rows(rows: Iterable[_Row]) -> Partitions:
    """Return the partitions in rows of a message or a record."""
    return {row.topic_id: frozenset(row.partitions) for row in rows if row.partitions}
