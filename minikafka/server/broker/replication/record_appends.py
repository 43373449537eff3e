"""Appends to the partitions led by this broker, and their acknowledgement (``appendRecords``).

``DelayedPartitionResults`` is the base of the delayed operations that wait for a result from each
of several partitions: of appends here, of DeleteRecords in ``record_deletion``."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeAlias, TypeVar

from minikafka.core.log.append import AppendOrigin, LogAppendInfo, RecordValidationError
from minikafka.core.log.config import NO_LIMIT
from minikafka.core.log.validation import PreparedBatch
from minikafka.core.log.verification import NOT_REQUIRED, Verification
from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.compiled import mypyc_attr
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Buffer, Clock
from minikafka.server.broker.purgatories import ReplicaPurgatories
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.broker.topic_metrics import TopicMetrics
from minikafka.server.storage.directories.log_manager import LogManager
from minikafka.server.storage.log.unified_log import UnifiedLog

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
VALID_ACKS = frozenset((ACKS_NONE, ACKS_LEADER, ACKS_ALL))

# The append info of a result whose append failed.
NO_APPEND = LogAppendInfo(-1, -1, -1, -1)


@mypyc_attr(allow_interpreted_subclasses=True)
class PartitionResult:
    """The result of a request for one partition. ``error`` is NONE while the partition is pending,
    and stays NONE after a success."""

    __slots__ = ("error", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, error: ErrorCode) -> None:
        self.topic_partition = topic_partition
        self.error = error


R = TypeVar("R", bound=PartitionResult)


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedPartitionResults(DelayedOperation, Generic[R]):
    """A delayed operation that waits for the results of several partitions.

    It calls ``reply`` with ``results`` when no partition is pending, or after ``timeout_ms``. After
    the time-out pending partitions have the error REQUEST_TIMED_OUT, and ``on_expired`` is called
    with their number. Partitions that have an error from the start are never pending. Subclasses
    implement ``_is_settled``.
    """

    __slots__ = ("_hosted", "_on_expired", "_pending", "_reply", "_results")
    __deletable__ = ("_reply", "_results")  # declared for mypyc

    def __init__(
        self,
        timeout_ms: int,
        results: Sequence[R],
        hosted: HostedPartitions,
        reply: Callable[[Sequence[R]], None],
        on_expired: Callable[[int], None],
    ) -> None:
        super().__init__(timeout_ms)
        self._results = results
        self._pending = [result for result in results if result.error == 0]
        self._hosted = hosted
        self._reply = reply
        self._on_expired = on_expired

    @abstractmethod
    def _is_settled(self, result: R) -> bool:
        """Check a pending partition. If its result is final, set its error, if any, and return
        True."""

    def try_complete(self) -> bool:
        pending = self._pending
        if len(pending) == 1 and not self._is_settled(pending[0]):
            return False  # the most frequent case
        self._pending = [result for result in pending if not self._is_settled(result)]
        return not self._pending and self.force_complete()

    def on_complete(self) -> None:
        for result in self._pending:
            result.error = ErrorCode.REQUEST_TIMED_OUT
        reply, results = self._reply, self._results
        # A completed operation may stay in watch lists until the next purge; its records must not.
        del self._reply, self._results
        reply(results)

    def watched_keys(self) -> Iterable[TopicPartition]:
        return (result.topic_partition for result in self._pending)

    def on_expiration(self) -> None:
        self._on_expired(len(self._pending))


class AppendResult(PartitionResult):
    """The result of one partition's append. After an error the offsets in ``info`` are -1.
    ``record_errors`` has (index in the batch, reason) of each record that failed validation."""

    __slots__ = ("error_message", "info", "record_errors")

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


class AppendEntry:
    """The records that a request appends to one partition. ``transaction_version`` is that of a
    marker.

    The other fields are set on the way to the log:

    - ``prepared``: the outcome of an early validation; None if the log shall validate the records.
    - ``guard``: the verification of a transactional batch (KIP-890). None if it has none; then it
      is refused if it needs one.
    - ``refused``: the result of an entry that must not be appended."""

    __slots__ = (
        "guard",
        "prepared",
        "records",
        "refused",
        "topic_partition",
        "transaction_version",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        records: Buffer,
        guard: Verification | None = NOT_REQUIRED,
        transaction_version: int = 0,
    ) -> None:
        self.transaction_version = transaction_version
        self.topic_partition = topic_partition
        self.records = records
        self.guard = guard
        self.prepared: PreparedBatch | None = None
        self.refused: AppendResult | None = None

    def keep_records(self) -> None:
        """Copy records that lie in a connection's receive buffer, which will be used again."""
        records = self.records
        if not isinstance(records, bytes):
            self.records = bytes(records)
            if self.prepared is not None:
                self.prepared = self.prepared.in_copy(records, self.records)


Entries: TypeAlias = Sequence[AppendEntry]
AppendReply: TypeAlias = Callable[[Sequence[AppendResult]], None]


class DelayedProduce(DelayedPartitionResults[AppendResult]):
    """An append with acks=-1 that waits for the in-sync replicas. A partition's result is final in
    one of Kafka's cases:

    A. The partition is not online on this broker any more.
    B. This broker no longer leads it.
    C. The high watermark has passed the records. C.1: fewer than ``min.insync.replicas`` are in
       sync then, which is an error although the records are committed. C.2: success.
    """

    __slots__ = ()

    def _is_settled(self, result: AppendResult) -> bool:
        partition = self._hosted.get(result.topic_partition)
        if partition is None:
            result.error = self._hosted.error_for(result.topic_partition)  # A
            return True
        error = partition.acknowledged(result.info.last_offset + 1)
        if error is None:
            return False
        result.error = error  # B, C.1, C.2
        return True


