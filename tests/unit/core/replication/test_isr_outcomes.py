"""The outcome of AlterPartition for one proposed ISR, as in Kafka's Partition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from minikafka.core.replication.isr_outcomes import (
    IsrFailed,
    IsrLost,
    IsrWithdrawn,
    IsrWritten,
    outcome_of,
)
from minikafka.kernel.cluster import LeaderAndIsr
from minikafka.kernel.errors import ErrorCode

REQUESTED = LeaderAndIsr(1, leader_epoch=5, isr=(1, 2), zk_version=7)
WITHDRAWN = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
LOST = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)


@pytest.mark.mission("MIX-6")
def test_every_error_has_the_outcome_that_it_has_in_kafka() -> None:
    for error in ErrorCode:
        if error is ErrorCode.NONE:
            continue
        outcome = outcome_of(REQUESTED, error)
        kind = IsrWithdrawn if error in WITHDRAWN else IsrLost if error in LOST else IsrFailed
        assert type(outcome) is kind, error


@pytest.mark.mission("MIX-6")
@pytest.mark.parametrize("isr", [(1, 2), (2, 1)])
def test_the_requested_state_at_a_later_version_is_written(isr: tuple[int, ...]) -> None:
    outcome = outcome_of(REQUESTED, replace(REQUESTED, isr=isr, zk_version=9))
    assert outcome == IsrWritten(9, is_announced=True)


@pytest.mark.mission("MIX-6")
@pytest.mark.parametrize(
    "found",
    [
        replace(REQUESTED, zk_version=9, leader_epoch=6),
        replace(REQUESTED, zk_version=9, leader_epoch=4),
        replace(REQUESTED, zk_version=9, isr=(1,)),
        replace(REQUESTED, zk_version=6),
        replace(REQUESTED, leader_epoch=6),
    ],
)
def test_another_state_is_not_the_one_requested(found: LeaderAndIsr) -> None:
    assert isinstance(outcome_of(REQUESTED, found), IsrLost)


@pytest.mark.mission("MIX-7")
@pytest.mark.parametrize("isr", [(1,), (1, 2)])
def test_the_version_that_was_to_be_replaced_says_that_nothing_was_written(
    isr: tuple[int, ...],
) -> None:
    assert isinstance(outcome_of(REQUESTED, replace(REQUESTED, isr=isr)), IsrWithdrawn)
