"""What a controller asserts of states that it writes and sends: ISR, leader, epochs, versions."""

from dataclasses import replace
from typing import Any

import pytest

from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.request_batch import RequestBatch
from minikafka.core.controller.states import check_first_state, check_next_state
from minikafka.kernel.cluster import (
    NO_LEADER,
    Broker,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)

TP = TopicPartition("t", 0)
EPOCH = 7
ASSIGNMENT = ReplicaAssignment((1, 2, 3))
FIRST = LeaderAndIsr(leader=1, leader_epoch=0, isr=(1, 2))
BEFORE = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, 4, (1, 2, 3), 9), EPOCH - 1)


def following(
    leader: Any = 1,
    isr: Any = (1, 2, 3),
    epoch: Any = 5,
    version: Any = 9,
    controller_epoch: Any = EPOCH,
) -> Any:
    return LeaderIsrAndControllerEpoch(LeaderAndIsr(leader, epoch, isr, version), controller_epoch)


def test_a_first_state_of_assigned_replicas_is_accepted() -> None:
    check_first_state(LeaderIsrAndControllerEpoch(FIRST, EPOCH), EPOCH, ASSIGNMENT)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (replace(FIRST, isr=(1, 4)), "ISR not among"),
        (replace(FIRST, leader=3), "leader not in the ISR"),
        (replace(FIRST, leader_epoch=1), "a first leader epoch"),
    ],
)
def test_a_broken_first_state_is_a_bug(broken: Any, why: Any) -> None:
    with pytest.raises(AssertionError, match=why):
        check_first_state(LeaderIsrAndControllerEpoch(broken, EPOCH), EPOCH, ASSIGNMENT)


def test_a_first_state_of_another_term_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="another controller's term"):
        check_first_state(LeaderIsrAndControllerEpoch(FIRST, EPOCH - 1), EPOCH, ASSIGNMENT)


@pytest.mark.parametrize(
    "after",
    [
        following(),
        following(leader=2, isr=(2, 3)),
        following(leader=NO_LEADER, isr=(1,)),
        following(leader=8, isr=(8,)),  # unclean
    ],
)
def test_a_next_state_is_accepted(after: Any) -> None:
    check_next_state(BEFORE, after, EPOCH)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (following(epoch=4), "the leader epoch must grow"),
        (following(epoch=3), "the leader epoch must grow"),
        (following(isr=(1, 2, 3, 4)), "ISR grows"),
        (following(leader=2, isr=(1, 3)), "leader not in ISR"),
        (following(version=8), "the version that it replaces"),
        (following(controller_epoch=EPOCH - 1), "another controller's term"),
    ],
)
def test_a_broken_next_state_is_a_bug(broken: Any, why: Any) -> None:
    with pytest.raises(AssertionError, match=why):
        check_next_state(BEFORE, broken, EPOCH)


def test_a_state_of_a_newer_controller_is_not_replaced() -> None:
    with pytest.raises(AssertionError, match="a newer controller"):
        check_next_state(replace(BEFORE, controller_epoch=EPOCH + 1), following(), EPOCH)


def test_foreign_state_with_a_leader_outside_the_isr_is_tolerated() -> None:
    before = LeaderIsrAndControllerEpoch(LeaderAndIsr(5, 4, (1, 2), 9), EPOCH)
    check_next_state(before, following(leader=5, isr=(1,)), EPOCH)


@pytest.fixture
def context() -> Any:
    context = ControllerContext()
    context.epoch, context.epoch_zk_version = EPOCH, EPOCH
    context.set_brokers([Broker(1, ())])
    context.set_assignment(TP, ASSIGNMENT)
    return context


def test_the_context_takes_only_growing_leader_epochs_as_written(context: Any) -> None:
    context.put_written(TP, following(epoch=5))
    with pytest.raises(AssertionError, match="does not grow"):
        context.put_written(TP, following(epoch=5))
    context.put_written(TP, following(epoch=6))
    assert context.leadership[TP] == following(epoch=6)


def test_the_context_takes_only_this_terms_states_as_written(context: Any) -> None:
    with pytest.raises(AssertionError, match="another controller's term"):
        context.put_written(TP, following(controller_epoch=EPOCH - 1))


def test_without_an_election_there_is_no_fence(context: Any) -> None:
    assert context.fence == EPOCH
    context.reset()
    with pytest.raises(AssertionError, match="not elected"):
        _ = context.fence


def test_a_batch_sends_no_older_leader_epoch_after_a_newer_one(context: Any) -> None:
    batch = RequestBatch(1, context, "PLAINTEXT")
    batch.new_batch()
    batch.add_leader_and_isr((1,), TP, following(epoch=6), ASSIGNMENT, is_new=False)
    with pytest.raises(AssertionError, match="leader epoch 5 after 6"):
        batch.add_leader_and_isr((1,), TP, following(epoch=5), ASSIGNMENT, is_new=False)


def test_a_batch_is_sent_in_its_own_term(context: Any) -> None:
    batch = RequestBatch(1, context, "PLAINTEXT")
    batch.new_batch()
    batch.add_leader_and_isr((1,), TP, following(), ASSIGNMENT, is_new=False)
    with pytest.raises(AssertionError, match="another controller's term"):
        batch.send_requests_to_brokers(EPOCH - 1)
