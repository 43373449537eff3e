"""Pages of DescribeTopicPartitions."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.topic_pages import Page, TopicPage, page
from minikafka.kernel.cluster import TopicPartition

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
COUNTS = st.dictionaries(NAMES, st.integers(1, 5))


def pages(topics: Any, names: set[str], limit: int) -> list[Page]:
    """Request all pages, as a client does."""
    found = [page(topics, sorted(names), None, limit)]
    while (cursor := found[-1].cursor) is not None:
        rest = sorted(name for name in names if name >= cursor.topic)
        found.append(page(topics, rest, cursor, limit))
        assert len(found) < 100, "the pages have an end"
    return found


@given(COUNTS, st.sets(NAMES), st.integers(1, 7))
def test_pages_have_each_partition_once(
    counts: dict[str, int], names: set[str], limit: int
) -> None:
    topics = cast(Any, {name: dict.fromkeys(range(count)) for name, count in counts.items()})
    found = pages(topics, names, limit)
    partitions = [
        TopicPartition(row.name, index)
        for each in found
        for row in each.topics
        for index in row.partitions or ()
    ]
    assert partitions == [
        TopicPartition(name, index)
        for name in sorted(names)
        for index in range(counts.get(name, 0))
    ]
    missing = [row.name for each in found for row in each.topics if row.partitions is None]
    assert missing == sorted(names - counts.keys())
    for each in found:
        size = sum(len(row.partitions or ()) for row in each.topics)
        assert size == limit if each.cursor is not None else size <= limit


def test_a_cursor_beyond_the_last_partition_leaves_an_empty_topic() -> None:
    topics = cast(Any, {"a": {0: None}, "b": {0: None}})
    found = page(topics, ["a", "b"], TopicPartition("a", 7), 5)
    assert found == Page([TopicPage("a", []), TopicPage("b", [0])], None)


def test_the_partition_of_a_cursor_counts_for_its_topic_only() -> None:
    topics = cast(Any, {"b": {0: None, 1: None}})
    assert page(topics, ["b"], TopicPartition("a", 1), 5) == Page([TopicPage("b", [0, 1])], None)
