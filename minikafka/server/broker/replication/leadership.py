"""The effects of LeaderAndIsr and StopReplica on the partitions of this broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from minikafka.core.replication.fetch_state import PartitionFetchState, initial_truncation
from minikafka.kernel.cluster import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    Endpoint,
    TopicPartition,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock
from minikafka.server.broker.metadata.topic_configs import TopicConfigCache
from minikafka.server.broker.purgatories import ReplicaPurgatories
from minikafka.server.broker.replication.fetcher_manager import ReplicaFetcherManager
from minikafka.server.broker.replication.hosted_partitions import (
    HighWatermarkCheckpoint,
    HostedPartitions,
)
from minikafka.server.broker.replication.log_dir_failures import LogDirFailures
from minikafka.server.broker.replication.partition import Instruction, Partition
from minikafka.server.storage.directories.log_manager import LogManager


@dataclass(frozen=True, slots=True)
class Stop:
    """A replica to stop, and whether to ``delete`` its log. ``leader_epoch`` is -2 for a topic that
    is being deleted, and -1 before version 3 of StopReplica; neither is checked."""

    topic_partition: TopicPartition
    leader_epoch: int = NO_EPOCH
    delete: bool = False


class Leadership:
    """Makes partitions leaders or followers, and stops replicas, without waiting.

    ``new_partition`` creates a Partition without a role. ``on_disk_error`` is called when a log
    raises OSError."""

    def __init__(
        self,
        clock: Clock,
        broker_id: int,
        hosted: HostedPartitions,
        purgatories: ReplicaPurgatories,
        fetchers: ReplicaFetcherManager,
        checkpoint: HighWatermarkCheckpoint,
        log_dir_failures: LogDirFailures,
        log_manager: LogManager,
        topic_configs: TopicConfigCache,
        new_partition: Callable[[TopicPartition], Partition],
        on_disk_error: Callable[[TopicPartition, OSError], bool],
    ) -> None:
        self._clock = clock
        self._broker_id = broker_id
        self._hosted = hosted
        self._purgatories = purgatories
        self._fetchers = fetchers
        self._checkpoint = checkpoint
        self._log_dir_failures = log_dir_failures
        self._log_manager = log_manager
        self._topic_configs = topic_configs
        self._new_partition = new_partition
        self._on_disk_error = on_disk_error
        self._log = event_log("state-change", broker=broker_id)

    # ------------------------------------------------------------------------------- LeaderAndIsr

    def apply(
        self, instructions: Iterable[Instruction], live_leaders: Mapping[int, Endpoint]
    ) -> dict[TopicPartition, ErrorCode]:
        """Apply the instructions of a LeaderAndIsr request. Returns each partition's error.

        ``live_leaders`` are the leaders' addresses in the request, for leaders that are not in the
        metadata cache yet."""
        errors = {
            instruction.topic_partition: self._apply_one(instruction, live_leaders)
            for instruction in instructions
        }
        # Complete the requests that were parked under the old role.
        self._purgatories.partitions_changed(
            [tp for tp, code in errors.items() if code is ErrorCode.NONE]
        )
        return errors

    def _apply_one(
        self, instruction: Instruction, live_leaders: Mapping[int, Endpoint]
    ) -> ErrorCode:
        topic_partition = instruction.topic_partition
        if self._hosted.is_offline(topic_partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._hosted.get(topic_partition)
        if partition is None:
            partition = self._new_partition(topic_partition)
        refusal = self._refusal(partition, instruction)
        if refusal is not None:
            # The controller repeats an instruction when it removes a replica from an ISR that an
            # election had shrunk already. Repetitions are logged at debug level.
            epoch = instruction.leader_and_isr.leader_epoch
            write = self._log.debug if epoch == partition.leader_epoch else self._log.info
            write(
                "instruction_ignored",
                partition=str(topic_partition),
                error=refusal.name,
                leader_epoch=epoch,
                known_leader_epoch=partition.leader_epoch,
            )
            return refusal
        try:
            if instruction.leader_and_isr.leader_epoch == partition.leader_epoch:
                self._change_topic_id(partition, instruction)
                return ErrorCode.NONE
            self._open_log(partition, instruction)
            if instruction.leader_and_isr.leader == self._broker_id:
                self._become_leader(partition, instruction)
            else:
                self._become_follower(partition, instruction, live_leaders)
            if partition.log.cut_unflushed:
                self._fetchers.flush_truncation(topic_partition)
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                if self._log_manager.directories.offline:
                    # The log may be in one of the failed directories.
                    self._hosted.mark_offline(topic_partition)
                else:
                    self._log_dir_failures.lacked_space()
            return error.code
        except OSError as error:
            self._on_disk_error(topic_partition, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def _change_topic_id(self, partition: Partition, instruction: Instruction) -> None:
        """Apply an instruction that only brings or takes away the topic id. Raises OSError.

        The controller's inter-broker protocol was raised over 2.8 or lowered. A partition keeps its
        id, since ``partition.metadata`` does; only the follower's requests lose it."""
        topic_id = instruction.topic_id
        if topic_id is not None:
            self._log_manager.get_or_create(
                partition.topic_partition, topic_id, partition.config.log
            )
            self._hosted.identify(partition, topic_id)
        self._fetchers.set_topic_id(partition.topic_partition, topic_id)

    def _refusal(self, partition: Partition, instruction: Instruction) -> ErrorCode | None:
        """Return the error of an instruction that must not be applied, or None.

        INCONSISTENT_TOPIC_ID: it is for another topic of the same name. STALE_CONTROLLER_EPOCH: its
        leader epoch is not new. UNKNOWN_TOPIC_OR_PARTITION: this broker is not a replica."""
        epoch = instruction.leader_and_isr.leader_epoch
        if not partition.accepts_topic_id(instruction.topic_id):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if epoch < partition.leader_epoch or (
            epoch == partition.leader_epoch
            and not _changes_topic_id(partition, instruction, self._broker_id)
        ):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self._broker_id not in instruction.assignment.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return None

    def _open_log(self, partition: Partition, instruction: Instruction) -> None:
        """Create the partition's log or open the one on disk, and configure it. A log without a
        topic id gets that of the instruction. Raises OSError, and
        KafkaError(INCONSISTENT_TOPIC_ID)."""
        topic_partition = instruction.topic_partition
        config = self._topic_configs.get(topic_partition.topic)
        has_log = partition.has_log
        if not has_log or (instruction.topic_id is not None and partition.log.topic_id is None):
            log = self._log_manager.get_or_create(
                topic_partition, instruction.topic_id, config.log, instruction.is_new
            )
        if not has_log:
            partition.open_log(log, self._checkpoint.get(topic_partition))
            self._hosted.add(partition)
        partition.configure(config)
        topic_id = instruction.topic_id or partition.log.topic_id
        if topic_id is not None:
            self._hosted.identify(partition, topic_id)

    def _become_leader(self, partition: Partition, instruction: Instruction) -> None:
        topic_partition = partition.topic_partition
        self._fetchers.remove([topic_partition])
        partition.make_leader(instruction, self._clock.monotonic_ms())
        self._log.info(
            "replica_became_leader",
            partition=str(topic_partition),
            leader_epoch=partition.leader_epoch,
            start_offset=partition.state.leader_epoch_start_offset,
            high_watermark=partition.high_watermark,
            isr=instruction.leader_and_isr.isr,
            controller_epoch=instruction.controller_epoch,
        )

    def _become_follower(
        self,
        partition: Partition,
        instruction: Instruction,
        live_leaders: Mapping[int, Endpoint],
    ) -> None:
        topic_partition = partition.topic_partition
        leader = instruction.leader_and_isr.leader
        fresh = partition.make_follower(instruction)
        self._log.info(
            "replica_became_follower",
            partition=str(topic_partition),
            leader=leader,
            leader_epoch=partition.leader_epoch,
            log_end_offset=partition.log.log_end_offset,
            high_watermark=partition.high_watermark,
            controller_epoch=instruction.controller_epoch,
        )
        if not fresh:
            return
        self._fetchers.remove([topic_partition])
        log = partition.log
        cut = initial_truncation(log.log_end_offset, partition.high_watermark, log.latest_epoch)
        if cut is not None:
            partition.truncate_to(cut.offset)
        if leader >= 0:
            state = PartitionFetchState(
                # Not the id on disk: without one in the request the leader may know none either.
                instruction.topic_id,
                partition.leader_epoch,
                log.log_end_offset,
                log.latest_epoch,
                truncating=log.cut_unflushed,
            )
            self._fetchers.add(leader, topic_partition, state, live_leaders.get(leader))

    # -------------------------------------------------------------------------------- StopReplica

    def stop(
        self, stops: Sequence[Stop]
    ) -> tuple[dict[TopicPartition, ErrorCode], list[TopicPartition]]:
        """Stop fetching the partitions, and remove those with ``delete`` set. Returns each
        partition's error, and the partitions whose logs the caller must delete."""
        errors = {stop.topic_partition: self._stop_refusal(stop) for stop in stops}
        obeyed = [stop for stop in stops if errors[stop.topic_partition] is ErrorCode.NONE]
        self._fetchers.remove([stop.topic_partition for stop in obeyed])
        for stop in obeyed:
            if stop.delete:
                self._hosted.remove(stop.topic_partition)
                self._topic_configs.forget(stop.topic_partition.topic)
            self._log.info(
                "replica_stopped", partition=str(stop.topic_partition), delete=stop.delete
            )
        # Complete the requests that were parked at this leader, with errors.
        self._purgatories.partitions_changed([stop.topic_partition for stop in obeyed])
        return errors, [stop.topic_partition for stop in obeyed if stop.delete]

    def _stop_refusal(self, stop: Stop) -> ErrorCode:
        if self._hosted.is_offline(stop.topic_partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._hosted.get(stop.topic_partition)
        if (
            partition is not None
            and stop.leader_epoch not in (NO_EPOCH, EPOCH_DURING_DELETE)
            and stop.leader_epoch < partition.leader_epoch
        ):
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE


def _changes_topic_id(partition: Partition, instruction: Instruction, broker_id: int) -> bool:
    """Whether a repeated instruction brings the topic id that the partition lacks, or has none
    although the partition, of a follower, has one."""
    if instruction.topic_id is not None:
        return partition.topic_id is None
    return partition.topic_id is not None and instruction.leader_and_isr.leader != broker_id
