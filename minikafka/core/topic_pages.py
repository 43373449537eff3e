"""Pages of DescribeTopicPartitions: which partitions one response describes (KIP-966)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from minikafka.core.metadata_image import Partitions
from minikafka.kernel.cluster import TopicPartition


class TopicPage(NamedTuple):
    """The partitions of one topic that a page has, ascending; None if the topic does not exist."""

    name: str
    partitions: Sequence[int] | None


class Page(NamedTuple):
    """The topics of a page, and the cursor of the next one; None after the last page."""

    topics: list[TopicPage]
    cursor: TopicPartition | None


def page(
    topics: Mapping[str, Partitions],
    names: Iterable[str],
    cursor: TopicPartition | None,
    limit: int,
) -> Page:
    """Return the next ``limit`` partitions (at least 1) of these topics, which must be sorted and
    not before the topic of ``cursor``. The next cursor may name a topic that does not exist."""
    found: list[TopicPage] = []
    for name in names:
        if limit == 0:
            return Page(found, TopicPartition(name, 0))
        partitions = topics.get(name)
        if partitions is None:
            found.append(TopicPage(name, None))
            continue
        first = cursor.partition if cursor is not None and cursor.topic == name else 0
        rest = [index for index in sorted(partitions) if index >= first]
        found.append(TopicPage(name, rest[:limit]))
        if len(rest) > limit:
            return Page(found, TopicPartition(name, rest[limit]))
        limit -= len(rest)
    return Page(found, None)
