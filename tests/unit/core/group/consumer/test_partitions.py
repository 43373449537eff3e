"""The algebra of partitions by topic, compared with sets of pairs."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.group.modern.partitions import (
    Partitions,
    count,
    difference,
    intersection,
    of_topics,
    overlap,
    union,
)
from tests.support.coordinator.subscriptions import topic

topics = st.integers(0, 3).map(topic)
some_partitions = st.dictionaries(topics, st.frozensets(st.integers(0, 4), min_size=1))


def pairs(partitions: Partitions) -> set[tuple[UUID, int]]:
    assert all(partitions.values()), "no topic is empty"
    return {(topic_id, p) for topic_id, some in partitions.items() for p in some}


@given(some_partitions, some_partitions)
def test_they_are_sets_of_pairs(left: Partitions, right: Partitions) -> None:
    assert count(left) == len(pairs(left))
    assert pairs(intersection(left, right)) == pairs(left) & pairs(right)
    assert pairs(difference(left, right)) == pairs(left) - pairs(right)
    assert pairs(union(left, right)) == pairs(left) | pairs(right)
    assert overlap(left, right) == (not pairs(left).isdisjoint(pairs(right)))


@given(some_partitions, st.frozensets(topics))
def test_those_of_some_topics(partitions: Partitions, wanted: frozenset[UUID]) -> None:
    found = of_topics(partitions, wanted)
    assert pairs(found) == {pair for pair in pairs(partitions) if pair[0] in wanted}
    assert found is partitions or found != partitions


@given(some_partitions, some_partitions)
def test_what_is_unchanged_is_the_same_object(left: Partitions, right: Partitions) -> None:
    both = union(left, right)
    assert intersection(left, both) is left
    assert union(left, {}) is left
