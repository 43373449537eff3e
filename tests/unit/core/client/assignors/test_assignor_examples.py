"""Assignors on the examples of the documents and of Kafka's own descriptions."""

from __future__ import annotations

import pytest

from minikafka.core.client.assignors.catalogue import (
    ASSIGNORS,
    DEFAULT_STRATEGY,
    resolve_strategy,
)
from minikafka.core.client.assignors.model import Assignor, Shares, Subscription
from minikafka.core.client.assignors.range import assign_range
from minikafka.core.client.assignors.round_robin import assign_round_robin
from minikafka.core.client.assignors.sticky import (
    GeneralAssignment,
    Memory,
    assign_cooperative_sticky,
    assign_sticky,
    cooperative_user_data,
    settle_claims,
    sticky_user_data,
)
from minikafka.kernel.cluster import TopicPartition


def tps(text: str) -> list[TopicPartition]:
    """``"t0-1 t2-0"``."""
    return [
        TopicPartition(t, int(n)) for t, _, n in (word.rpartition("-") for word in text.split())
    ]


def named(shares: Shares) -> dict[str, str]:
    return {member: " ".join(map(str, share)) for member, share in sorted(shares.items())}


def same(shares: Shares) -> dict[str, list[TopicPartition]]:
    return {member: sorted(share) for member, share in shares.items()}


def all_want(topics: str, members: str) -> dict[str, Subscription]:
    return {member: Subscription(tuple(topics.split())) for member in members.split()}


def after(shares: Shares, topics: str, generation: int = 1) -> dict[str, Subscription]:
    """The members of a sticky assignment as they join again."""
    return {
        member: Subscription(tuple(topics.split()), user_data=sticky_user_data(share, generation))
        for member, share in shares.items()
    }


@pytest.mark.mission("ASG-3")
def test_range_gives_seven_partitions_to_three_as_3_2_2() -> None:
    shares = assign_range({"t": 7}, all_want("t", "c2 c0 c1"))
    assert named(shares) == {"c0": "t-0 t-1 t-2", "c1": "t-3 t-4", "c2": "t-5 t-6"}


@pytest.mark.mission("ASG-3")
@pytest.mark.parametrize("partitions", range(12))
@pytest.mark.parametrize("consumers", range(1, 6))
def test_the_formula_of_the_document(partitions: int, consumers: int) -> None:
    members = [f"c{number}" for number in range(consumers)]
    shares = assign_range({"t": partitions}, all_want("t", " ".join(members)))
    n, extra = partitions // consumers, partitions % consumers
    for i, member in enumerate(members):
        start = n * i + min(i, extra)
        length = n + (0 if i + 1 > extra else 1)
        assert [tp.partition for tp in shares[member]] == list(range(start, start + length))


@pytest.mark.mission("ASG-4")
def test_range_is_unbalanced_with_few_partitions_a_topic() -> None:
    more_consumers = assign_range({"t": 2}, all_want("t", "c0 c1 c2"))
    assert named(more_consumers) == {"c0": "t-0", "c1": "t-1", "c2": ""}
    topics = [f"t{number}" for number in range(5)]
    piled = assign_range(dict.fromkeys(topics, 3), all_want(" ".join(topics), "c0 c1"))
    assert {member: len(share) for member, share in piled.items()} == {"c0": 10, "c1": 5}


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=list(ASSIGNORS))
def test_no_members_or_no_topics_give_an_empty_assignment(assignor: Assignor) -> None:
    assert assignor.assign({"t": 2}, {}) == {}
    assert assignor.assign({}, all_want("t", "a b")) == {"a": [], "b": []}


def test_range_ignores_missing_and_unsubscribed_topics() -> None:
    wanted = {"c0": Subscription(("a", "gone")), "c1": Subscription(("b",))}
    assert named(assign_range({"a": 2, "b": 1}, wanted)) == {"c0": "a-0 a-1", "c1": "b-0"}
    assert assign_range({"a": 2}, {}) == {}


def test_static_members_come_first_by_their_instance_ids() -> None:
    wanted = {
        "member-1": Subscription(("t",)),
        "member-2": Subscription(("t",), group_instance_id="z"),
        "member-3": Subscription(("t",), group_instance_id="a"),
    }
    order = {"member-3": "t-0", "member-2": "t-1", "member-1": "t-2"}
    assert named(assign_range({"t": 3}, wanted)) == dict(sorted(order.items()))
    assert named(assign_round_robin({"t": 3}, wanted)) == dict(sorted(order.items()))


