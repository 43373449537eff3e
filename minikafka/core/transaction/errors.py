"""The errors of failed appends and markers, mapped for producers and for the marker sender."""

from __future__ import annotations

from enum import Enum

from minikafka.kernel.errors import ErrorCode

_NOT_AVAILABLE = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
)
_NOT_COORDINATOR = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


def transaction_append_error(error: ErrorCode) -> ErrorCode:
    """Map the error of a failed append to the error code that the producer receives."""
    if error in _NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _NOT_COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.UNKNOWN_SERVER_ERROR if error in _TOO_LARGE else error


class MarkerOutcome(Enum):
    """The outcome of WriteTxnMarkers for one partition."""

    WRITTEN = "written"
    RETRY = "retry"  # e.g. the leader is changing, or too few replicas are in sync
    FENCED = "fenced"  # a later coordinator has written a marker: this one is replaced


def marker_outcome(error: ErrorCode) -> MarkerOutcome:
    """Map a partition's error in a WriteTxnMarkers response to an outcome.

    INVALID_PRODUCER_EPOCH counts as written: the partition knows a later producer epoch, which a
    producer gets only after the transaction has all its markers. Unexpected errors are retried.
    """
    if error in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH):
        return MarkerOutcome.WRITTEN
    if error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
        return MarkerOutcome.FENCED
    if error is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
        return MarkerOutcome.WRITTEN  # such a log has no records of the transaction
    return MarkerOutcome.RETRY
