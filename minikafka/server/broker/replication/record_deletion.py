"""DeleteRecords: move the leader's log start, then wait until all live replicas have followed.

The leader moves its log start and writes it to disk. A follower learns of it with its next
response, writes it down, and reports its own with the Fetch after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from minikafka.kernel.cluster import INTERNAL_TOPICS, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.slices import in_slices
from minikafka.server.broker.purgatories import ReplicaPurgatories
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.broker.replication.record_appends import (
    DelayedPartitionResults,
    PartitionResult,
)
from minikafka.server.storage.directories.log_starts import LogStarts

INVALID_LOW_WATERMARK = -1
WAITING_TOGETHER: Final = 100  # partitions of one delayed operation


class DeletionResult(PartitionResult):
    """The result of deleting the records below ``requested_offset``. After an error
    ``low_watermark`` is -1; after a time-out it is the low watermark when the request arrived."""

    __slots__ = ("low_watermark", "requested_offset")

    def __init__(
        self,
        topic_partition: TopicPartition,
        error: ErrorCode = ErrorCode.NONE,
        requested_offset: int = -1,
        low_watermark: int = INVALID_LOW_WATERMARK,
    ) -> None:
        super().__init__(topic_partition, error)
        self.requested_offset = requested_offset
        self.low_watermark = low_watermark


DeletionReply: TypeAlias = Callable[[Sequence[DeletionResult]], None]


class DelayedDeleteRecords(DelayedPartitionResults[DeletionResult]):
    """A deletion that waits for the followers. A partition's result is final in one of Kafka's
    cases:

    A. The partition is not online on this broker any more.
    B. This broker no longer leads it.
    C. The low watermark, the smallest log start of all live replicas, has reached the offset.

    Followers of a partition that timed out still receive the new log start.
    """

    __slots__ = ()

    def _is_settled(self, result: DeletionResult) -> bool:
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


class RecordDeletion:
    """Serves DeleteRecords on the leader. Log starts that have moved are written to a checkpoint
    file before the response, so that deleted records stay deleted after a crash."""

    def __init__(
        self,
        broker_id: int,
        hosted: HostedPartitions,
        purgatories: ReplicaPurgatories,
        log_starts: LogStarts,
        on_disk_error: Callable[[TopicPartition, OSError], object],
        metrics: Metrics,
    ) -> None:
        self._hosted = hosted
        self._purgatories = purgatories
        self._log_starts = log_starts
        self._on_disk_error = on_disk_error
        self._expired = metrics.counter(
            "kafka.server:type=DelayedDeleteRecordsMetrics,name=ExpiresPerSec"
        )
        self._log = event_log("record-deletion", broker=broker_id)

    async def delete(
        self, offsets: Mapping[TopicPartition, int], timeout_ms: int
    ) -> Sequence[DeletionResult]:
        """Delete the records before the given offset of each partition (-1: the high watermark).

        Return one result per partition when all live replicas have deleted them, or after
        ``timeout_ms``. A change of one partition is checked against those only that wait
        together with it."""
        results: list[DeletionResult] = []
        async for topic_partition, offset in in_slices(offsets.items()):
            results.append(self._delete_here(topic_partition, offset))
        self._log_starts.write()
        waiting: list[asyncio.Future[object]] = []
        starts = range(0, len(results), WAITING_TOGETHER)
        async for start in in_slices(starts, look_every=1):
            some = results[start : start + WAITING_TOGETHER]
            self._complete_fetches(some)
            ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            self._await_replicas(some, timeout_ms, partial(_end, ended))
            waiting.append(ended)
        for ended in waiting:
            await ended
        return results

    def _complete_fetches(self, results: Sequence[DeletionResult]) -> None:
        """Try the parked fetches, which may lie below the new log starts."""
        self._purgatories.partitions_changed(
            [each.topic_partition for each in results if each.error is ErrorCode.NONE]
        )

    def _await_replicas(
        self, results: Sequence[DeletionResult], timeout_ms: int, reply: DeletionReply
    ) -> None:
        """Call ``reply`` when all live replicas have deleted the records, or after ``timeout_ms``.
        A disk that has failed meanwhile shows even if no partition is pending any more."""
        operation = DelayedDeleteRecords(
            max(0, timeout_ms), results, self._hosted, reply, self._expired.mark
        )
        keys = [result.topic_partition for result in results]
        self._purgatories.delete_records.try_complete_else_watch(operation, keys)

    def _delete_here(self, topic_partition: TopicPartition, offset: int) -> DeletionResult:
        partition = self._hosted.get(topic_partition)
        refusal = ErrorCode.NONE if partition else self._hosted.error_for(topic_partition)
        if (
            topic_partition.topic in INTERNAL_TOPICS
            and refusal is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ):
            refusal = ErrorCode.INVALID_TOPIC_EXCEPTION
        if partition is None or refusal is not ErrorCode.NONE:
            return DeletionResult(topic_partition, refusal)
        return self._delete_from(partition, offset)

    def prune(self, topic_partition: TopicPartition, offset: int) -> None:
        """Delete records of an internal topic that its coordinator needs no more, if this broker
        still leads the partition. Followers delete them with their next fetches."""
        partition = self._hosted.get(topic_partition)
        if partition is not None:
            self._complete_fetches([self._delete_from(partition, offset)])

    def _delete_from(self, partition: Partition, offset: int) -> DeletionResult:
        topic_partition = partition.topic_partition
        try:
            requested, moved = partition.delete_records(offset)
        except KafkaError as error:
            return DeletionResult(topic_partition, error.code)
        except OSError as error:
            self._on_disk_error(topic_partition, error)
            return DeletionResult(topic_partition, ErrorCode.KAFKA_STORAGE_ERROR)
        if moved:
            self._log.info("log_start_moved", partition=str(topic_partition), offset=requested)
        return DeletionResult(topic_partition, ErrorCode.NONE, requested, partition.low_watermark)

    def brokers_changed(self) -> None:
        """Try the parked deletions after the live brokers have changed: dead replicas do not hold
        the low watermark back."""
        if self._purgatories.delete_records.purgatory.delayed:
            for partition in self._hosted:
                self._purgatories.delete_records.check_and_complete(partition.topic_partition)


def _end(ended: asyncio.Future[object], results: Sequence[DeletionResult]) -> None:
    if not ended.done():  # cancelled when the node stops
        ended.set_result(results)
