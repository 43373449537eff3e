"""The periodic tasks of a broker's logs: retention, flushes by time, checkpoints, expiration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from minikafka.core.log.retention import RetainedSegment, plan_retention
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock
from minikafka.kernel.slices import in_slices
from minikafka.server.storage.directories.config import LogManagerConfig
from minikafka.server.storage.directories.log_directories import LogDirectories
from minikafka.server.storage.directories.log_directory import LogDirectory
from minikafka.server.storage.log.flushes import LogFlushes
from minikafka.server.storage.log.index_writes import IndexWrites
from minikafka.server.storage.log.unified_log import UnifiedLog

_INDEX_WRITES_INTERVAL_MS: Final = 1000
_NEVER_MS: Final = 100 * 365 * 24 * 60 * 60 * 1000


def delete_old_segments(log: UnifiedLog, now_ms: int, high_watermark: int, events: EventLog) -> int:
    """Move the log start offset beyond the segments that retention deletes; return their number.

    Their files are removed after the new log start offset is on disk. Raises OSError. Kafka:
    ``UnifiedLog.deleteOldSegments``."""
    facts = [
        RetainedSegment(s.base_offset, s.size_bytes, s.largest_timestamp) for s in log.segments
    ]
    start = log.log_start_offset
    plan = plan_retention(
        facts, log.config, now_ms, max(high_watermark, start), start, log.log_end_offset
    )
    if not plan.deletions:
        return 0
    by_reason = grouped((deletion.reason, deletion.base_offset) for deletion in plan.deletions)
    for reason, base_offsets in by_reason.items():
        events.info(
            "segments_deleted",
            log=str(log.topic_partition),
            reason=reason,
            segments=base_offsets,
            log_start_offset=plan.log_start_offset,
        )
    if plan.roll:
        log.roll()
    if not log.increment_log_start_offset(plan.log_start_offset):
        log.retry_removal()
    return len(plan.deletions)


class LogBackgroundTasks:
    """The tasks that Kafka's ``LogManager`` schedules, each with its interval.

    ``high_watermark`` returns the high watermark of a partition: retention deletes no record at or
    above it. ``failed`` is called with a directory and the OSError that it raised."""

    def __init__(
        self,
        clock: Clock,
        config: LogManagerConfig,
        directories: LogDirectories,
        flushes: LogFlushes,
        index_writes: IndexWrites,
        high_watermark: Callable[[TopicPartition], int | None],
        failed: Callable[[LogDirectory, OSError], object],
        events: EventLog,
    ) -> None:
        self._clock = clock
        self._config = config
        self._directories = directories
        self._flushes = flushes
        self._index_writes = index_writes
        self._high_watermark = high_watermark
        self._failed = failed
        self._events = events

    def tasks(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return the coroutines to run until they are cancelled, by the names of Kafka's tasks.

        Kafka has no task for the index files of active segments: it maps them into memory."""
        config = self._config
        every = {
            "kafka-log-retention": (config.log_retention_check_interval_ms, self.retain),
            "kafka-log-flusher": (config.log_flush_scheduler_interval_ms, self.flush_dirty),
            "kafka-recovery-point-checkpoint": (
                config.log_flush_offset_checkpoint_interval_ms,
                self.checkpoint_recovery_points,
            ),
            "PeriodicProducerExpirationCheck": (
                config.producer_id_expiration_check_interval_ms,
                self.expire_producers,
            ),
            "kafka-log-start-offset-checkpoint": (
                config.log_flush_start_offset_checkpoint_interval_ms,
                self.checkpoint_starts,
            ),
        }
        found = {
            name: self._every(interval_ms, work)
            for name, (interval_ms, work) in every.items()
            if interval_ms < _NEVER_MS
        }
        return found | {"active-index-writer": self._write_indexes_regularly()}

    async def _every(self, interval_ms: int, work: Callable[[], Awaitable[object]]) -> None:
        await self._clock.sleep(self._config.log_initial_task_delay_ms)
        while True:
            await work()
            await self._clock.sleep(interval_ms)

    async def _each_log(self, work: Callable[[UnifiedLog], Awaitable[None]]) -> None:
        """Call ``work`` for each log of each live directory, and yield to other tasks regularly."""
        for directory in list(self._directories.live):
            async for log in in_slices(list(directory.logs.values()), look_every=1):
                if log.closed:
                    continue
                try:
                    await work(log)
                except OSError as error:
                    self._failed(directory, error)

    async def retain(self) -> int:
        """Delete old segments of all logs; return their number."""
        deleted = 0

        async def one(log: UnifiedLog) -> None:
            nonlocal deleted
            high_watermark = self._high_watermark(log.topic_partition)
            if high_watermark is None:  # the broker does not host the partition
                high_watermark = log.log_start_offset
            deleted += delete_old_segments(log, self._clock.wall_ms(), high_watermark, self._events)

        await self._each_log(one)
        return deleted

    async def flush_dirty(self) -> None:
        """Flush the logs that have not been flushed for ``flush.ms``."""

        async def one(log: UnifiedLog) -> None:
            waited_ms = self._clock.monotonic_ms() - log.last_flush_ms
            if waited_ms >= log.config.flush_ms and log.recovery_point < log.log_end_offset:
                await self._flushes.up_to_now(log)

        await self._each_log(one)

    async def checkpoint_recovery_points(self) -> None:
        """Flush the rolled segments of all logs, then checkpoint the recovery points."""

        async def one(log: UnifiedLog) -> None:
            active = log.segments.active
            if active is not None and log.recovery_point < active.base_offset:
                await self._flushes.flush(log, active.base_offset)

        await self._each_log(one)
        await self._write(LogDirectory.checkpoint_recovery_points)

    async def expire_producers(self) -> None:
        """Forget producers that have not written for ``producer.id.expiration.ms``."""

        async def one(log: UnifiedLog) -> None:
            expiration_ms = self._config.producer_id_expiration_ms
            log.producers.states.expire(self._clock.wall_ms(), expiration_ms)

        await self._each_log(one)

    async def checkpoint_starts(self) -> None:
        await self._write(LogDirectory.checkpoint_starts)

    async def _write_indexes_regularly(self) -> None:
        while True:
            await self._clock.sleep(_INDEX_WRITES_INTERVAL_MS)
            await self._index_writes.write_some()

    async def _write(self, checkpoint: Callable[[LogDirectory], Awaitable[None]]) -> None:
        for directory in list(self._directories.live):
            try:
                await checkpoint(directory)
            except OSError as error:
                self._failed(directory, error)
