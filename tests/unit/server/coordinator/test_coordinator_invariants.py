"""What a coordinator asserts where a value is made and where it crosses a boundary."""

from __future__ import annotations

from typing import Any, cast

import pytest

from minikafka.core.coordinator_shard import CoordinatorAppend, CoordinatorResult
from minikafka.core.group.group import Group, GroupConfig
from minikafka.core.group.rebalance import fail_and_remove
from minikafka.core.group.result import EmptyGeneration, GroupResult
from minikafka.core.group.shard import GroupShard
from minikafka.core.transaction.records import TransactionStored, facts_problem
from minikafka.core.transaction.shard import TransactionConfig, TransactionShard
from minikafka.core.transaction.transaction import (
    Transaction,
    TransactionFacts,
    TransactionState,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.server.coordinator.group_timers import GroupContext
from minikafka.server.coordinator.runtime import CoordinatorState
from tests.support.coordinator.group_lab import PARTITION, GroupLab, MemoryLog
from tests.support.coordinator.transaction_lab import P0, TransactionLab

S = TransactionState


def active_context(lab: GroupLab) -> GroupContext:
    context = lab.coordinator.runtime.active_in(PARTITION)
    assert context is not None
    return context


def appending() -> GroupResult[None]:
    """A result with one append without records."""
    result: GroupResult[None] = CoordinatorResult(None)
    result.appends.append(CoordinatorAppend((), EmptyGeneration(Group("g", 0))))
    return result


# ---- the runtime


def test_the_epoch_of_a_coordinator_never_goes_back() -> None:
    context = active_context(GroupLab())
    context.raise_epoch(7)
    context.raise_epoch(7)
    with pytest.raises(AssertionError, match="leader epoch 6 after 7"):
        context.raise_epoch(6)
    assert context.epoch == 7


@pytest.mark.parametrize("state", [CoordinatorState.LOADING, CoordinatorState.CLOSED])
def test_only_an_active_coordinator_appends(state: CoordinatorState) -> None:
    context = active_context(GroupLab())
    context.run(appending())
    context.state = state
    with pytest.raises(AssertionError, match=state.value):
        context.run(appending())


class RepeatingLog(MemoryLog):
    """Reports every outcome twice."""

    def append(self, partition: int, batch: bytes, done: Any) -> None:
        def twice(error: ErrorCode, base_offset: int) -> None:
            done(error, base_offset)
            done(error, base_offset)

        super().append(partition, batch, twice)


def test_an_append_is_settled_once() -> None:
    lab = GroupLab(log=cast(Any, RepeatingLog()))
    with pytest.raises(AssertionError, match="settled once"):
        lab.commit({("t", 0): 1})


class LostOffsetLog(MemoryLog):
    """Reports a success without the offset of the batch."""

    def append(self, partition: int, batch: bytes, done: Any) -> None:
        done(ErrorCode.NONE, -1)


def test_a_successful_append_has_an_offset() -> None:
    lab = GroupLab(log=cast(Any, LostOffsetLog()))
    with pytest.raises(AssertionError):
        lab.commit({("t", 0): 1})


def test_a_coordinator_is_closed_once() -> None:
    context = active_context(GroupLab())
    context.close()
    with pytest.raises(AssertionError):
        context.close()


# ---- groups


def test_offsets_are_committed_in_a_loaded_shard_only() -> None:
    lab = GroupLab()
    lab.commit({("t", 0): 1})
    context = active_context(lab)
    context.shard = GroupShard(GroupConfig())
    with pytest.raises(AssertionError, match="loaded"):
        lab.commit({("t", 0): 2})


def test_a_member_is_removed_once() -> None:
    lab = GroupLab()
    lab.stable("a", "b")
    member = lab.group.members["a"]
    result: GroupResult[None] = CoordinatorResult(None)
    fail_and_remove(lab.group, member, ErrorCode.UNKNOWN_MEMBER_ID, result)
    with pytest.raises(AssertionError, match="removed once"):
        fail_and_remove(lab.group, member, ErrorCode.UNKNOWN_MEMBER_ID, result)


@pytest.mark.parametrize("parked", ["awaiting_join", "awaiting_sync"])
def test_a_member_is_not_removed_before_its_parked_request_has_a_response(parked: str) -> None:
    lab = GroupLab()
    lab.stable("a")
    setattr(lab.group.members["a"], parked, lambda response: None)
    with pytest.raises(AssertionError, match="has no response"):
        lab.group.remove("a")


# ---- transactions


def facts(state: S, epoch: int = 3, producer_id: int = 5) -> TransactionFacts:
    return TransactionFacts(producer_id, epoch, 1_000, state, frozenset({P0}))


def test_a_record_must_have_the_state_that_is_pending() -> None:
    transaction = Transaction("t", facts(S.ONGOING))
    transaction.prepare(S.PREPARE_COMMIT)
    with pytest.raises(AssertionError):
        transaction.become(facts(S.PREPARE_ABORT))
    transaction.become(facts(S.PREPARE_COMMIT))
    assert transaction.pending is None


def test_an_illegal_transition_is_refused_when_it_is_completed_too() -> None:
    transaction = Transaction("t", facts(S.ONGOING))
    transaction.prepare(S.PREPARE_COMMIT)
    transaction.facts = facts(S.EMPTY)
    with pytest.raises(AssertionError):
        transaction.become(facts(S.PREPARE_COMMIT))


def test_the_epoch_of_a_producer_never_goes_back() -> None:
    transaction = Transaction("t", facts(S.ONGOING, epoch=3))
    transaction.prepare(S.PREPARE_ABORT)
    with pytest.raises(AssertionError, match="never go back"):
        transaction.become(facts(S.PREPARE_ABORT, epoch=2))
    other = Transaction("t", facts(S.EMPTY, epoch=3))
    other.prepare(S.EMPTY)
    other.become(facts(S.EMPTY, epoch=0, producer_id=6))  # the first epoch of a new id
    assert other.facts.producer_epoch == 0


@pytest.mark.parametrize(
    "impossible",
    [
        facts(S.DEAD),
        facts(S.PREPARE_EPOCH_FENCE),
        facts(S.EMPTY, epoch=-1),
        facts(S.EMPTY, producer_id=-1),
    ],
)
def test_impossible_facts_are_not_encoded(impossible: TransactionFacts) -> None:
    assert facts_problem(impossible) is not None
    with pytest.raises(AssertionError):
        TransactionShard(TransactionConfig(), lambda: 0).encode(TransactionStored("t", impossible))


def test_the_coordinator_epoch_of_markers_never_goes_back() -> None:
    lab = TransactionLab()
    context = lab.coordinator.runtime.require("t")
    lab.elect()
    producer = lab.open(P0)
    lab.end(producer)
    (item,) = lab.write_markers({P0: ErrorCode.NOT_LEADER_OR_FOLLOWER})
    assert item.context.epoch == context.epoch == 2
    context._epoch = 1
    with pytest.raises(AssertionError, match="coordinator epoch 1 after 2"):
        lab.clock.advance(100)