@pytest.mark.mission("ASG-5")
def test_round_robin_deals_out_in_turn() -> None:
    shares = assign_round_robin({"t0": 3, "t1": 3}, all_want("t0 t1", "c0 c1"))
    assert named(shares) == {"c0": "t0-0 t0-2 t1-1", "c1": "t0-1 t1-0 t1-2"}


@pytest.mark.mission("ASG-5")
def test_round_robin_passes_over_each_consumer_that_does_not_subscribe() -> None:
    wanted = {
        "c0": Subscription(("t0",)),
        "c1": Subscription(("t1",)),
        "c2": Subscription(("t1",)),
        "c3": Subscription(("t0", "t1")),
    }
    shares = assign_round_robin({"t0": 3, "t1": 4}, wanted)
    # t0-0 to c0, past c1 and c2 to c3, round to c0; t1 goes on from c1.
    assert named(shares) == {"c0": "t0-0 t0-2", "c1": "t1-0 t1-3", "c2": "t1-1", "c3": "t0-1 t1-2"}


@pytest.mark.mission("ASG-5")
def test_round_robin_with_different_subscriptions_is_not_balanced() -> None:
    wanted = {
        "c0": Subscription(("t0",)),
        "c1": Subscription(("t0", "t1")),
        "c2": Subscription(("t0", "t1", "t2")),
    }
    shares = assign_round_robin({"t0": 1, "t1": 2, "t2": 3}, wanted)
    assert named(shares) == {"c0": "t0-0", "c1": "t1-0", "c2": "t1-1 t2-0 t2-1 t2-2"}
    sticky = assign_sticky({"t0": 1, "t1": 2, "t2": 3}, wanted)
    assert named(sticky) == {"c0": "t0-0", "c1": "t1-0 t1-1", "c2": "t2-0 t2-1 t2-2"}


FOUR = {"t0": 2, "t1": 2, "t2": 2, "t3": 2}
TOPICS = "t0 t1 t2 t3"


@pytest.mark.mission("ASG-13")
@pytest.mark.mission("ASG-6")
def test_one_of_three_leaves() -> None:
    """Three consumers, four topics of two partitions; C1 goes."""
    robin = assign_round_robin(FOUR, all_want(TOPICS, "C0 C1 C2"))
    sticky = assign_sticky(FOUR, all_want(TOPICS, "C0 C1 C2"))
    before = {"C0": "t0-0 t1-1 t3-0", "C1": "t0-1 t2-0 t3-1", "C2": "t1-0 t2-1"}
    assert named(robin) == named(sticky) == before

    assert named(assign_round_robin(FOUR, all_want(TOPICS, "C0 C2"))) == {
        "C0": "t0-0 t1-0 t2-0 t3-0",
        "C2": "t0-1 t1-1 t2-1 t3-1",
    }
    del sticky["C1"]
    left = same(assign_sticky(FOUR, after(sticky, TOPICS)))
    assert left == {
        "C0": tps("t0-0 t1-1 t2-0 t3-0"),  # one of C1's
        "C2": tps("t0-1 t1-0 t2-1 t3-1"),  # two of them, and the first of all
    }


@pytest.mark.mission("ASG-13")
def test_one_of_three_leaves_with_different_subscriptions() -> None:
    """The second example of Kafka's StickyAssignor: who leaves frees what only C1 takes."""
    wanted = {
        "C0": Subscription(("t0",)),
        "C1": Subscription(("t0", "t1")),
        "C2": Subscription(("t0", "t1", "t2")),
    }
    counts = {"t0": 1, "t1": 2, "t2": 3}
    first = assign_sticky(counts, wanted)
    del first["C0"]
    again = {
        member: Subscription(wanted[member].topics, user_data=sticky_user_data(share, 1))
        for member, share in first.items()
    }
    assert same(assign_sticky(counts, again)) == {
        "C1": tps("t0-0 t1-0 t1-1"),
        "C2": tps("t2-0 t2-1 t2-2"),
    }


