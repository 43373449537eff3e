"""Group (key, value) pairs by key, as Kafka's messages group partitions by topic."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Collect the values of each key. Keys and values keep the order in which they first appear.

    A ``TopicPartition`` is such a pair: ``grouped(partitions)`` maps each topic to its partition
    numbers. A message with a row for each topic is built from the result::

        [TopicRow(name, rows) for name, rows in grouped(...).items()]
    """
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        group = groups.get(key)
        if group is None:
            groups[key] = [value]
        else:
            group.append(value)
    return groups
