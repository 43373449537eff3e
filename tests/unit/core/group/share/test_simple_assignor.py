"""The assignor of share groups against what KIP-932 promises of it."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.group.modern.partitions import Partitions, count
from minikafka.core.group.share.assignor import assign_simple

TOPICS = [UUID(int=number) for number in range(1, 4)]
ASSIGNABLE = st.fixed_dictionaries(
    {}, optional={t: st.frozensets(st.integers(0, 6), min_size=1) for t in TOPICS}
)
MEMBERS = st.lists(st.sampled_from("abcdefg"), min_size=1, unique=True)


def holders(result: dict[str, Partitions]) -> Counter[tuple[UUID, int]]:
    return Counter((t, n) for target in result.values() for t, some in target.items() for n in some)


@pytest.mark.mission("SHR-1")
@given(MEMBERS, ASSIGNABLE)
def test_all_partitions_are_shared_out_evenly(members: list[str], assignable: Partitions) -> None:
    result = assign_simple({member: frozenset(TOPICS) for member in members}, {}, assignable)
    total = count(assignable)
    sharing = -(-len(members) // total) if total else 0
    assert holders(result).keys() == {(t, n) for t, some in assignable.items() for n in some}
    assert max(holders(result).values(), default=0) <= sharing
    sizes = [count(target) for target in result.values()]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.mission("SHR-1")
@given(MEMBERS, ASSIGNABLE)
def test_a_second_assignment_moves_nothing(members: list[str], assignable: Partitions) -> None:
    subscriptions = {member: frozenset(TOPICS) for member in members}
    first = assign_simple(subscriptions, {}, assignable)
    assert assign_simple(subscriptions, first, assignable) == first


@pytest.mark.mission("SHR-1")
@given(
    st.dictionaries(st.sampled_from("abcdefg"), st.frozensets(st.sampled_from(TOPICS)), min_size=1),
    st.dictionaries(st.sampled_from("abcdefgh"), ASSIGNABLE),
    ASSIGNABLE,
)
def test_members_get_their_topics_alone(
    subscriptions: dict[str, frozenset[UUID]],
    targets: dict[str, Partitions],
    assignable: Partitions,
) -> None:
    result = assign_simple(subscriptions, targets, assignable)
    assert result.keys() == subscriptions.keys()
    wanted = {topic for topics in subscriptions.values() for topic in topics}
    found = holders(result)
    for member, target in result.items():
        assert target.keys() <= subscriptions[member]
        assert all(some <= assignable[topic] for topic, some in target.items())
    for topic in wanted:
        subscribers = sum(topic in topics for topics in subscriptions.values())
        for number in assignable.get(topic, ()):
            assert 0 < found[topic, number] <= subscribers


def test_a_member_that_joins_takes_half() -> None:
    both = {"a": frozenset(TOPICS[:1]), "b": frozenset(TOPICS[:1])}
    everything = {TOPICS[0]: frozenset(range(4))}
    result = assign_simple(both, {"a": everything}, everything)
    assert result == {
        "a": {TOPICS[0]: frozenset({0, 1})},
        "b": {TOPICS[0]: frozenset({2, 3})},
    }


def test_a_partition_with_more_members_than_partitions_is_shared() -> None:
    three = dict.fromkeys("abc", frozenset(TOPICS[:1]))
    one = {TOPICS[0]: frozenset({0})}
    assert assign_simple(three, {}, one) == dict.fromkeys("abc", one)
