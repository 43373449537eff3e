"""An acks=-1 produce that waits for the in-sync replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from minikafka.broker.replication.delayed_results import DelayedResults
from minikafka.core.log.append import LogAppendInfo
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode

# Stands for the append that did not happen.
NO_APPEND = LogAppendInfo(-1, -1, -1, -1, -1, -1, -1, 0)


class AppendResult:
    """What came of the records for one partition. After an error ``info`` is full of -1;
    ``record_errors`` are (place in the batch, why) of records for which it was refused."""

    __slots__ = ("error", "error_message", "info", "record_errors", "topic_partition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        error: ErrorCode,
        info: LogAppendInfo = NO_APPEND,
        error_message: str | None = None,
        record_errors: Sequence[tuple[int, str]] = (),
    ) -> None:
        self.topic_partition = topic_partition
        self.error = error
        self.info = info
        self.error_message = error_message
        self.record_errors = record_errors


AppendReply: TypeAlias = Callable[[Sequence[AppendResult]], None]


class DelayedProduce(DelayedResults[AppendResult]):
    """Completes when every partition that was appended to has settled in one of these cases:

    A. The partition is no longer here.
    B. This broker no longer leads it.
    C. The high watermark has passed the records. C.1: by then fewer than ``min.insync.replicas``
       are in sync, which is an error although the records are there. C.2: success.

    Otherwise time runs out, and what has not settled is REQUEST_TIMED_OUT.
    """

    __slots__ = ()

    def _settle(self, result: AppendResult) -> bool:
        partition = self._hosted.get(result.topic_partition)
        if partition is None:
            result.error = self._hosted.error_for(result.topic_partition)  # A
            return True
        error = partition.acknowledged(result.info.last_offset + 1)
        if error is None:
            return False
        result.error = error  # B, C.1, C.2
        return True
