"""The follower's side of a Fetch response: append, truncate or restart the local log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, TypeVar

from minikafka.core.replication import fetch_state as states
from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.core.replication.follower import (
    EpochEnd,
    Truncation,
    restart_at_leader_start,
    truncation_by_epoch,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog
from minikafka.protocol.messages.fetch import PartitionData
from minikafka.server.broker.purgatories import ReplicaPurgatories
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.broker.replication.throttles import FollowerThrottle
from minikafka.server.broker.topic_metrics import TopicMetrics
from minikafka.server.storage.directories.log_manager import LogManager

T = TypeVar("T")

BAD_RECORDS = frozenset((ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD))


class ReplicaFailed(Exception):
    """The local replica is offline, or its log rejects the leader's response. The fetcher stops
    fetching the partition until the controller's next LeaderAndIsr."""


class EpochComparison(NamedTuple):
    """The fetch state after a comparison of leader epochs, and whether no further one is needed."""

    state: PartitionFetchState
    is_last: bool


class FollowerLogs:
    """Applies the leaders' responses to the logs of the partitions that this broker follows.

    A method that takes the partition's fetch state returns the next one. Its ``truncating`` is set
    if a truncation must be flushed before the next fetch. The methods raise ``ReplicaFailed``, or a
    KafkaError after which the fetcher retries with its back-off: KAFKA_STORAGE_ERROR (the disk is
    full), CORRUPT_MESSAGE or INVALID_RECORD (bad records from the leader).

    ``on_disk_error`` is called with every OSError, and returns whether the replica is offline
    now."""

    def __init__(
        self,
        hosted: HostedPartitions,
        purgatories: ReplicaPurgatories,
        on_disk_error: Callable[[TopicPartition, OSError], bool],
        logs: LogManager,
        throttle: FollowerThrottle,
        topic_metrics: TopicMetrics,
        log: EventLog,
    ) -> None:
        self._topics = topic_metrics
        self.throttle = throttle
        self.log_starts = logs.starts
        self._hosted = hosted
        self._purgatories = purgatories
        self._on_disk_error = on_disk_error
        self._logs = logs
        self._log = log

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        return self._hosted.require(topic_partition).log.log_start_offset

    def log_end_offset(self, topic_partition: TopicPartition) -> int:
        return self._hosted.require(topic_partition).log.log_end_offset

    def apply(
        self, topic_partition: TopicPartition, state: PartitionFetchState, data: PartitionData
    ) -> PartitionFetchState:
        """Apply a partition's response that has no error. If it names a diverging epoch, truncate
        the log. Otherwise append the records, then adopt high watermark and log start."""

        def step(partition: Partition) -> PartitionFetchState:
            diverging = data.diverging_epoch
            if diverging is None:
                return self._append(partition, state, data)
            leader = EpochEnd(diverging.epoch, diverging.end_offset)
            return self._truncate(partition, state, leader)

        return self._guarded(topic_partition, step, BAD_RECORDS)

    def compare(
        self, topic_partition: TopicPartition, state: PartitionFetchState, leader: EpochEnd
    ) -> EpochComparison:
        """Truncate the log where it diverges from the leader's. ``leader`` is the end of the local
        log's last epoch in the leader's log."""

        def step(partition: Partition) -> EpochComparison:
            cut = self._truncation(partition, leader)
            if cut.completed and cut.offset >= partition.log.log_end_offset:
                return EpochComparison(state, is_last=True)
            return EpochComparison(self._truncate(partition, state, leader), cut.completed)

        return self._guarded(topic_partition, step)

    def truncate_to_leader_end(
        self, topic_partition: TopicPartition, state: PartitionFetchState, offset: int
    ) -> PartitionFetchState:
        """Truncate to ``offset``, the leader's log end below the local one (an unclean
        election)."""

        def step(partition: Partition) -> PartitionFetchState:
            partition.truncate_to(offset)
            self._log.warning(
                "replica_truncated_to_leader_end", partition=str(topic_partition), offset=offset
            )
            self._purgatories.partition_changed(topic_partition)
            return _at_end(partition, state)

        return self._guarded(topic_partition, step)

    def restart_at(
        self, topic_partition: TopicPartition, state: PartitionFetchState, leader_start_offset: int
    ) -> PartitionFetchState:
        """Drop all records and start at ``leader_start_offset`` if the local log ends below it.
        Otherwise the next fetch is from the local log end."""

        def step(partition: Partition) -> PartitionFetchState:
            restart = restart_at_leader_start(partition.log.log_end_offset, leader_start_offset)
            if restart.start_at is not None:
                self._log.warning(
                    "replica_restarted", partition=str(topic_partition), offset=restart.start_at
                )
                partition.truncate_fully_and_start_at(restart.start_at)
                self._purgatories.partition_changed(topic_partition)
            return _at_end(partition, state)

        return self._guarded(topic_partition, step)

    def after_failure(
        self, topic_partition: TopicPartition, state: PartitionFetchState
    ) -> PartitionFetchState:
        """Return the state for the next attempt after a KafkaError. A step that failed on a full
        disk may have moved the log end before."""
        partition = self._hosted.require(topic_partition)
        log = partition.log
        if log.log_end_offset == state.fetch_offset and not log.cut_unflushed:
            return state
        self._purgatories.partition_changed(topic_partition)
        return _at_end(partition, state)

    def is_flush_due(self, topic_partition: TopicPartition) -> bool:
        """Whether the log has reached ``flush.messages``. It has to be flushed before the next
        fetch, which acknowledges its records to the leader."""
        partition = self._hosted.get(topic_partition)
        return partition is not None and partition.has_log and partition.log.flush_due

    async def flush_due(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Flush the logs of which a flush is due."""
        due = [tp for tp in topic_partitions if self.is_flush_due(tp)]
        if due:
            await self._logs.flush([self._hosted.require(tp).log for tp in due])

    def _guarded(
        self,
        topic_partition: TopicPartition,
        step: Callable[[Partition], T],
        retriable: Collection[ErrorCode] = (),
    ) -> T:
        """Run ``step`` on the partition, and translate its errors.

        A KafkaError that is not ``retriable``, and an OSError that took the replica offline, become
        ``ReplicaFailed``. Any other OSError becomes KafkaError(KAFKA_STORAGE_ERROR)."""
        try:
            return step(self._hosted.require(topic_partition))
        except OSError as error:
            if self._on_disk_error(topic_partition, error):
                raise ReplicaFailed from error
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except KafkaError as error:
            if error.code in retriable:
                raise
            self._log.error("replica_failed", partition=str(topic_partition), error=str(error))
            raise ReplicaFailed from error

    def _truncation(self, partition: Partition, leader: EpochEnd) -> Truncation:
        log = partition.log
        local = EpochEnd(*log.end_offset_for_epoch(leader.epoch))
        return truncation_by_epoch(leader, local, partition.high_watermark, log.log_end_offset)

    def _truncate(
        self, partition: Partition, state: PartitionFetchState, leader: EpochEnd
    ) -> PartitionFetchState:
        log, cut = partition.log, self._truncation(partition, leader)
        self._log.info(
            "replica_truncated",
            partition=str(partition.topic_partition),
            offset=cut.offset,
            log_end_offset=log.log_end_offset,
            high_watermark=partition.high_watermark,
            leader_epoch=leader.epoch,
            leader_end_offset=leader.end_offset,
        )
        partition.truncate_to(cut.offset)
        self._purgatories.partition_changed(partition.topic_partition)
        return _at_end(partition, state)

    def _append(
        self, partition: Partition, state: PartitionFetchState, data: PartitionData
    ) -> PartitionFetchState:
        log = partition.log
        assert state.fetch_offset == log.log_end_offset, "fetched beside the end of the log"
        next_offset, last_epoch = state.fetch_offset, None
        if data.records:
            partition.append_as_follower(data.records)
            self._topics.replicated_in.mark(len(data.records))
            if self.throttle.quota.limited:
                self.throttle.record(partition, len(data.records))
            if log.cut_unflushed:
                return _at_end(partition, state)
            next_offset, last_epoch = log.log_end_offset, log.latest_epoch
        changed = partition.follow_high_watermark(data.high_watermark)
        changed |= partition.follow_log_start(data.log_start_offset)
        if changed or next_offset > state.fetch_offset:
            self._purgatories.partition_changed(partition.topic_partition)
        return states.fetched(state, next_offset, last_epoch, data.high_watermark)


def _at_end(partition: Partition, state: PartitionFetchState) -> PartitionFetchState:
    log = partition.log
    return states.truncated(state, log.log_end_offset, log.latest_epoch, log.cut_unflushed)
