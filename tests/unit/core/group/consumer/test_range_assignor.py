"""The assignor ``range``: contiguous ranges in the order of members, alike for like topics."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.group.consumer.assignors import Subscriber, assign_range
from tests.support.coordinator.subscriptions import (
    Subscriptions,
    check_complete,
    groups_alike,
    mixed_groups,
    topic,
)


@given(groups_alike() | mixed_groups())
def test_each_partition_has_one_subscribed_member(group: Subscriptions) -> None:
    check_complete(group, assign_range(group.members, group.topics))


@given(groups_alike() | mixed_groups())
def test_static_members_and_then_member_ids_cut_each_topic(group: Subscriptions) -> None:
    result = assign_range(group.members, group.topics)
    static = {s.instance: m for m, s in group.members.items() if s.instance is not None}
    order = [static[instance] for instance in sorted(static)]
    order += sorted(m for m, s in group.members.items() if s.instance is None)
    for topic_id, size in group.topics.items():
        subscribers = [m for m in order if topic_id in group.members[m].topics]
        ranges = [sorted(result[member].get(topic_id, ())) for member in subscribers]
        if ranges:
            assert [partition for some in ranges for partition in some] == list(range(size))
            sizes = [len(some) for some in ranges]
            assert sizes == sorted(sizes, reverse=True)
            assert sizes[0] - sizes[-1] <= 1


@given(groups_alike() | mixed_groups())
def test_like_topics_are_cut_alike(group: Subscriptions) -> None:
    """Like topics have the same number of partitions and the same subscribers."""
    result = assign_range(group.members, group.topics)
    for one, size in group.topics.items():
        for other in group.topics:
            subscribers = [
                [m for m, s in group.members.items() if topic_id in s.topics]
                for topic_id in (one, other)
            ]
            if subscribers[0] == subscribers[1] and size == group.topics[other]:
                for member in subscribers[0]:
                    assert result[member].get(one) == result[member].get(other)


@given(groups_alike() | mixed_groups())
def test_an_unchanged_range_is_the_old_object(group: Subscriptions) -> None:
    result = assign_range(group.members, group.topics)
    again = assign_range(group.with_targets(result).members, group.topics)
    assert all(again[member] is target for member, target in result.items())


@given(groups_alike() | mixed_groups(), st.randoms(use_true_random=False))
def test_the_order_of_members_and_topics_has_no_effect(
    group: Subscriptions, random: Random
) -> None:
    members, topics = list(group.members.items()), list(group.topics.items())
    random.shuffle(members)
    random.shuffle(topics)
    assert assign_range(dict(members), dict(topics)) == assign_range(group.members, group.topics)


def test_a_static_member_with_a_new_id_keeps_its_range() -> None:
    def member(instance: str) -> Subscriber:
        return Subscriber(frozenset({topic(0)}), None, {}, instance)

    before = assign_range({"m0": member("i0"), "m1": member("i1")}, {topic(0): 3})
    after = assign_range({"m3": member("i0"), "m2": member("i1")}, {topic(0): 3})
    assert after == {"m3": before["m0"], "m2": before["m1"]}