class RecordAppends:
    """Appends batches and parks a ``DelayedProduce`` for those with acks=-1.

    ``disk_failed`` is called when an append raises OSError."""

    def __init__(
        self,
        clock: Clock,
        hosted: HostedPartitions,
        purgatories: ReplicaPurgatories,
        log_manager: LogManager,
        disk_failed: Callable[[TopicPartition, OSError], object],
        metrics: Metrics,
        topic_metrics: TopicMetrics,
    ) -> None:
        self._clock = clock
        self._hosted = hosted
        self._purgatories = purgatories
        self._log_manager = log_manager
        self._disk_failed = disk_failed
        self._tasks: asyncio.TaskGroup | None = None
        self._topics = topic_metrics
        self._produce_expired = metrics.counter(
            "kafka.server:type=DelayedProduceMetrics,name=ExpiresPerSec"
        )

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def append(
        self,
        origin: AppendOrigin,
        entries: Entries,
        acks: int,
        timeout_ms: int,
        reply: AppendReply,
    ) -> None:
        """Append to each partition, and call ``reply`` with one result per entry, in their order.

        With acks=-1 ``reply`` is called when the in-sync replicas of every partition have the
        records, or after ``timeout_ms``. With acks 0 and 1, or if no append succeeded, it is called
        before this returns, except for a flush by ``flush.messages``."""
        if acks not in VALID_ACKS:
            reply([entry.refused or _invalid_acks(entry) for entry in entries])
            return
        results: list[AppendResult] = []
        advanced: list[TopicPartition] = []
        appended: list[TopicPartition] = []
        due: list[UnifiedLog] = []
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        for entry in entries:
            if entry.refused is not None:
                results.append(entry.refused)
                continue
            topic_partition, records = entry.topic_partition, entry.records
            partition = self._hosted.get(topic_partition)
            if partition is None:
                error = self._hosted.error_for(topic_partition)
                results.append(AppendResult(topic_partition, error))
                continue
            try:
                info, moved = partition.append_as_leader(
                    records,
                    acks,
                    wall_ms,
                    now_ms,
                    origin,
                    entry.guard,
                    entry.prepared,
                    entry.transaction_version,
                )
            except KafkaError as refusal:
                results.append(_refused(partition, refusal))
                self._topics.append_failed(topic_partition.topic)
                continue
            except OSError as failure:
                results.append(self.after_disk_failure(topic_partition, failure))
                continue
            (advanced if moved else appended).append(topic_partition)
            log = partition.log
            if log.config.flush_messages != NO_LIMIT and log.flush_due:
                due.append(log)
            results.append(AppendResult(topic_partition, ErrorCode.NONE, info))
            messages = info.last_offset - info.first_offset + 1
            self._topics.appended(topic_partition.topic, messages, len(records))
        if advanced:
            self._purgatories.partitions_changed(advanced)
        for topic_partition in appended:
            self._purgatories.log_end_moved(topic_partition)
        pending = advanced + appended if acks == ACKS_ALL else []
        if due:
            self._flush_then(
                due, results, lambda: self._acknowledge(pending, results, timeout_ms, reply)
            )
        else:
            self._acknowledge(pending, results, timeout_ms, reply)

    def after_disk_failure(self, topic_partition: TopicPartition, failure: OSError) -> AppendResult:
        """Note that the disk refused an append, and return its result."""
        self._disk_failed(topic_partition, failure)
        self._topics.append_failed(topic_partition.topic)
        return AppendResult(topic_partition, ErrorCode.KAFKA_STORAGE_ERROR)

    def _acknowledge(
        self,
        pending: list[TopicPartition],
        results: list[AppendResult],
        timeout_ms: int,
        reply: AppendReply,
    ) -> None:
        """Reply, or park the request until the in-sync replicas of ``pending`` have the records."""
        if not pending:
            reply(results)
            return
        operation = DelayedProduce(
            timeout_ms, results, self._hosted, reply, self._produce_expired.mark
        )
        self._purgatories.produce.try_complete_else_watch(operation, pending)

    def _flush_then(
        self, logs: Sequence[UnifiedLog], results: list[AppendResult], then: Callable[[], None]
    ) -> None:
        """Flush logs that have reached ``flush.messages``, then call ``then``. A failing disk takes
        its partitions offline, and their results become KAFKA_STORAGE_ERROR."""

        async def flush() -> None:
            await self._log_manager.flush(logs)
            for index, result in enumerate(results):
                if self._hosted.is_offline(result.topic_partition):
                    results[index] = AppendResult(
                        result.topic_partition, ErrorCode.KAFKA_STORAGE_ERROR
                    )
            then()

        assert self._tasks is not None
        self._tasks.create_task(flush(), name="log-flush")


def _invalid_acks(entry: AppendEntry) -> AppendResult:
    return AppendResult(entry.topic_partition, ErrorCode.INVALID_REQUIRED_ACKS)


def _refused(partition: Partition, error: KafkaError) -> AppendResult:
    """Return the result of a refused append. It has the log start offset, by which a producer whose
    sequence number is out of order sees whether its earlier batches were deleted."""
    info = NO_APPEND
    if partition.is_leader:
        info = LogAppendInfo(-1, -1, -1, partition.log.log_start_offset)
    record_errors = error.record_errors if isinstance(error, RecordValidationError) else ()
    return AppendResult(partition.topic_partition, error.code, info, error.message, record_errors)
