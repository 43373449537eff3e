"""The origin, the result and the errors of an append."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from minikafka.kernel.errors import ErrorCode, KafkaError


class AppendOrigin(Enum):
    """Who appends, which decides how much is checked. Kafka: ``AppendOrigin``."""

    CLIENT = "client"  # a produce request: everything
    COORDINATOR = (
        "coordinator"  # our own coordinators: no sequence numbers, control batches allowed
    )


class LogAppendInfo(NamedTuple):
    """An append that succeeded (or had succeeded before: ``duplicate``).

    Offsets are those assigned; for a duplicate, those of the first time. ``log_append_time`` is -1
    unless the topic uses LogAppendTime. ``size_bytes`` is what was written: 0 for a duplicate.
    ``offset_of_max_timestamp`` is the last offset of the batch that has it.
    """

    first_offset: int
    last_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    log_append_time: int
    log_start_offset: int
    leader_epoch: int
    size_bytes: int
    duplicate: bool = False

    @property
    def record_count(self) -> int:
        """Offsets taken, which is the number of records that a producer sent."""
        return self.last_offset - self.first_offset + 1


class RecordValidationError(KafkaError):
    """A batch refused for some of its records. ``record_errors`` are (place in the batch, why)
    of each (KIP-467)."""

    def __init__(self, code: ErrorCode, record_errors: Sequence[tuple[int, str]]) -> None:
        super().__init__(code, f"{len(record_errors)} records are refused: {record_errors[0][1]}")
        self.record_errors = record_errors


class UnexpectedAppendOffset(KafkaError):
    """A leader's batch that lies before the end of this follower's log.

    A follower whose log is still empty may start again at ``first_offset`` (Kafka:
    ``UnexpectedAppendOffsetException``).
    """

    def __init__(self, first_offset: int, last_offset: int, log_end_offset: int) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"first offset {first_offset} of an append is below the log end offset "
            f"{log_end_offset}",
        )
        self.first_offset = first_offset
        self.last_offset = last_offset
