"""Sticky assignors against brute force: balance, stickiness, termination, no partition twice."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.client.assignors.catalogue import ASSIGNORS
from minikafka.core.client.assignors.model import (
    Assignor,
    PartitionCounts,
    Shares,
    Subscription,
    Subscriptions,
)
from minikafka.core.client.assignors.sticky import (
    Claims,
    GeneralAssignment,
    Memory,
    PartitionMovements,
    assign_cooperative_sticky,
    assign_equals,
    assign_sticky,
    remembered_by_user_data,
    settle_claims,
    sticky_user_data,
)
from minikafka.kernel.cluster import TopicPartition

MEMBERS = ["a", "b", "c", "d", "e"]
TOPICS = ["t", "u", "v"]

counts_of_topics = st.fixed_dictionaries(dict.fromkeys(TOPICS, st.integers(0, 5)))
some_topics = st.lists(st.sampled_from(TOPICS), unique=True, max_size=3).map(tuple)
memberships = st.dictionaries(st.sampled_from(MEMBERS), some_topics, min_size=1)


def wanting(topics: dict[str, tuple[str, ...]]) -> dict[str, Subscription]:
    return {member: Subscription(names) for member, names in topics.items()}


def remembering(wanted: Subscriptions, held: Shares, generation: int = 1) -> Subscriptions:
    return {
        member: Subscription(each.topics, user_data=sticky_user_data(held.get(member), generation))
        for member, each in wanted.items()
    }


def check_valid(counts: PartitionCounts, wanted: Subscriptions, shares: Shares) -> None:
    """Each subscribed partition is assigned to exactly one subscribed member."""
    assert set(shares) == set(wanted)
    given_out = [tp for share in shares.values() for tp in share]
    assert len(given_out) == len(set(given_out))
    asked = {topic for each in wanted.values() for topic in each.topics}
    assert set(given_out) == {TopicPartition(t, n) for t in asked for n in range(counts[t])}
    for member, share in shares.items():
        assert all(tp.topic in wanted[member].topics for tp in share)


def check_balanced(wanted: Subscriptions, shares: Shares) -> None:
    """No member could take a partition from one that has two more."""
    for rich, poor in product(shares, shares):
        if len(shares[rich]) > len(shares[poor]) + 1:
            assert not any(tp.topic in wanted[poor].topics for tp in shares[rich])


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=list(ASSIGNORS))
@given(counts=counts_of_topics, topics=memberships)
@settings(max_examples=60, deadline=None)
def test_every_partition_is_assigned_to_one_subscribed_member(
    assignor: Assignor, counts: dict[str, int], topics: dict[str, tuple[str, ...]]
) -> None:
    wanted = wanting(topics)
    check_valid(counts, wanted, assignor.assign(counts, wanted))


@pytest.mark.mission("ASG-5")
@settings(deadline=None)
@given(counts=counts_of_topics, members=st.sets(st.sampled_from(MEMBERS), min_size=1))
def test_round_robin_among_equals_differs_by_one(counts: dict[str, int], members: set[str]) -> None:
    wanted = {member: Subscription(tuple(TOPICS)) for member in members}
    loads = [len(s) for s in ASSIGNORS["roundrobin"].assign(counts, wanted).values()]
    assert max(loads) - min(loads) <= 1


@pytest.mark.mission("ASG-6")
@pytest.mark.mission("ASG-12")
@given(
    counts=counts_of_topics,
    history=st.lists(memberships, min_size=2, max_size=4),
    generations=st.lists(st.integers(1, 2), min_size=5, max_size=5),
)
@settings(max_examples=150, deadline=None)
def test_sticky_is_balanced_whatever_was_before(
    counts: dict[str, int], history: list[dict[str, tuple[str, ...]]], generations: list[int]
) -> None:
    """Members come, go and change their minds; some remember an older generation."""
    held: Shares = {}
    for step, topics in enumerate(history):
        wanted = dict(wanting(topics))
        for number, member in enumerate(sorted(wanted)):
            data = sticky_user_data(held.get(member), generations[number] + step)
            wanted[member] = Subscription(wanted[member].topics, user_data=data)
        shares = assign_sticky(counts, wanted)
        check_valid(counts, wanted, shares)
        check_balanced(wanted, shares)
        held |= shares


@pytest.mark.mission("ASG-6")
@settings(deadline=None)
@given(counts=counts_of_topics, topics=memberships)
def test_sticky_keeps_all_when_nothing_has_changed(
    counts: dict[str, int], topics: dict[str, tuple[str, ...]]
) -> None:
    first = assign_sticky(counts, wanting(topics))
    again = assign_sticky(counts, remembering(wanting(topics), first))
    assert {m: sorted(s) for m, s in again.items()} == {m: sorted(s) for m, s in first.items()}


def kept(shares: Shares, claims: Claims) -> int:
    return sum(claims.owner.get(tp) == member for member, share in shares.items() for tp in share)


small_claims = st.dictionaries(
    st.integers(0, 5), st.sampled_from(["a", "b", "c", "gone"]), max_size=6
)


@pytest.mark.mission("ASG-6")
@given(partitions=st.integers(0, 6), members=st.integers(1, 3), held=small_claims)
@settings(max_examples=80, deadline=None)
def test_no_balanced_assignment_of_all_keeps_more(
    partitions: int, members: int, held: dict[int, str]
) -> None:
    """Against all assignments there are."""
    names = MEMBERS[:members]
    memories = {
        name: Memory(tuple(TopicPartition("t", n) for n, who in held.items() if who == name), 1)
        for name in names
    }
    counts = {"t": partitions}
    claims = settle_claims(memories, counts)
    wanted = {name: Subscription(("t",)) for name in names}
    shares = assign_equals(counts, wanted, claims)
    check_valid(counts, wanted, shares)
    check_balanced(wanted, shares)
    best = 0
    for owners in product(names, repeat=partitions):
        loads = [owners.count(name) for name in names]
        if max(loads) - min(loads) <= 1:
            best = max(best, sum(held.get(n) == who for n, who in enumerate(owners)))
    assert kept(shares, claims) == best


@pytest.mark.mission("ASG-12")
@given(counts=counts_of_topics, members=st.integers(1, 4), data=st.data())
@settings(max_examples=80, deadline=None)
def test_among_equals_the_search_finds_no_better_than_the_arithmetic(
    counts: dict[str, int], members: int, data: st.DataObject
) -> None:
    """``GeneralAssignment`` is the twin of ``assign_equals``: same loads, and no more kept."""
    names = MEMBERS[:members]
    wanted = {name: Subscription(tuple(TOPICS)) for name in names}
    everything = [TopicPartition(t, n) for t in TOPICS for n in range(counts[t])]
    who = data.draw(st.lists(st.sampled_from([*names, ""]), min_size=15, max_size=15))
    held: Shares = {name: [] for name in names}
    for tp, owner in zip(everything, who, strict=False):
        if owner:
            held[owner].append(tp)
    memory = remembered_by_user_data(remembering(wanted, held))
    claims = settle_claims(memory, counts)
    quick, search = assign_equals(counts, wanted, claims), GeneralAssignment(counts, wanted, claims)
    slow = search.build()
    check_valid(counts, wanted, slow)
    assert sorted(map(len, quick.values())) == sorted(map(len, slow.values()))
    assert kept(slow, claims) <= kept(quick, claims)
    assert search.partition_movements.is_sticky


@pytest.mark.mission("ASG-12")
@given(counts=counts_of_topics, topics=memberships, data=st.data())
@settings(max_examples=150, deadline=None)
def test_assigned_partitions_move_only_for_a_better_balance(
    counts: dict[str, int], topics: dict[str, tuple[str, ...]], data: st.DataObject
) -> None:
    """From any assignment of everything: each partition that moves brings the loads closer, by two
    in the sum of their squares at least."""
    wanted = wanting(topics)
    held: Shares = {member: [] for member in wanted}
    for topic in TOPICS:
        takers = sorted(member for member, names in topics.items() if topic in names)
        for number in range(counts[topic] if takers else 0):
            held[data.draw(st.sampled_from(takers))].append(TopicPartition(topic, number))
    shares = assign_sticky(counts, remembering(wanted, held))
    check_valid(counts, wanted, shares)
    check_balanced(wanted, shares)
    moved = sum(len(set(held[member]) - set(shares[member])) for member in wanted)
    before, after = (sum(len(share) ** 2 for share in each.values()) for each in (held, shares))
    assert before - after >= 2 * moved


@given(
    counts=counts_of_topics,
    first=memberships,
    second=memberships,
)
@settings(max_examples=100, deadline=None)
def test_cooperative_rounds_end_and_never_overlap(
    counts: dict[str, int],
    first: dict[str, tuple[str, ...]],
    second: dict[str, tuple[str, ...]],
) -> None:
    """No member gets a partition that another still owns; a few rounds end balanced."""
    held: Shares = {}
    generation = 0
    for topics in (first, second):
        held = {
            member: [tp for tp in held.get(member, ()) if tp.topic in names]
            for member, names in topics.items()
        }
        for _ in range(8):
            wanted = {
                member: Subscription(names, tuple(held[member]), generation)
                for member, names in topics.items()
            }
            shares = assign_cooperative_sticky(counts, wanted)
            for member, share in shares.items():
                for other, owned in held.items():
                    assert other == member or not set(share) & set(owned)
            settled = all(set(held[m]) == set(s) for m, s in shares.items())
            held, generation = shares, generation + 1
            if settled:
                break
        assert settled
        check_valid(counts, wanted, shares)
        check_balanced(wanted, shares)


def test_a_large_group_is_assigned_in_no_time() -> None:
    members = [f"m{number:03}" for number in range(100)]
    counts = {f"t{number}": 100 for number in range(10)}
    wanted = {m: Subscription(tuple(counts)) for m in members}
    wanted["m000"] = Subscription(("t0",))  # not all equal: the search
    shares = assign_sticky(counts, wanted)
    check_balanced(wanted, shares)
    del wanted["m099"]
    again = assign_sticky(counts, remembering(wanted, shares))
    check_balanced(wanted, again)
    moved = sum(len(set(shares[m]) - set(again[m])) for m in wanted)
    assert moved == 0


def test_movements_cancel_each_other() -> None:
    p, q = TopicPartition("t", 0), TopicPartition("t", 1)
    movements = PartitionMovements()
    movements.record(p, "a", "b")
    assert movements.best_to_move(q, "b", "a") == p, "rather send p home"
    movements.record(p, "b", "a")
    assert movements.best_to_move(q, "b", "a") == q
    movements.record(p, "a", "b")
    movements.record(p, "b", "c")
    assert movements.best_to_move(q, "c", "a") == p
    movements.record(q, "c", "a")
    assert not movements.is_sticky


def test_reverse_move_is_chosen_by_the_original_owner() -> None:
    """Moving p from c via b to a would only swap it with q."""
    p, q, r = (TopicPartition("t", number) for number in range(3))
    movements = PartitionMovements()
    movements.record(p, "c", "b")
    movements.record(r, "a", "b")
    assert movements.best_to_move(p, "b", "a") == p, "r went to b, but p came from c"
    movements.record(q, "a", "c")
    assert movements.best_to_move(p, "b", "a") == q


def test_one_of_two_that_went_the_same_way_may_move_on() -> None:
    p, q, r = (TopicPartition("t", number) for number in range(3))
    movements = PartitionMovements()
    movements.record(p, "a", "b")
    movements.record(q, "a", "b")
    movements.record(p, "b", "c")
    assert movements.best_to_move(r, "b", "a") == q


def test_partitions_that_are_home_again_or_went_on_have_changed_no_places() -> None:
    p, q = TopicPartition("t", 0), TopicPartition("t", 1)
    movements = PartitionMovements()
    movements.record(p, "a", "b")
    movements.record(p, "b", "a")
    assert movements.is_sticky
    movements.record(p, "a", "b")
    movements.record(p, "b", "c")
    movements.record(q, "b", "a")
    assert movements.is_sticky
