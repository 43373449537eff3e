"""Targets that official Kafka computes: its assignors of 4.1.1 and 4.2.0 returned each of these.

Kafka treats members and topics in the order of its hash maps, which for these short ids is the
ascending one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from minikafka.core.group.consumer.assignors import ASSIGNORS, Assign, Subscriber
from minikafka.core.group.modern.partitions import Partitions
from tests.support.coordinator.subscriptions import topic


class Member(NamedTuple):
    """The topics that it subscribes to, its previous target, its instance id."""

    topics: list[int]
    target: dict[int, list[int]]
    instance: str | None = None


class Case(NamedTuple):
    """``sizes`` are the partition counts of topics 0, 1 and so on; Kafka returned ``expected``."""

    name: str
    assignor: str
    sizes: list[int]
    members: dict[str, Member]
    expected: dict[str, dict[int, list[int]]]


CASES = [
    Case(
        "the last of new members get one more",
        "uniform",
        [3, 2],
        {
            "A": Member([0, 1], {}),
            "B": Member([0, 1], {}),
            "C": Member([0, 1], {}),
        },
        {
            "A": {0: [0]},
            "B": {0: [1, 2]},
            "C": {1: [0, 1]},
        },
    ),
    Case(
        "a member joins",
        "uniform",
        [4, 4],
        {
            "A": Member([0, 1], {0: [0, 2], 1: [0, 2]}),
            "B": Member([0, 1], {0: [1, 3], 1: [1, 3]}),
            "C": Member([0, 1], {}),
        },
        {
            "A": {0: [0, 2], 1: [0]},
            "B": {0: [1, 3], 1: [1]},
            "C": {1: [2, 3]},
        },
    ),
    Case(
        "a member left",
        "uniform",
        [6],
        {
            "A": Member([0], {0: [0, 1]}),
            "C": Member([0], {0: [4, 5]}),
        },
        {
            "A": {0: [0, 1, 2]},
            "C": {0: [3, 4, 5]},
        },
    ),
    Case(
        "who has one more keeps it",
        "uniform",
        [5],
        {
            "A": Member([0], {0: [0]}),
            "B": Member([0], {0: [1, 2]}),
            "C": Member([0], {0: [3, 4]}),
        },
        {
            "A": {0: [0]},
            "B": {0: [1, 2]},
            "C": {0: [3, 4]},
        },
    ),
    Case(
        "more members than partitions",
        "uniform",
        [2],
        {
            "A": Member([0], {}),
            "B": Member([0], {0: [1]}),
            "C": Member([0], {}),
            "D": Member([0], {}),
        },
        {
            "A": {},
            "B": {0: [1]},
            "C": {},
            "D": {0: [0]},
        },
    ),
    Case(
        "a topic grows",
        "uniform",
        [9],
        {
            "A": Member([0], {0: [0, 3]}),
            "B": Member([0], {0: [1, 4]}),
            "C": Member([0], {0: [2, 5]}),
        },
        {
            "A": {0: [0, 3, 6]},
            "B": {0: [1, 4, 7]},
            "C": {0: [2, 5, 8]},
        },
    ),
    Case(
        "all unsubscribe from a topic",
        "uniform",
        [3, 5],
        {
            "A": Member([1], {0: [0, 1], 1: [0, 1]}),
            "B": Member([1], {0: [2], 1: [2, 3, 4]}),
        },
        {
            "A": {1: [0, 1]},
            "B": {1: [2, 3, 4]},
        },
    ),
    Case(
        "one subscribes to nothing",
        "uniform",
        [3, 2],
        {
            "A": Member([0, 1], {}),
            "B": Member([], {}),
            "C": Member([0, 1], {}),
        },
        {
            "A": {0: [0, 2]},
            "B": {},
            "C": {0: [1], 1: [0, 1]},
        },
    ),
    Case(
        "different subscriptions",
        "uniform",
        [4, 2, 3],
        {
            "A": Member([0], {}),
            "B": Member([0, 1, 2], {}),
            "C": Member([1, 2], {}),
        },
        {
            "A": {0: [0, 2, 3]},
            "B": {0: [1], 1: [0, 1]},
            "C": {2: [0, 1, 2]},
        },
    ),
    Case(
        "the balance takes two moves along a chain",
        "uniform",
        [6, 6],
        {
            "A": Member([0], {0: [0, 1]}),
            "B": Member([0, 1], {0: [2, 3, 4, 5], 1: [0, 1]}),
            "C": Member([1], {1: [2, 3, 4, 5]}),
        },
        {
            "A": {0: [0, 1, 4, 5]},
            "B": {0: [2, 3], 1: [0, 1]},
            "C": {1: [2, 3, 4, 5]},
        },
    ),
    Case(
        "a member with fewer topics joins",
        "uniform",
        [4, 4],
        {
            "A": Member([0, 1], {0: [0, 1, 2, 3]}),
            "B": Member([0, 1], {1: [0, 1, 2, 3]}),
            "C": Member([1], {}),
        },
        {
            "A": {0: [0, 1, 2]},
            "B": {0: [3], 1: [0, 1]},
            "C": {1: [2, 3]},
        },
    ),
    Case(
        "one unsubscribes",
        "uniform",
        [3, 3, 3],
        {
            "A": Member([0, 2], {0: [0], 1: [0], 2: [0]}),
            "B": Member([0, 1, 2], {0: [1], 1: [1], 2: [1]}),
            "C": Member([0, 1, 2], {0: [2], 1: [2], 2: [2]}),
        },
        {
            "A": {0: [0, 1], 2: [0]},
            "B": {1: [0, 1], 2: [1]},
            "C": {0: [2], 1: [2], 2: [2]},
        },
    ),
    Case(
        "the largest gives no more than it must",
        "uniform",
        [7],
        {
            "A": Member([0], {0: [0, 1, 2, 3]}),
            "B": Member([0], {0: [4, 5]}),
            "C": Member([0], {0: [6]}),
            "D": Member([], {}),
        },
        {
            "A": {0: [0, 1, 2]},
            "B": {0: [4, 5]},
            "C": {0: [3, 6]},
            "D": {},
        },
    ),
    Case(
        "the last of the largest gives first",
        "uniform",
        [10],
        {
            "A": Member([0], {0: [0, 1, 2, 3, 4]}),
            "B": Member([0], {0: [5, 6, 7, 8, 9]}),
            "C": Member([0], {}),
            "D": Member([], {}),
        },
        {
            "A": {0: [0, 1, 2, 3]},
            "B": {0: [5, 6, 7]},
            "C": {0: [4, 8, 9]},
            "D": {},
        },
    ),
    Case(
        "topics with few subscribers come first",
        "uniform",
        [2, 3, 4, 2],
        {
            "A": Member([0, 1], {}),
            "B": Member([1, 2, 3], {}),
            "C": Member([0, 2, 3], {}),
            "D": Member([3], {}),
        },
        {
            "A": {1: [0, 1, 2]},
            "B": {2: [0, 2, 3]},
            "C": {0: [0, 1], 2: [1]},
            "D": {3: [0, 1]},
        },
    ),
    Case(
        "of equal shares the one of fewer subscribers comes first",
        "uniform",
        [4, 2],
        {
            "A": Member([0, 1], {}),
            "B": Member([0], {}),
        },
        {
            "A": {0: [3], 1: [0, 1]},
            "B": {0: [0, 1, 2]},
        },
    ),
    Case(
        "ranges of topics of different sizes",
        "range",
        [3, 5],
        {
            "A": Member([0, 1], {}),
            "B": Member([0, 1], {}),
        },
        {
            "A": {0: [0, 1], 1: [0, 1, 2]},
            "B": {0: [2], 1: [3, 4]},
        },
    ),
    Case(
        "ranges for more members than partitions",
        "range",
        [2],
        {
            "A": Member([0], {}),
            "B": Member([0], {}),
            "C": Member([0], {}),
        },
        {
            "A": {0: [0]},
            "B": {0: [1]},
            "C": {},
        },
    ),
    Case(
        "ranges of static members come first",
        "range",
        [4, 4],
        {
            "A": Member([0, 1], {}),
            "B": Member([0, 1], {}, "i2"),
            "C": Member([0, 1], {}, "i1"),
        },
        {
            "A": {0: [3], 1: [3]},
            "B": {0: [2], 1: [2]},
            "C": {0: [0, 1], 1: [0, 1]},
        },
    ),
    Case(
        "ranges with different subscriptions",
        "range",
        [3, 4],
        {
            "A": Member([0], {}),
            "B": Member([0, 1], {1: [0, 1, 2, 3]}),
            "C": Member([1], {}),
        },
        {
            "A": {0: [0, 1]},
            "B": {0: [2], 1: [0, 1]},
            "C": {1: [2, 3]},
        },
    ),
]


def partitions(by_number: Mapping[int, list[int]]) -> Partitions:
    return {topic(number): frozenset(some) for number, some in by_number.items()}


@pytest.mark.mission("G848-11")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_target_is_that_of_official_kafka(case: Case) -> None:
    members = {
        member_id: Subscriber(
            frozenset(map(topic, member.topics)), None, partitions(member.target), member.instance
        )
        for member_id, member in case.members.items()
    }
    topics = {topic(number): size for number, size in enumerate(case.sizes)}
    assert ASSIGNORS[case.assignor](members, topics) == {
        member_id: partitions(target) for member_id, target in case.expected.items()
    }


def test_uniform_is_the_default() -> None:
    assert [*ASSIGNORS] == ["uniform", "range"]


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS.keys())
def test_a_group_without_members_has_no_targets(assign: Assign) -> None:
    assert assign({}, {topic(0): 3}) == {}
