"""The partitions of an internal topic, as a coordinator appends to them and loads from them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from minikafka.core.log.append import AppendOrigin, LogAppendInfo
from minikafka.core.log.verification import NOT_REQUIRED, Verification
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import Buffer, Workers
from minikafka.protocol.records.batch import RecordBatch
from minikafka.protocol.records.compression import DecompressedTooLarge
from minikafka.server.broker.replication.record_appends import (
    AppendEntry,
    AppendReply,
    AppendResult,
    DelayedProduce,
)
from minikafka.server.broker.replication.replica_manager import ReplicaManager

# Called with the error of an append, or NONE, and the offset of its first record.
AppendDone: TypeAlias = Callable[[ErrorCode, int], None]

ON_LOOP_BYTES = 512 * 1024
ALL_IN_SYNC = -1
LEADER_ONLY = 1


class CoordinatorLog:
    """The partitions of ``topic`` that this broker leads. ``commit_timeout_ms`` is the longest wait
    for the in-sync replicas after an append."""

    def __init__(
        self, replicas: ReplicaManager, topic: str, commit_timeout_ms: int, workers: Workers
    ) -> None:
        self._replicas = replicas
        self._workers = workers
        self._topic = topic
        self._commit_timeout_ms = commit_timeout_ms

    def append(self, partition: int, batch: bytes, done: AppendDone) -> None:
        """Append a batch. ``done`` is called once with the error (or NONE) and the offset of the
        first record, when all in-sync replicas have the batch or ``commit_timeout_ms`` has
        passed."""
        self._append(partition, batch, ALL_IN_SYNC, done)

    def append_on_leader(self, partition: int, batch: bytes, done: AppendDone) -> None:
        """Append a batch. ``done`` is called when the leader has it, without waiting for others."""
        self._append(partition, batch, LEADER_ONLY, done)

    def append_in_transaction(
        self, partition: int, batch: bytes, guard: Verification | None, done: AppendDone
    ) -> None:
        """Append a transactional batch, and wait for replicas. ``guard`` is its verification
        (KIP-890). With None a batch that needs verification is refused."""
        self._append(partition, batch, ALL_IN_SYNC, done, guard)

    def _append(
        self,
        partition: int,
        batch: bytes,
        acks: int,
        done: AppendDone,
        guard: Verification | None = NOT_REQUIRED,
    ) -> None:
        self._replicas.appends.append(
            AppendOrigin.COORDINATOR,
            [AppendEntry(TopicPartition(self._topic, partition), batch, guard)],
            acks,
            self._commit_timeout_ms,
            _reply_to(done),
        )

    def bounds(self, partition: int) -> tuple[int, int] | None:
        """Return the log start offset and log end offset; None if this broker does not lead the
        partition."""
        found = self._replicas.hosted.get(TopicPartition(self._topic, partition))
        if found is None or not found.is_leader:
            return None
        return found.log.log_start_offset, found.log.log_end_offset

    async def replicated(self, partition: int) -> bool:
        """Wait until the high watermark reaches the current log end. False if this broker stops
        leading the partition before."""
        topic_partition = TopicPartition(self._topic, partition)
        bounds = self.bounds(partition)
        if bounds is None:
            return False
        last = LogAppendInfo(-1, bounds[1] - 1, -1, -1)
        while True:
            settled: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
            self._replicas.purgatories.produce.try_complete_else_watch(
                DelayedProduce(
                    self._commit_timeout_ms,
                    [AppendResult(topic_partition, ErrorCode.NONE, last)],
                    self._replicas.hosted,
                    partial(_settle, settled),
                    lambda expired: None,
                ),
                [topic_partition],
            )
            error = await settled
            if error is not ErrorCode.REQUEST_TIMED_OUT:
                # NOT_ENOUGH_REPLICAS_AFTER_APPEND: all in-sync replicas have the records, although
                # they are fewer than min.insync.replicas.
                return error in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    async def opened(self, batch: RecordBatch) -> bytes:
        """Return the records of ``batch``, decompressed. A worker decompresses what has more than
        ``ON_LOOP_BYTES``. Raises KafkaError."""
        try:
            return batch.plain_records(ON_LOOP_BYTES)
        except DecompressedTooLarge:
            return await self._workers.run(batch.plain_records)

    async def read(self, partition: int, offset: int, max_bytes: int) -> Buffer:
        """Read complete batches from ``offset`` on, up to ``max_bytes``, but at least one if there
        is one. Batches above the high watermark are included, since a new leader keeps its whole
        log. Raises KafkaError, OSError."""
        log = self._replicas.hosted.require(TopicPartition(self._topic, partition)).log
        found = await log.read_cold(offset, max_bytes, log.log_end_offset, min_one_message=True)
        return found.records


def _reply_to(done: AppendDone) -> AppendReply:
    def reply(results: Sequence[AppendResult]) -> None:
        done(results[0].error, results[0].info.first_offset)

    return reply


def _settle(settled: asyncio.Future[ErrorCode], results: Sequence[AppendResult]) -> None:
    if not settled.done():  # the waiting task may have been cancelled
        settled.set_result(results[0].error)
