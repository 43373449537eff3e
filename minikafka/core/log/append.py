"""The origin, the result and the errors of an append."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from minikafka.kernel.errors import ErrorCode, KafkaError


class AppendOrigin(Enum):
    """The origin of an append, which decides what is validated. Kafka: ``AppendOrigin``."""

    CLIENT = "client"  # a Produce request: everything is validated
    COORDINATOR = "coordinator"  # a coordinator: control batches pass, sequences are not checked


class LogAppendInfo:
    """The result of a successful append.

    ``is_duplicate`` is True if the batch is a producer's retry of one that is in the log already.
    Then the offsets are those of the earlier append. ``log_append_time`` is in ms, -1 unless the
    topic uses LogAppendTime."""

    __slots__ = (
        "first_offset",
        "is_duplicate",
        "last_offset",
        "log_append_time",
        "log_start_offset",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_append_time: int,
        log_start_offset: int,
        is_duplicate: bool = False,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_append_time = log_append_time
        self.log_start_offset = log_start_offset
        self.is_duplicate = is_duplicate


class RecordValidationError(KafkaError):
    """A batch is refused because of some of its records (KIP-467).

    ``record_errors`` has the index in the batch and the reason for each of these records."""

    def __init__(self, code: ErrorCode, record_errors: Sequence[tuple[int, str]]) -> None:
        super().__init__(code, f"{len(record_errors)} records are invalid: {record_errors[0][1]}")
        self.record_errors = record_errors


class UnexpectedAppendOffset(KafkaError):
    """A fetched batch starts below the end offset of the follower's log.

    If the log is empty, the follower may restart it at ``first_offset``. Kafka:
    ``UnexpectedAppendOffsetException``.
    """

    def __init__(self, first_offset: int, last_offset: int, log_end_offset: int) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"first offset {first_offset} of an append is below the log end offset "
            f"{log_end_offset}",
        )
        self.first_offset = first_offset
        self.last_offset = last_offset
