"""What a page sees of groups in a rebalance, and of transactions that are being marked."""

from __future__ import annotations

from typing import Any, cast

import pytest

from minikafka.core.group.group import ClassicGroupMember, Group, GroupState
from minikafka.core.transaction.transaction import (
    Transaction,
    TransactionFacts,
    TransactionState,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.server.coordinator.group_facts import MAX_MEMBERS, facts_of_each
from minikafka.server.node.state_facts import transaction_facts


def group(name: str, members: int = 0) -> Group:
    made = Group(name, 1)
    for number in range(members):
        protocols = (("range", b""),)
        made.add(ClassicGroupMember(f"m{number}", None, "c", "h", 5, 7, "consumer", protocols, b""))
    return made


class Coordinator:
    def __init__(self, *groups: Group) -> None:
        self._groups = groups

    def groups(self) -> Any:
        return ((None, each) for each in self._groups)


def facts(*groups: Group, limit: int = 100) -> list[dict[str, Any]]:
    return list(facts_of_each(cast(Any, Coordinator(*groups)), limit))


@pytest.mark.mission("GLASS-57")
def test_a_group_has_a_phase_with_an_end_while_it_rebalances() -> None:
    shown = group("g", 2)
    shown.phase_deadline_ms = 70
    shown.members["m1"].heartbeat_deadline_ms = 30
    phases = []
    for state in (
        GroupState.PREPARING_REBALANCE,
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
    ):
        shown.transition_to(state, 2)
        (row,) = facts(shown)
        phases.append((row["phase"], row["phase_deadline_ms"]))
    assert phases == [("joining", 70), ("syncing", 70), (None, None)]
    assert [member["heartbeat_deadline_ms"] for member in row["members"]] == [None, 30]


@pytest.mark.mission("GLASS-57")
def test_the_members_of_all_groups_together_are_bounded() -> None:
    rows = facts(*[group(str(number), 150) for number in range(10)], limit=8)
    assert [row["group"] for row in rows] == [str(number) for number in range(8)]
    assert sum(len(row["members"]) for row in rows) <= MAX_MEMBERS
    assert [row["num_members"] for row in rows] == [150] * 8
    assert len(rows[0]["members"]) == 8


@pytest.mark.mission("GLASS-57")
def test_partitions_of_a_transaction_are_marked_one_after_the_other() -> None:
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    partitions = frozenset({first, second})
    ongoing = TransactionFacts(1, 0, 9, TransactionState.ONGOING, partitions)
    transaction = Transaction("x", ongoing)
    shown = transaction_facts(transaction)
    assert (shown["partitions"], shown["marked"]) == (["t-0", "t-1"], [])
    transaction.become(ongoing.ended(committed=True, now_ms=5))
    transaction.unmarked.discard(first)
    shown = transaction_facts(transaction)
    assert (shown["marked"], shown["unmarked_partitions"]) == (["t-0"], ["t-1"])
    assert (shown["unmarked"], shown["last_update_ms"]) == (1, 5)
