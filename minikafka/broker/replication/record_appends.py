"""Records that producers send: appended to the partitions led here, acknowledged in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from minikafka.broker.purgatories import ParkedRequests
from minikafka.broker.replication.delayed_produce import (
    NO_APPEND,
    AppendReply,
    AppendResult,
    DelayedProduce,
)
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.core.log.append import AppendOrigin, RecordValidationError
from minikafka.core.log.config import NO_LIMIT
from minikafka.core.log.verification import NOT_REQUIRED, Verification
from minikafka.kernel.cluster import INTERNAL_TOPICS, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Buffer, Clock
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.log.unified_log import UnifiedLog

# By partition; one without was not verified.
Guards: TypeAlias = Mapping[TopicPartition, Verification]


class RecordAppends:
    """``disk_failed`` hears of an append that the disk refused."""

    def __init__(
        self,
        clock: Clock,
        hosted: HostedPartitions,
        parked: ParkedRequests,
        log_manager: LogManager,
        disk_failed: Callable[[TopicPartition, OSError], object],
        metrics: Metrics,
    ) -> None:
        self._clock = clock
        self._hosted = hosted
        self._parked = parked
        self._log_manager = log_manager
        self._disk_failed = disk_failed
        self._tasks: asyncio.TaskGroup | None = None
        self._messages_in = metrics.counter("kafka.server:MessagesInPerSec")
        self._bytes_in = metrics.counter("kafka.server:BytesInPerSec")
        self._produce_expired = metrics.counter("kafka.server:DelayedProduceExpiresPerSec")

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def append_records(
        self,
        entries: Sequence[tuple[TopicPartition, Buffer]],
        acks: int,
        timeout_ms: int,
        reply: AppendReply,
        internal_topics_allowed: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guards: Guards | None = None,
    ) -> None:
        """Append to each partition, and ``reply`` with one result for each, in their order.
        ``guards``: by which batches of transactions were verified; None: none has to be.

        With acks=-1 the reply waits for the in-sync replicas of every partition appended to, up to
        ``timeout_ms``; if none was appended to, or with acks 0 and 1, it comes in the same breath.
        """
        if acks not in (-1, 0, 1):
            reply([AppendResult(tp, ErrorCode.INVALID_REQUIRED_ACKS) for tp, _ in entries])
            return
        results: list[AppendResult] = []
        advanced: list[TopicPartition] = []
        appended: list[TopicPartition] = []
        due: list[UnifiedLog] = []
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        for topic_partition, records in entries:
            if topic_partition.topic in INTERNAL_TOPICS and not internal_topics_allowed:
                results.append(AppendResult(topic_partition, ErrorCode.INVALID_TOPIC_EXCEPTION))
                continue
            try:
                partition = self._hosted.require(topic_partition)
                guard = NOT_REQUIRED if guards is None else guards.get(topic_partition)
                info, moved = partition.append_as_leader(
                    records, acks, wall_ms, now_ms, origin, guard
                )
            except KafkaError as error:
                results.append(self._append_error(topic_partition, error))
                continue
            except OSError as error:
                self._disk_failed(topic_partition, error)
                results.append(AppendResult(topic_partition, ErrorCode.KAFKA_STORAGE_ERROR))
                continue
            (advanced if moved else appended).append(topic_partition)
            log = partition.log
            if log.config.flush_messages != NO_LIMIT and log.flush_due:
                due.append(log)
            results.append(AppendResult(topic_partition, ErrorCode.NONE, info))
            self._messages_in.mark(info.last_offset - info.first_offset + 1)
            self._bytes_in.mark(len(records))
        for topic_partition in advanced:
            self._parked.changed(topic_partition)
        for topic_partition in appended:
            self._parked.appended(topic_partition)
        waits_for = advanced + appended if acks == -1 else []
        if due:
            self._flush_then(
                due, results, lambda: self._acknowledge(waits_for, results, timeout_ms, reply)
            )
        else:
            self._acknowledge(waits_for, results, timeout_ms, reply)

    def _acknowledge(
        self,
        waits_for: list[TopicPartition],
        results: list[AppendResult],
        timeout_ms: int,
        reply: AppendReply,
    ) -> None:
        """``waits_for``: whose in-sync replicas have to have it first."""
        if not waits_for:
            reply(results)
            return
        operation = DelayedProduce(
            timeout_ms, results, self._hosted, reply, self._produce_expired.mark
        )
        self._parked.produce.try_complete_else_watch(operation, waits_for)

    def _flush_then(
        self, logs: Sequence[UnifiedLog], results: list[AppendResult], then: Callable[[], None]
    ) -> None:
        """``flush.messages``: what was appended is on disk before anybody is told so."""

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

    def _append_error(self, topic_partition: TopicPartition, error: KafkaError) -> AppendResult:
        """With the log start offset, by which a producer that is out of sequence sees whether its
        past was deleted."""
        partition = self._hosted.get(topic_partition)
        info = NO_APPEND
        if partition is not None and partition.is_leader:
            info = info._replace(log_start_offset=partition.log.log_start_offset)
        record_errors = error.record_errors if isinstance(error, RecordValidationError) else ()
        return AppendResult(topic_partition, error.code, info, error.message, record_errors)
