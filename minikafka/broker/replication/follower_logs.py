"""What a leader answered, taken into the logs of its followers here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from minikafka.broker.purgatories import ParkedRequests
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.broker.replication.partition import Partition
from minikafka.broker.replication.throttles import FollowerThrottle
from minikafka.broker.replication.truncation_flushes import CutFlushes
from minikafka.core.replication import fetch_state as states
from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.core.replication.follower import (
    EpochEndOffset,
    Truncation,
    restart_at_leader_start,
    truncation_by_epoch,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog
from minikafka.protocol.messages.fetch import PartitionData
from minikafka.storage.directories.log_manager import LogManager


class FollowerLogs:
    """Appends, cuts and restarts the logs of followers, each in one breath. What was cut stays
    ``truncating`` while ``cuts`` brings that to disk.

    ``write_log_starts`` is called before a leader is told of log starts: it counts on their being
    remembered.

    ``on_disk_error`` tells whether the replica is offline by it. Every method returns the fetch
    state to go on with, or None when copying has to stop until the controller says more; it raises
    KafkaError(KAFKA_STORAGE_ERROR) while the disk is full: to be tried again."""

    def __init__(
        self,
        hosted: HostedPartitions,
        parked: ParkedRequests,
        on_disk_error: Callable[[TopicPartition, OSError], bool],
        logs: LogManager,
        cuts: CutFlushes,
        throttle: FollowerThrottle,
        log: EventLog,
    ) -> None:
        self.throttle = throttle
        self._hosted = hosted
        self._parked = parked
        self._on_disk_error = on_disk_error
        self.write_log_starts = logs.write_log_starts
        self.log_start_moves = logs.log_start_moves
        self._logs = logs
        self._cuts = cuts
        self._log = log

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        return self._hosted.require(topic_partition).log.log_start_offset

    def log_end_offset(self, topic_partition: TopicPartition) -> int:
        return self._hosted.require(topic_partition).log.log_end_offset

    def take(
        self, topic_partition: TopicPartition, state: PartitionFetchState, data: PartitionData
    ) -> PartitionFetchState | None:
        """An answer without error: cut where the logs part, else append what came.

        Raises KafkaError(CORRUPT_MESSAGE | INVALID_RECORD): not our log's fault, to be fetched
        again."""
        try:
            partition = self._hosted.require(topic_partition)
            if data.diverging_epoch is not None:
                diverging = data.diverging_epoch
                return self._cut(
                    partition, state, EpochEndOffset(diverging.epoch, diverging.end_offset)
                )
            return self._append(partition, state, data)
        except OSError as error:
            self._disk_error(topic_partition, error)
            return None
        except KafkaError as error:
            if error.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD):
                raise
            self._given_up(topic_partition, error)
        return None

    def compare(
        self, topic_partition: TopicPartition, state: PartitionFetchState, leader: EpochEndOffset
    ) -> tuple[PartitionFetchState | None, bool]:
        """Cut the log where it parts from the leader's, of which ``leader`` is the end of our last
        epoch. Also returns whether that was the last comparison. Raises KafkaError as ``take``."""
        try:
            partition = self._hosted.require(topic_partition)
            cut = self._truncation(partition, leader)
            if cut.completed and cut.offset >= partition.log.log_end_offset:
                return state, True
            return self._cut(partition, state, leader), cut.completed
        except OSError as error:
            self._disk_error(topic_partition, error)
        except KafkaError as error:
            self._given_up(topic_partition, error)
        return None, True

    def _truncation(self, partition: Partition, leader: EpochEndOffset) -> Truncation:
        log = partition.log
        local = EpochEndOffset(*log.end_offset_for_epoch(leader.epoch))
        return truncation_by_epoch(leader, local, partition.high_watermark, log.log_end_offset)

    def _cut(
        self, partition: Partition, state: PartitionFetchState, leader: EpochEndOffset
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
        self._parked.changed(partition.topic_partition)
        return self._at_end(partition, state)

    def _append(
        self, partition: Partition, state: PartitionFetchState, data: PartitionData
    ) -> PartitionFetchState:
        log = partition.log
        assert state.fetch_offset == log.log_end_offset, "fetched beside the end of the log"
        next_offset, last_epoch = state.fetch_offset, None
        if data.records:
            partition.append_as_follower(data.records)
            if self.throttle.quota.limited:
                self.throttle.took(partition, len(data.records))
            if log.cut_unflushed:
                return self._at_end(partition, state)
            next_offset, last_epoch = log.log_end_offset, log.latest_epoch
        changed = partition.follow_high_watermark(data.high_watermark)
        changed |= partition.follow_log_start(data.log_start_offset)
        if changed or next_offset > state.fetch_offset:
            self._parked.changed(partition.topic_partition)
        return states.fetched(state, next_offset, last_epoch, data.high_watermark)

    def cut_to(
        self, topic_partition: TopicPartition, state: PartitionFetchState, offset: int
    ) -> PartitionFetchState | None:
        """The leader's log ends before ours (an unclean election): follow it down."""
        try:
            partition = self._hosted.require(topic_partition)
            partition.truncate_to(offset)
        except OSError as error:
            self._disk_error(topic_partition, error)
            return None
        except KafkaError as error:
            self._given_up(topic_partition, error)
            return None
        self._log.warning(
            "replica_truncated_to_leader_end", partition=str(topic_partition), offset=offset
        )
        self._parked.changed(topic_partition)
        return self._at_end(partition, state)

    def restart_at(
        self, topic_partition: TopicPartition, state: PartitionFetchState, leader_start_offset: int
    ) -> PartitionFetchState | None:
        """The leader's log starts at ``leader_start_offset``: drop everything if ours ends before
        it, else try again from our end."""
        try:
            partition = self._hosted.require(topic_partition)
            restart = restart_at_leader_start(partition.log.log_end_offset, leader_start_offset)
            if restart.start_at is not None:
                self._log.warning(
                    "replica_restarted", partition=str(topic_partition), offset=restart.start_at
                )
                partition.truncate_fully_and_start_at(restart.start_at)
                self._parked.changed(topic_partition)
        except OSError as error:
            self._disk_error(topic_partition, error)
            return None
        except KafkaError as error:
            self._given_up(topic_partition, error)
            return None
        return self._at_end(partition, state)

    def after_failure(
        self, topic_partition: TopicPartition, state: PartitionFetchState
    ) -> PartitionFetchState:
        """From where to try again what the disk was full for: the end of the log may have moved
        before that."""
        partition = self._hosted.require(topic_partition)
        log = partition.log
        if log.log_end_offset == state.fetch_offset and not log.cut_unflushed:
            return state
        self._parked.changed(topic_partition)
        return self._at_end(partition, state)

    async def flush_due(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Return when what ``flush.messages`` wants on disk is there: the next fetch of these
        followers acknowledges it."""
        partitions = (self._hosted.get(tp) for tp in topic_partitions)
        due = [p.log for p in partitions if p is not None and p.has_log and p.log.flush_due]
        if due:
            await self._logs.flush(due)

    def _disk_error(self, topic_partition: TopicPartition, error: OSError) -> None:
        if not self._on_disk_error(topic_partition, error):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _given_up(self, topic_partition: TopicPartition, error: KafkaError) -> None:
        """Our own log cannot be read, or does not take what the leader sent."""
        self._log.error("replica_failed", partition=str(topic_partition), error=str(error))

    def _at_end(self, partition: Partition, state: PartitionFetchState) -> PartitionFetchState:
        log = partition.log
        if log.cut_unflushed:
            self._cuts.begin(partition.topic_partition)
        return states.truncated(state, log.log_end_offset, log.latest_epoch, log.cut_unflushed)
