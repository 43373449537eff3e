"""The assignor ``uniform``: balance, few moves (a slow twin counts them), and a fixed order."""

from __future__ import annotations

from itertools import combinations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.group.consumer.assignors import assign_uniform
from minikafka.core.group.modern.partitions import Partitions, count
from tests.support.coordinator.subscriptions import (
    Subscriptions,
    check_complete,
    groups_alike,
    mixed_groups,
)


def kept(old: Partitions, new: Partitions) -> int:
    return sum(len(some & new.get(topic_id, frozenset())) for topic_id, some in old.items())


def most_kept(group: Subscriptions) -> int:
    """The most partitions that can stay, over all choices of the members that get one more."""
    wanted = {t for subscriber in group.members.values() for t in subscriber.topics} & {
        *group.topics
    }
    held = [
        sum(len(some) for t, some in subscriber.target.items() if t in wanted)
        for subscriber in group.members.values()
    ]
    quota, larger = divmod(sum(group.topics[t] for t in wanted), len(held))
    return max(
        sum(min(size, quota + (i in chosen)) for i, size in enumerate(held))
        for chosen in combinations(range(len(held)), larger)
    )


@given(groups_alike() | mixed_groups())
def test_each_partition_has_one_subscribed_member(group: Subscriptions) -> None:
    check_complete(group, assign_uniform(group.members, group.topics))


@given(groups_alike())
def test_members_that_subscribe_alike_differ_by_one_at_most(group: Subscriptions) -> None:
    sizes = [count(target) for target in assign_uniform(group.members, group.topics).values()]
    assert max(sizes) - min(sizes) <= 1


@given(groups_alike())
def test_no_balanced_assignment_keeps_more(group: Subscriptions) -> None:
    result = assign_uniform(group.members, group.topics)
    stayed = sum(kept(group.members[member].target, result[member]) for member in result)
    assert stayed == most_kept(group)


@given(mixed_groups())
def test_no_move_within_a_topic_would_improve_the_balance(group: Subscriptions) -> None:
    result = assign_uniform(group.members, group.topics)
    for topic_id in group.topics:
        subscribers = [
            m for m, subscriber in group.members.items() if topic_id in subscriber.topics
        ]
        smallest = min((count(result[member]) for member in subscribers), default=0)
        for member in subscribers:
            assert topic_id not in result[member] or count(result[member]) - smallest <= 1


@given(groups_alike() | mixed_groups())
def test_a_balanced_assignment_stays_with_its_objects(group: Subscriptions) -> None:
    result = assign_uniform(group.members, group.topics)
    again = assign_uniform(group.with_targets(result).members, group.topics)
    assert all(again[member] is target for member, target in result.items())


@given(groups_alike() | mixed_groups())
def test_an_unchanged_target_is_the_old_object(group: Subscriptions) -> None:
    for member, target in assign_uniform(group.members, group.topics).items():
        old = group.members[member].target
        assert target is old or target != old


@given(groups_alike() | mixed_groups(), st.randoms(use_true_random=False))
def test_the_order_of_members_and_topics_has_no_effect(
    group: Subscriptions, random: Random
) -> None:
    members, topics = list(group.members.items()), list(group.topics.items())
    random.shuffle(members)
    random.shuffle(topics)
    shuffled = {
        member: subscriber._replace(
            topics=frozenset(random.sample(sorted(subscriber.topics), len(subscriber.topics))),
            target=dict(reversed(subscriber.target.items())),
        )
        for member, subscriber in members
    }
    assert assign_uniform(shuffled, dict(topics)) == assign_uniform(group.members, group.topics)
