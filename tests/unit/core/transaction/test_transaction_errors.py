"""Error codes of failed appends: for producers and for the sender of markers."""

from __future__ import annotations

from minikafka.core.transaction.shard import (
    MarkerOutcome,
    marker_outcome,
    transaction_append_error,
)
from minikafka.kernel.errors import ErrorCode

E = ErrorCode


def test_marker_outcomes() -> None:
    found: dict[MarkerOutcome, set[ErrorCode]] = {outcome: set() for outcome in MarkerOutcome}
    for error in ErrorCode:
        found[marker_outcome(error)].add(error)
    assert found[MarkerOutcome.WRITTEN] == {
        E.NONE,
        E.INVALID_PRODUCER_EPOCH,
        E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
    assert found[MarkerOutcome.FENCED] == {E.TRANSACTION_COORDINATOR_FENCED}


def test_producer_errors_of_failed_appends() -> None:
    """Kafka: ``TransactionStateManager.appendTransactionToLog``."""
    received = {
        error: transaction_append_error(error)
        for error in ErrorCode
        if transaction_append_error(error) is not error
    }
    assert received == {
        E.UNKNOWN_TOPIC_OR_PARTITION: E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_ENOUGH_REPLICAS: E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: E.COORDINATOR_NOT_AVAILABLE,
        E.REQUEST_TIMED_OUT: E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_LEADER_OR_FOLLOWER: E.NOT_COORDINATOR,
        E.KAFKA_STORAGE_ERROR: E.NOT_COORDINATOR,
        E.MESSAGE_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
        E.RECORD_LIST_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    }
