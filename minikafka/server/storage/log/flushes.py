"""Flushes that requests wait for: one at a time for each log, shared by all waiting requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.disk_errors import was_not_flushed
from minikafka.kernel.metrics import Histogram
from minikafka.kernel.ports import Clock
from minikafka.server.storage.log.unified_log import UnifiedLog

RETRY_MS: Final = 100


class LogFlushes:
    """Runs one flush of a log at a time. ``failed`` is called with a log and its OSError.

    A failed flush must not be tried again: the kernel may have dropped the dirty pages, and then a
    second flush succeeds although the records are lost. For lack of descriptors, or of room for the
    indexes, nothing was flushed at all: that flush is repeated until there are some."""

    def __init__(
        self,
        clock: Clock,
        current: Callable[[TopicPartition], UnifiedLog | None],
        failed: Callable[[UnifiedLog, OSError], None],
        times: Histogram | None = None,
    ) -> None:
        """``current`` returns the log of a partition, which is another one after a move between log
        directories. ``times`` records how long flushes take, in microseconds."""
        self._clock = clock
        self._current = current
        self._failed = failed
        self._times = times or Histogram()
        self._running: dict[UnifiedLog, asyncio.Event] = {}

    async def up_to_now(self, log: UnifiedLog) -> None:
        """Return when all current records of the log are on disk, or the log has failed."""
        end = log.log_end_offset
        await self._turn(log)
        if not log.closed and (log.recovery_point < end or log.cut_unflushed):
            await self.flush(log)
        replaced_by = self._current(log.topic_partition) if log.closed else None
        if replaced_by is not None and replaced_by is not log:
            await self.up_to_now(replaced_by)  # the last records were copied to it without a flush

    async def flush(self, log: UnifiedLog, before_offset: int | None = None) -> None:
        """Flush a log up to ``before_offset`` (None: its end), after other flushes of it. Calls
        ``failed`` where the disk refuses."""
        await self._turn(log)
        done = self._running[log] = asyncio.Event()
        if before_offset is None:
            log.last_flush_ms = self._clock.monotonic_ms()
        try:
            while not await self._has_flushed(log, before_offset):
                await self._clock.sleep(RETRY_MS)
        except OSError as error:
            if not log.closed:
                self._failed(log, error)
        finally:
            del self._running[log]
            done.set()

    async def _has_flushed(self, log: UnifiedLog, before_offset: int | None) -> bool:
        """Flush the log. Return False if the flush has to be repeated (``was_not_flushed``)."""
        started_ns = self._clock.monotonic_ns()
        try:
            await log.flush(before_offset)
            self._times.record((self._clock.monotonic_ns() - started_ns) // 1000)
        except OSError as error:
            if not was_not_flushed(error) or log.closed:
                raise
            return False
        return True

    async def _turn(self, log: UnifiedLog) -> None:
        """Wait for the end of the running flush, which does not cover records appended since it
        started."""
        while (running := self._running.get(log)) is not None:
            await running.wait()


async def bring_to_disk(logs: Sequence[UnifiedLog], at_once: int) -> None:
    """Write everything that is only in memory and flush all files of ``logs``, ``at_once`` logs at
    a time, for a clean shutdown. Raises the first OSError after all logs have been tried."""
    turns = asyncio.Semaphore(at_once)
    errors: list[OSError] = []

    async def settle(log: UnifiedLog) -> None:
        async with turns:
            try:
                log.persist()
                await log.flush()
            except OSError as error:
                errors.append(error)

    async with asyncio.TaskGroup() as tasks:
        for log in logs:
            tasks.create_task(settle(log))
    if errors:
        raise errors[0]
