"""The controller's decision on an ISR that a leader requests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from minikafka.core.controller.alter_partition import decide, is_current_broker
from minikafka.core.controller.context import ControllerContext
from minikafka.kernel.cluster import (
    Broker,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode

pytestmark = pytest.mark.mission("MIX-1")

TP = TopicPartition("t", 0)
# Broker 1 leads in epoch 5; its last write made version 7. Broker 4 shuts down, 5 is not alive,
# and 6 has no replica.
CURRENT = LeaderAndIsr(1, 5, (1, 2), 7)
GROWN = replace(CURRENT, isr=(1, 2, 3))


@pytest.fixture
def context() -> ControllerContext:
    made = ControllerContext()
    made.set_brokers(Broker(number, (), epoch=100 + number) for number in (1, 2, 3, 4, 6))
    made.shutting_down_broker_ids.add(4)
    made.set_assignment(TP, ReplicaAssignment((1, 2, 3, 4, 5)))
    made.leadership[TP] = LeaderIsrAndControllerEpoch(CURRENT, 1)
    return made


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (GROWN, None),
        (replace(CURRENT, isr=(1,)), None),
        (CURRENT, CURRENT),
        (replace(CURRENT, zk_version=6), CURRENT),  # a repetition: its response was lost
        (replace(GROWN, zk_version=6), ErrorCode.INVALID_UPDATE_VERSION),
        (replace(GROWN, zk_version=8), ErrorCode.NOT_CONTROLLER),
        (replace(GROWN, leader_epoch=6), ErrorCode.NOT_CONTROLLER),
        (replace(GROWN, leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (replace(GROWN, leader_epoch=4, zk_version=6), ErrorCode.FENCED_LEADER_EPOCH),
        (replace(CURRENT, isr=(1, 2, 4)), ErrorCode.INELIGIBLE_REPLICA),
        (replace(CURRENT, isr=(1, 2, 5)), ErrorCode.INELIGIBLE_REPLICA),
        (replace(CURRENT, isr=(1, 2, 6)), ErrorCode.INVALID_REQUEST),
        (replace(CURRENT, isr=(1, 2, 2)), ErrorCode.INVALID_REQUEST),
        (replace(CURRENT, isr=(2,)), ErrorCode.INVALID_REQUEST),
        (replace(CURRENT, isr=()), ErrorCode.INVALID_REQUEST),
        (replace(CURRENT, leader=2), ErrorCode.INVALID_REQUEST),
        (replace(CURRENT, isr=(1,), leader_recovery_state=1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_request_is_judged_by_its_epochs_and_its_replicas(
    context: ControllerContext, requested: LeaderAndIsr, expected: LeaderAndIsr | ErrorCode | None
) -> None:
    assert decide(context, TP, requested) == expected


def test_a_leader_that_recovers_is_alone_in_its_isr(context: ControllerContext) -> None:
    recovering = replace(CURRENT, isr=(1,), leader_recovery_state=1)
    context.leadership[TP] = LeaderIsrAndControllerEpoch(recovering, 1)
    assert decide(context, TP, replace(recovering, isr=(1, 2))) is ErrorCode.INVALID_REQUEST
    assert decide(context, TP, replace(recovering, leader_recovery_state=0)) is None


def test_a_member_without_a_replica_does_not_keep_the_isr_from_changing(
    context: ControllerContext,
) -> None:
    strange = replace(CURRENT, isr=(1, 2, 6))
    context.leadership[TP] = LeaderIsrAndControllerEpoch(strange, 1)
    assert decide(context, TP, replace(CURRENT, isr=(1, 6))) is None
    assert decide(context, TP, replace(CURRENT, isr=(1,))) is None


def test_a_partition_without_a_state_is_unknown(context: ControllerContext) -> None:
    other = TopicPartition("t", 1)
    assert decide(context, other, CURRENT) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_request_of_a_former_registration_is_stale(context: ControllerContext) -> None:
    assert is_current_broker(context, 1, 101)
    assert not is_current_broker(context, 1, 100)
    assert not is_current_broker(context, 1, -1)
    assert not is_current_broker(context, 5, 105)