@pytest.mark.mission("ASG-7")
@pytest.mark.mission("ASG-8")
@pytest.mark.mission("ASG-9")
@pytest.mark.mission("ASG-11")
def test_general_assignment_starts_from_valid_owned_partitions() -> None:
    wanted = {"a": Subscription(("t", "u")), "b": Subscription(("t",))}
    held = {
        "a": Memory(tuple(tps("t-0 u-0 gone-0 t-9")), 3),
        "b": Memory(tuple(tps("t-1 u-1")), 3),
        "left": Memory(tuple(tps("t-2")), 3),
    }
    counts = {"t": 3, "u": 2}
    claims = settle_claims({member: held[member] for member in wanted}, counts)
    work = GeneralAssignment(counts, wanted, claims)
    assert work.topic_to_all_potential_consumers == {"t": {"a", "b"}, "u": {"a"}}
    potential = work.consumer_to_all_potential_partitions
    assert potential == {"a": tps("t-0 t-1 t-2 u-0 u-1"), "b": tps("t-0 t-1 t-2")}
    assert named(work.current_assignment) == {"a": "t-0 u-0", "b": "t-1"}
    assert work.current_partition_consumer == {
        TopicPartition("t", 0): "a",
        TopicPartition("u", 0): "a",
        TopicPartition("t", 1): "b",
    }
    assert not work.is_fresh
    assert GeneralAssignment(counts, wanted, settle_claims({}, counts)).is_fresh
    assert same(work.build()) == {"a": tps("t-0 u-0 u-1"), "b": tps("t-1 t-2")}


@pytest.mark.mission("ASG-10")
def test_the_order_of_partitions() -> None:
    counts = {"all": 1, "few": 2, "one": 1}
    wanted = {
        "a": Subscription(("all",)),
        "b": Subscription(("few", "all")),
        "c": Subscription(("few", "all", "one")),
    }
    fresh = GeneralAssignment(counts, wanted, settle_claims({}, counts))
    assert fresh.is_fresh
    by_consumers = tps("one-0 few-0 few-1 all-0")
    assert fresh.sort_partitions() == by_consumers, "fewest potential consumers first"
    claims = settle_claims({"b": Memory(tuple(tps("few-0 few-1 all-0")), 1)}, counts)
    again = GeneralAssignment(counts, wanted, claims)
    assert not again.is_fresh
    assert again.sort_partitions() == by_consumers, "also later, unless all want the same"
    del wanted["c"], counts["one"]
    two = GeneralAssignment(counts, wanted, claims)
    assert two.sort_partitions() == tps("few-0 few-1 all-0"), "also with two kinds of members"

    held = {"a": Memory(tuple(tps("t-0 t-1 t-2")), 1), "b": Memory(tuple(tps("t-3")), 1)}
    claims = settle_claims(held, {"t": 6})
    work = GeneralAssignment({"t": 6}, all_want("t", "a b"), claims)
    # a has three, so one of its own comes first, then another; at one each b is the last by name.
    assert work.sort_partitions() == tps("t-0 t-1 t-3 t-2 t-4 t-5")


# member: topics, what it remembers (None: nothing yet), as of which generation
Case = dict[str, tuple[str, str | None, int]]

