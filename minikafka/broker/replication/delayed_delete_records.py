"""A deletion of records that waits until all live replicas have deleted them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from minikafka.broker.replication.delayed_results import DelayedResults
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode

INVALID_LOW_WATERMARK = -1


class DeletionResult:
    """What came of a deletion before ``requested_offset``. ``low_watermark`` is -1 after an error,
    but for a time-out: then it is where it was in the beginning."""

    __slots__ = ("error", "low_watermark", "requested_offset", "topic_partition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        error: ErrorCode = ErrorCode.NONE,
        requested_offset: int = -1,
        low_watermark: int = INVALID_LOW_WATERMARK,
    ) -> None:
        self.topic_partition = topic_partition
        self.error = error
        self.requested_offset = requested_offset
        self.low_watermark = low_watermark


DeletionReply: TypeAlias = Callable[[Sequence[DeletionResult]], None]


class DelayedDeleteRecords(DelayedResults[DeletionResult]):
    """Completes when every partition that was cut here has settled in one of these cases:

    A. The partition is no longer here.
    B. This broker no longer leads it.
    C. The low watermark, the smallest log start of all live replicas, has reached the offset.

    Otherwise time runs out, and what has not settled is REQUEST_TIMED_OUT: the followers hear of
    the new start all the same.
    """

    __slots__ = ()

    def _settle(self, result: DeletionResult) -> bool:
        partition = self._hosted.get(result.topic_partition)
        if partition is None:
            result.error = self._hosted.error_for(result.topic_partition)  # A
        elif not partition.is_leader:
            result.error = ErrorCode.NOT_LEADER_OR_FOLLOWER  # B
        else:
            reached = partition.low_watermark
            if reached < result.requested_offset:
                return False
            result.low_watermark = reached  # C
            return True
        result.low_watermark = INVALID_LOW_WATERMARK
        return True
