"""The order of a migration's steps, and where replicas move."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.client.cluster_view import PartitionView
from minikafka.core.migration.checks import findings, is_safe
from minikafka.core.migration.facts import BrokerFacts, ClusterFacts, Goal, Kind, Way
from minikafka.core.migration.steps import (
    Action,
    Step,
    expected_after,
    free_ids,
    next_step,
    plan,
    targets,
)
from minikafka.kernel.cluster import TopicPartition

KINDS = (Kind.KAFKA, Kind.MINIKAFKA)
SETTINGS = {"inter.broker.protocol.version": "3.9-IV0"}


def broker(broker_id: int, kind: Kind) -> BrokerFacts:
    return BrokerFacts(broker_id, kind, settings=SETTINGS)


@st.composite
def clusters(draw: st.DrawFn) -> ClusterFacts:
    """Clusters of both kinds, in which brokers may be away, behind, or have no replica."""
    ids = draw(st.lists(st.integers(1, 12), min_size=1, max_size=6, unique=True))
    brokers = {b: broker(b, draw(st.sampled_from(KINDS))) for b in ids}
    partitions = {}
    known = [*ids, 13] if draw(st.booleans()) else ids
    healthy = draw(st.integers(0, 3)) > 0
    for number in range(draw(st.integers(0, 5))):
        replicas = draw(st.lists(st.sampled_from(known), min_size=1, max_size=4, unique=True))
        some = st.lists(st.sampled_from(replicas), unique=True)
        isr = draw(st.permutations(replicas) if healthy else some)
        leader = draw(st.sampled_from(isr)) if isr else -1
        view = PartitionView(number, leader, 0, tuple(replicas), tuple(isr))
        partitions[TopicPartition("t", number)] = view
    moving = draw(st.integers(0, 3)) == 0
    return ClusterFacts(
        draw(st.sampled_from([*ids, -1])),
        brokers,
        partitions,
        {"t": {"min.insync.replicas": str(draw(st.integers(1, 3)))}},
        frozenset(partitions) if moving else frozenset(),
    )


GOALS = st.builds(Goal, st.sampled_from(KINDS), st.sampled_from(Way))


@given(clusters(), GOALS)
@pytest.mark.mission("MIX-31")
def test_every_plan_begins_with_the_next_step_and_ends_with_one_kind(
    facts: ClusterFacts, goal: Goal
) -> None:
    steps = plan(facts, goal)
    assert [*steps, Step(Action.DONE)][0] == next_step(facts, goal)
    for step in steps:
        facts = expected_after(facts, goal, step, free_ids(facts))
    assert next_step(facts, goal) == Step(Action.DONE)
    assert {b.kind for b in facts.brokers.values()} <= {goal.to}
    assert all(set(view.replicas) <= set(facts.brokers) for view in facts.partitions.values())


@given(clusters(), GOALS)
@pytest.mark.mission("MIX-31")
def test_each_old_broker_goes_once_and_the_controller_goes_last(
    facts: ClusterFacts, goal: Goal
) -> None:
    gone = [
        step.brokers[0]
        for step in plan(facts, goal)
        if step.action in (Action.REPLACE, Action.STOP)
    ]
    old = set(facts.old(goal))
    if goal.way is Way.ADD:  # what is started again is one of the old brokers
        old |= set(facts.away())
    assert sorted(gone) == sorted(old)
    if facts.controller in gone:
        assert gone[-1] == facts.controller


@settings(max_examples=400)
@given(clusters(), GOALS)
@pytest.mark.mission("MIX-32")
def test_a_safe_stop_leaves_every_partition_writable(facts: ClusterFacts, goal: Goal) -> None:
    step = next_step(facts, goal)
    if not is_safe(findings(facts, goal, step)):
        return
    assert facts.controller in facts.brokers
    if step.action in (Action.REPLACE, Action.STOP):
        (gone,) = step.brokers
        assert facts.brokers[gone].kind is not goal.to
        assert not facts.reassigning
        for tp, view in facts.partitions.items():
            assert set(view.isr) == set(view.replicas) <= set(facts.brokers)
            if gone in view.replicas:
                assert len(set(view.isr) - {gone}) >= facts.min_isr(tp.topic)
    if step.action is Action.STOP:
        assert not any(step.brokers[0] in view.replicas for view in facts.partitions.values())
    if step.action is Action.DONE:
        assert set(facts.of_kind(goal.to)) == set(facts.brokers)


@settings(max_examples=400)
@given(clusters(), st.sampled_from(KINDS))
@pytest.mark.mission("MIX-33")
def test_all_replicas_leave_the_old_brokers_and_none_is_lost(facts: ClusterFacts, to: Kind) -> None:
    goal = Goal(to, Way.ADD)
    added = {b: broker(b, to) for b in free_ids(facts)}
    facts = replace(facts, brokers={**added, **facts.brokers})
    old = set(facts.old(goal))
    found = targets(facts, goal)
    for tp, view in facts.partitions.items():
        if not old & set(view.replicas):
            assert tp not in found
            continue
        moved = found[tp]
        assert len(set(moved)) == len(moved) == len(view.replicas)
        assert not set(moved) & old
        for before, after in zip(view.replicas, moved, strict=True):
            assert before == after or before in old  # the others stay where they are


@pytest.mark.mission("MIX-33")
def test_each_old_broker_has_a_successor() -> None:
    """The new brokers lead and follow what the old ones did."""
    partitions = {
        TopicPartition("t", 0): PartitionView(0, 1, 0, (1, 2, 3), (1, 2, 3)),
        TopicPartition("t", 1): PartitionView(1, 2, 0, (2, 3, 1), (1, 2, 3)),
    }
    brokers = {b: broker(b, Kind.KAFKA) for b in (1, 2, 3)}
    brokers |= {b: broker(b, Kind.MINIKAFKA) for b in (7, 8, 9)}
    facts = ClusterFacts(1, brokers, partitions)
    assert list(targets(facts, Goal(Kind.MINIKAFKA, Way.ADD)).values()) == [(7, 8, 9), (8, 9, 7)]


@pytest.mark.mission("MIX-31")
def test_the_steps_of_both_ways() -> None:
    partitions = {TopicPartition("t", 0): PartitionView(0, 1, 0, (1, 2), (1, 2))}
    facts = ClusterFacts(1, {b: broker(b, Kind.KAFKA) for b in (1, 2)}, partitions)
    assert plan(facts, Goal(Kind.MINIKAFKA, Way.IN_PLACE)) == [
        Step(Action.REPLACE, (2,)),
        Step(Action.REPLACE, (1,)),
        Step(Action.ELECT),
    ]
    assert plan(facts, Goal(Kind.MINIKAFKA, Way.ADD)) == [
        Step(Action.ADD, (1, 2)),
        Step(Action.REASSIGN, (3, 4)),
        Step(Action.STOP, (2,)),
        Step(Action.STOP, (1,)),
    ]
    assert plan(facts, Goal(Kind.KAFKA, Way.IN_PLACE)) == []


def test_a_plan_with_too_few_new_brokers_ends() -> None:
    partitions = {TopicPartition("t", 0): PartitionView(0, 1, 0, (1, 2), (1, 2))}
    facts = ClusterFacts(1, {b: broker(b, Kind.KAFKA) for b in (1, 2)}, partitions)
    assert plan(facts, Goal(Kind.MINIKAFKA, Way.ADD), [3]) == [Step(Action.ADD, (1, 2))]
