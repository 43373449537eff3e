"""Deleting records at the leader, and waiting for the followers to do the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from minikafka.broker.purgatories import ParkedRequests
from minikafka.broker.replication.delayed_delete_records import (
    DelayedDeleteRecords,
    DeletionReply,
    DeletionResult,
)
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.kernel.cluster import INTERNAL_TOPICS, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log
from minikafka.kernel.metrics import Metrics


class RecordDeletion:
    """``write_log_starts`` brings moved log starts into a file: what has been answered is not taken
    back by a crash."""

    def __init__(
        self,
        broker_id: int,
        hosted: HostedPartitions,
        parked: ParkedRequests,
        write_log_starts: Callable[[], None],
        on_disk_error: Callable[[TopicPartition, OSError], object],
        metrics: Metrics,
    ) -> None:
        self._hosted = hosted
        self._parked = parked
        self._write_log_starts = write_log_starts
        self._on_disk_error = on_disk_error
        self._expired = metrics.counter("kafka.server:DelayedDeleteRecordsExpiresPerSec")
        self._log = event_log("record-deletion", broker=broker_id)

    def delete(
        self, offsets: Mapping[TopicPartition, int], timeout_ms: int, reply: DeletionReply
    ) -> None:
        """Delete what lies before the offset of each partition (-1: the high watermark), and
        ``reply`` with a result for each when all live replicas have done so, or after
        ``timeout_ms``; at once where there is nothing to wait for."""
        results = [self._delete_here(tp, offset) for tp, offset in offsets.items()]
        self._write_log_starts()
        for result in results:
            if result.error is ErrorCode.NONE:
                # Some may be waiting to read below the new start.
                self._parked.changed(result.topic_partition)
        if not results:
            reply(results)
            return
        # Also when nothing is left to wait for: the disk may have failed since, and is asked there.
        operation = DelayedDeleteRecords(
            max(0, timeout_ms), results, self._hosted, reply, self._expired.mark
        )
        self._parked.delete_records.try_complete_else_watch(operation, list(offsets))

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
        """Other brokers are alive than before: a dead replica holds no low watermark back."""
        if self._parked.delete_records.purgatory.delayed:
            for partition in self._hosted:
                self._parked.delete_records.check_and_complete(partition.topic_partition)