# Assignments of kafka-clients 3.9.1's StickyAssignor. Each shows what the comment says: without it
# the outcome is another one.
JAVAS: list[tuple[str, dict[str, int], Case, dict[str, str]]] = [
    (
        "v, which only b can have, is given out first",
        {"u": 2, "v": 1},
        {"a": ("u", "", 5), "b": ("u v", None, 5)},
        {"a": "u-0 u-1", "b": "v-0"},
    ),
    (
        "t, which only b can have, is given out first, whatever the names",
        {"t": 1, "u": 2},
        {"a": ("u v", "", 5), "b": ("t u v", None, 5)},
        {"a": "u-0 u-1", "b": "t-0"},
    ),
    (
        "u-3, which is new, moves rather than what a had",
        {"t": 1, "u": 4},
        {"a": ("u v", "u-0 u-2", 5), "b": ("t u", None, 5), "c": ("t v", "", 5)},
        {"a": "u-0 u-2", "b": "u-1 u-3", "c": "t-0"},
    ),
    (
        "t-2 goes to the member that had it a generation ago, not to the lightest",
        {"t": 3, "u": 2},
        {"a": ("t", "t-0", 5), "b": ("t v", "t-1 t-2", 4), "c": ("t u v", "t-2 u-0 u-1", 5)},
        {"a": "t-0", "b": "t-1 t-2", "c": "u-0 u-1"},
    ),
    (
        "u-0 goes to c, which had it, though a is first by name",
        {"u": 2},
        {"a": ("t u", "", 5), "b": ("t u v", "u-0 u-1", 5), "c": ("t u v", "u-0", 4)},
        {"a": "", "b": "u-1", "c": "u-0"},
    ),
    (
        "a can have nothing else and keeps u-0, the others share v",
        {"u": 1, "v": 2},
        {"a": ("u", "", 5), "b": ("v", "v-0 v-1", 5), "c": ("t v", "", 5)},
        {"a": "u-0", "b": "v-1", "c": "v-0"},
    ),
    (
        "it goes on after the first round: v-0 moves once c has t-0",
        {"t": 1, "u": 2, "v": 1},
        {"a": ("v", "", 5), "b": ("u v", "u-0 u-1 v-0", 5), "c": ("t v", "v-0", 4)},
        {"a": "v-0", "b": "u-0 u-1", "c": "t-0"},
    ),
    (
        "u-1 goes home when another of u would go the other way",
        {"t": 1, "u": 3, "v": 2},
        {
            "a": ("t u v", "t-0 u-2 v-0 v-1", 5),
            "b": ("t u v", "u-1", 5),
            "c": ("v", None, 5),
            "d": ("t", "", 5),
        },
        {"a": "u-2 v-1", "b": "u-0 u-1", "c": "v-0", "d": "t-0"},
    ),
    (
        "b has one too many and gives up the highest number",
        {"u": 2, "v": 1},
        {"a": ("u v", "", 5), "b": ("u v", "u-1 v-0", 5), "c": ("u v", None, 5)},
        {"a": "u-0", "b": "v-0", "c": "u-1"},
    ),
    (
        "of two that have one more than the quota, both may keep it while there is enough",
        {"t": 5},
        {"a": ("t", "t-0", 5), "b": ("t", "t-1 t-2", 5), "c": ("t", "t-3 t-4", 5)},
        {"a": "t-0", "b": "t-1 t-2", "c": "t-3 t-4"},
    ),
    (
        "of two that have one more than the quota, only the first may keep it",
        {"t": 4},
        {"a": ("t", "t-0 t-1", 5), "b": ("t", "t-2 t-3", 5), "c": ("t", None, 5)},
        {"a": "t-0 t-1", "b": "t-2", "c": "t-3"},
    ),
]


@pytest.mark.mission("ASG-6", "ASG-10", "ASG-12")
@pytest.mark.parametrize(
    ("counts", "members", "javas"), [case[1:] for case in JAVAS], ids=[case[0] for case in JAVAS]
)
def test_it_assigns_as_javas_sticky_assignor(
    counts: dict[str, int], members: Case, javas: dict[str, str]
) -> None:
    wanted = {
        name: Subscription(
            tuple(topics.split()),
            user_data=sticky_user_data(None if held is None else tps(held), generation),
        )
        for name, (topics, held, generation) in members.items()
    }
    assert named(same(assign_sticky(counts, wanted))) == javas


@pytest.mark.mission("ASG-12")
def test_a_consumer_that_cannot_change_is_left_alone() -> None:
    wanted = {"a": Subscription(("own",)), "b": Subscription(("t",)), "c": Subscription(("t",))}
    shares = assign_sticky({"own": 9, "t": 4}, wanted)
    assert same(shares) == {
        "a": [TopicPartition("own", number) for number in range(9)],
        "b": tps("t-0 t-2"),
        "c": tps("t-1 t-3"),
    }


@pytest.mark.mission("ASG-12")
def test_a_former_owner_that_no_longer_subscribes_gets_nothing_back() -> None:
    wanted = {
        "a": Subscription(("u",), user_data=sticky_user_data(tps("t-0"), 4)),
        "b": Subscription(("t",), user_data=sticky_user_data(tps("t-0 t-1 t-2"), 5)),
        "c": Subscription(("t",)),
    }
    shares = assign_sticky({"t": 3, "u": 0}, wanted)
    assert same(shares) == {"a": [], "b": tps("t-1 t-2"), "c": tps("t-0")}


@pytest.mark.mission("ASG-2")
@pytest.mark.mission("CFG-5")
def test_the_strategies_by_name() -> None:
    assert list(ASSIGNORS) == ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert [a.name for a in ASSIGNORS.values()] == list(ASSIGNORS)
    assert [a.name for a in ASSIGNORS.values() if a.cooperative] == ["cooperative-sticky"]
    assert DEFAULT_STRATEGY[0] == "range"
    assert [a.name for a in resolve_strategy(["sticky", ASSIGNORS["range"]])] == ["sticky", "range"]
    for wrong in (["nope"], []):
        with pytest.raises(ValueError, match="assignor"):
            resolve_strategy(wrong)


