"""Numbers of the topics that are not described to a page."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.client.cluster_view import ClusterView, PartitionView, TopicView
from minikafka.kernel.cluster import TopicPartition
from minikafka.page.dashboard.beyond import MAX_NAMES, MAX_SICK, Beyond, beyond_facts

REPLICAS = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True)


@st.composite
def partition_views(draw: st.DrawFn) -> PartitionView:
    replicas = tuple(draw(REPLICAS))
    isr = tuple(draw(st.lists(st.sampled_from(replicas), unique=True)))
    leader = draw(st.sampled_from([-1, *isr[:1]]))
    return PartitionView(0, leader, 3, replicas, isr)


TOPICS = st.dictionaries(
    st.sampled_from([f"t{n}" for n in range(30)]),
    st.lists(partition_views(), max_size=4).map(lambda rows: dict(enumerate(rows))),
)


@pytest.mark.mission("GLASS-141")
@given(TOPICS, st.sets(st.sampled_from([f"t{n}" for n in range(30)])))
def test_every_partition_is_counted_once(
    rows: dict[str, dict[int, PartitionView]], wanted: set[str]
) -> None:
    topics = {name: TopicView(name, partitions=partitions) for name, partitions in rows.items()}
    described = wanted & topics.keys()
    moving = {TopicPartition(name, 0) for name in topics if name.endswith("3")}
    found = beyond_facts(topics, described, moving)
    if described == topics.keys():
        assert found is None
        return
    assert found is not None
    others = [
        (TopicPartition(name, number), partition)
        for name in topics.keys() - described
        for number, partition in rows[name].items()
    ]
    assert found["partitions"] == len(others)
    leaderless = [tp for tp, partition in others if partition.leader < 0]
    under = [
        tp
        for tp, partition in others
        if partition.leader >= 0 and set(partition.isr) != set(partition.replicas)
    ]
    sums: Counter[str] = Counter()
    for row in found["sick"]:
        sums[row["what"]] += row["count"]
        assert len(row["partitions"]) == min(row["count"], MAX_NAMES)
    assert sums["leaderless"] + found["more_leaderless"] == len(leaderless)
    expected = len(set(under) - moving)
    assert sums["under_replicated"] + found["more_under_replicated"] == expected
    for id, held in found["brokers"].items():
        assert held["replicas"] == sum(int(id) in each.replicas for _, each in others)
        assert held["leads"] == sum(int(id) == each.leader for _, each in others)


@pytest.mark.mission("GLASS-141")
def test_kinds_of_sickness_are_bounded_and_the_most_frequent_are_shown() -> None:
    rows = {n: PartitionView(n, -1, 0, (n, n + 1), (n,)) for n in range(MAX_SICK + 20)}
    many = {n: PartitionView(n, 1, 0, (1, 2, 3), (1, 3)) for n in range(500)}
    topics = {"few": TopicView("few", partitions=rows), "many": TopicView("many", partitions=many)}
    found = beyond_facts(topics, (), ())
    assert found is not None
    assert len(found["sick"]) == MAX_SICK
    assert found["sick"][0]["count"] == 500
    assert found["sick"][0]["brokers"] == [2]
    assert len(found["sick"][0]["partitions"]) == MAX_NAMES
    assert (found["more_leaderless"], found["more_under_replicated"]) == (21, 0)


def test_an_unchanged_view_is_not_counted_again() -> None:
    topics = {"t": TopicView("t", partitions={0: PartitionView(0, 1, 0, (1,), (1,))})}
    beyond, view = Beyond(), ClusterView(topics=topics)
    found = beyond.facts(view, frozenset(), frozenset())
    assert found is not None
    assert beyond.facts(view, frozenset(), frozenset()) is found
    assert beyond.facts(view, frozenset({"t"}), frozenset()) is None
