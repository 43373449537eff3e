"""What errors of appends mean: to who asked, and to the coordinator that sent a marker."""

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


def not_written(error: ErrorCode) -> ErrorCode:
    """What a producer is told of ``error``, with which its record was not written."""
    if error in _NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _NOT_COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.UNKNOWN_SERVER_ERROR if error in _TOO_LARGE else error


class MarkerOutcome(Enum):
    """What became of one marker."""

    WRITTEN = "written"
    RETRY = "retry"  # a leader is changing, or replicas are missing
    FENCED = "fenced"  # a later coordinator has been there: this one is over


def marker_outcome(error: ErrorCode) -> MarkerOutcome:
    """INVALID_PRODUCER_EPOCH: the partition knows a later epoch of the producer, which is given out
    only when the transaction is over: its marker is there. What nobody expects is tried again."""
    if error in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH):
        return MarkerOutcome.WRITTEN
    if error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
        return MarkerOutcome.FENCED
    if error is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
        return MarkerOutcome.WRITTEN  # there is nothing of the transaction in such a log
    return MarkerOutcome.RETRY