def test_partition_claimed_twice_goes_to_the_higher_generation_or_is_disputed() -> None:
    tp = TopicPartition("t", 0)
    claims = settle_claims({"a": Memory((tp,), 4), "b": Memory((tp,), 5)}, {"t": 1})
    assert claims.owner == {tp: "b"}
    assert claims.previous == {tp: "a"}
    claims = settle_claims({"a": Memory((tp,), 5), "b": Memory((tp,), 5)}, {"t": 1})
    assert (claims.owner, claims.disputed) == ({}, {tp})


@pytest.mark.mission("ASG-11", "PAR-11")
def test_claims_to_partitions_that_are_gone_do_not_count() -> None:
    claims = settle_claims({"a": Memory(tuple(tps("t-2 t-3 gone-0")), 4)}, {"t": 3})
    assert claims.owner == {TopicPartition("t", 2): "a"}
    wanted = {
        "a": Subscription(("t", "gone"), user_data=sticky_user_data(tps("t-0 t-1 gone-0"), 4)),
        "b": Subscription(("t", "gone"), user_data=sticky_user_data(tps("t-2 t-3"), 4)),
    }
    assert same(assign_sticky({"t": 3}, wanted)) == {"a": tps("t-0 t-1"), "b": tps("t-2")}


def test_a_cooperative_partition_moves_in_two_rounds() -> None:
    wanted = {
        "a": Subscription(("t",), owned=tuple(tps("t-0 t-1 t-2 t-3")), generation=7),
        "b": Subscription(("t",), generation=-1),
    }
    first = assign_cooperative_sticky({"t": 4}, wanted)
    assert named(first) == {"a": "t-0 t-1", "b": ""}, "t-2 and t-3 have to be given up first"
    wanted["a"] = Subscription(("t",), owned=tuple(first["a"]), generation=8)
    second = assign_cooperative_sticky({"t": 4}, wanted)
    assert named(second) == {"a": "t-0 t-1", "b": "t-2 t-3"}


def test_disputed_partition_stays_unassigned_in_the_cooperative_round() -> None:
    both = Subscription(("t",), owned=tuple(tps("t-0")), generation=3)
    shares = assign_cooperative_sticky({"t": 2}, {"a": both, "b": both})
    assert TopicPartition("t", 0) not in [*shares["a"], *shares["b"]]


def test_the_generation_of_old_cooperative_members_is_in_their_user_data() -> None:
    newer, older = cooperative_user_data(None, 6), cooperative_user_data(None, 5)
    assert newer == b"\0\0\0\x06"
    wanted = {
        "a": Subscription(("t",), owned=tuple(tps("t-0")), user_data=older),
        "b": Subscription(("t",), owned=tuple(tps("t-0 t-1")), user_data=newer),
        "c": Subscription(("t",), user_data=b"?"),
    }
    shares = assign_cooperative_sticky({"t": 2}, wanted)
    assert named(shares)["b"] == "t-0"


def test_the_generation_of_the_subscription_counts_before_that_of_the_user_data() -> None:
    old = cooperative_user_data(None, 5)
    wanted = {
        "a": Subscription(("t",), owned=tuple(tps("t-0")), generation=7, user_data=old),
        "b": Subscription(("t",), owned=tuple(tps("t-0 t-1")), generation=6),
    }
    assert named(assign_cooperative_sticky({"t": 2}, wanted)) == {"a": "t-0", "b": "t-1"}


def test_pairs_that_share_nothing_are_balanced_each_for_itself() -> None:
    counts = {"u": 4, "v": 4, "w": 8}
    wanted = {"a": ("v", "w"), "b": ("u",), "c": ("u",), "d": ("w",)}
    held = {"a": "v", "b": "u", "c": "", "d": "w"}
    subscriptions = {
        member: Subscription(
            topics,
            user_data=sticky_user_data(
                [TopicPartition(held[member], n) for n in range(counts.get(held[member], 0))], 1
            ),
        )
        for member, topics in wanted.items()
    }
    shares = assign_sticky(counts, subscriptions)
    assert {member: len(share) for member, share in shares.items()} == {
        "a": 6, "b": 2, "c": 2, "d": 6,
    }  # fmt: skip


def test_sticky_drops_partitions_of_unsubscribed_topics() -> None:
    counts = {"t": 2, "u": 2}
    shares = {"a": tps("t-0 u-0"), "b": tps("t-1 u-1")}
    assert same(assign_sticky(counts, after(shares, "u"))) == {"a": tps("u-0"), "b": tps("u-1")}
