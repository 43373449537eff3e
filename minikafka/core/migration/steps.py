"""The steps of a migration: the next one, all of them, and where replicas move.

``next_step`` is the whole plan: it looks at the cluster as it is now, so a migration may be left
and continued at any point. ``plan`` repeats it on what each step is expected to lead to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum

from minikafka.core.client.cluster_view import PartitionView
from minikafka.core.migration.facts import BrokerFacts, ClusterFacts, Goal, Way
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.lazy_dataclass import dataclass


class Action(Enum):
    """What an operator does in one step."""

    REPLACE = "replace"  # stop a broker, start one of the target's kind in its place
    START = "start"  # start a broker that is away
    ADD = "add"  # start new brokers of the target's kind
    REASSIGN = "reassign"  # move all partitions from the old brokers to the new ones
    WAIT = "wait"  # until the reassignments under way are complete
    STOP = "stop"  # stop an old broker that has no replica any more
    ELECT = "elect"  # let the preferred replicas lead again
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Step:
    """``brokers`` are those that the action is about: one, except for ADD and REASSIGN. Of ADD they
    are the old brokers, each of which needs a new one."""

    action: Action
    brokers: tuple[int, ...] = ()


def next_step(facts: ClusterFacts, goal: Goal) -> Step:
    """Return the next step, safe or not: ``checks.findings`` says what is against it.

    The broker that is controller comes last: the cluster then elects a controller once, and of the
    target's kind.
    """
    away = facts.away()
    if away:
        return Step(Action.START, (away[0],))
    old = facts.old(goal)
    if old and goal.way is Way.IN_PLACE:
        return Step(Action.REPLACE, (old[0],))
    if old:
        return _next_with_new_brokers(facts, goal, old)
    if any(view.leader != preferred(view) for view in facts.partitions.values()):
        return Step(Action.ELECT)
    return Step(Action.DONE)


def preferred(view: PartitionView) -> int:
    """Return the preferred leader, which is the first replica."""
    return view.replicas[0] if view.replicas else view.leader


def _next_with_new_brokers(facts: ClusterFacts, goal: Goal, old: Sequence[int]) -> Step:
    if facts.reassigning:
        return Step(Action.WAIT)
    hosting = {broker for view in facts.partitions.values() for broker in view.replicas}
    new = facts.of_kind(goal.to)
    if not new or (hosting & set(old) and len(new) < largest_factor(facts)):
        return Step(Action.ADD, tuple(sorted(old)))
    if hosting & set(old):
        return Step(Action.REASSIGN, tuple(sorted(new)))
    return Step(Action.STOP, (old[0],))


def largest_factor(facts: ClusterFacts) -> int:
    """Return the number of replicas of the partition that has most."""
    return max((len(view.replicas) for view in facts.partitions.values()), default=1)


def targets(facts: ClusterFacts, goal: Goal) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the new replicas of every partition that has one on an old broker.

    Each old broker has a successor among the new ones, so the balance stays as it is. Where the
    successor has a replica already, the new broker with the fewest replicas gets it. There must be
    as many new brokers as the largest replication factor.
    """
    new = facts.of_kind(goal.to)
    old = sorted(facts.old(goal))
    successors = {broker: new[place % len(new)] for place, broker in enumerate(old)}
    load = dict.fromkeys(new, 0)
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for tp, view in sorted(facts.partitions.items()):
        if not set(view.replicas) & set(old):
            continue
        chosen: list[int] = []
        kept = {broker for broker in view.replicas if broker not in successors}
        for broker in view.replicas:
            target = successors.get(broker, broker)
            if target in chosen or (broker in successors and target in kept):
                free = [b for b in new if b not in kept and b not in chosen]
                target = min(free, key=lambda b: (load[b], b))
            chosen.append(target)
            load[target] = load.get(target, 0) + 1
        found[tp] = tuple(chosen)
    return found


def missing_bytes(
    facts: ClusterFacts, replicas: Mapping[TopicPartition, Sequence[int]], broker_id: int
) -> int:
    """Return the bytes that a broker has to fetch until it has its replicas among ``replicas``."""
    present = facts.brokers[broker_id].replica_bytes
    return sum(
        max(0, facts.size(tp) - present.get(tp, 0))
        for tp, brokers in replicas.items()
        if broker_id in brokers
    )


def plan(facts: ClusterFacts, goal: Goal, new_ids: Sequence[int] = ()) -> list[Step]:
    """Return all steps from now to the end, without DONE.

    ``new_ids`` are the ids that brokers to be added will have.
    """
    steps: list[Step] = []
    while (step := next_step(facts, goal)).action is not Action.DONE:
        if steps and steps[-1] == step:
            break  # new_ids are too few for the replication factor
        steps.append(step)
        facts = expected_after(facts, goal, step, new_ids or free_ids(facts))
    return steps


def free_ids(facts: ClusterFacts) -> list[int]:
    """Return ids for as many new brokers as there are now, above all present ones."""
    known = {*facts.brokers, *facts.away()}
    return [max(known, default=0) + 1 + place for place in range(len(known))]


def expected_after(
    facts: ClusterFacts, goal: Goal, step: Step, new_ids: Sequence[int]
) -> ClusterFacts:
    """Return the facts that a successful step leads to."""
    brokers = dict(facts.brokers)
    match step:
        case Step(Action.REPLACE | Action.START, (broker_id,)):
            # A broker that is away is the one being replaced, or an old one that has stopped.
            kind = goal.to if goal.way is Way.IN_PLACE else goal.source
            brokers[broker_id] = BrokerFacts(broker_id, kind)
            controller = facts.controller
            if controller == broker_id:
                controller = next((b for b in sorted(brokers) if b != broker_id), broker_id)
            leaders = _led_without(facts.partitions, broker_id)
            return replace(facts, brokers=brokers, partitions=leaders, controller=controller)
        case Step(Action.ADD):
            brokers |= {number: BrokerFacts(number, goal.to) for number in new_ids}
            return replace(facts, brokers=brokers)
        case Step(Action.REASSIGN):
            moved = dict(facts.partitions)
            for tp, replicas in targets(facts, goal).items():
                moved[tp] = moved[tp]._replace(leader=replicas[0], replicas=replicas, isr=replicas)
            return replace(facts, partitions=moved)
        case Step(Action.STOP, (broker_id,)):
            del brokers[broker_id]
            left = broker_id != facts.controller
            return replace(
                facts, brokers=brokers, controller=facts.controller if left else min(brokers)
            )
        case Step(Action.ELECT):
            led = {
                tp: view._replace(leader=preferred(view)) for tp, view in facts.partitions.items()
            }
            return replace(facts, partitions=led)
        case _:
            return replace(facts, reassigning=frozenset())


def _led_without(
    partitions: Mapping[TopicPartition, PartitionView], broker_id: int
) -> dict[TopicPartition, PartitionView]:
    """Return the partitions after a restart of a broker: others lead what it led."""
    after = {}
    for tp, view in partitions.items():
        others = [b for b in view.replicas if b != broker_id]
        leader = others[0] if view.leader in (broker_id, -1) and others else view.leader
        after[tp] = view._replace(leader=leader if leader != -1 else broker_id, isr=view.replicas)
    return after
