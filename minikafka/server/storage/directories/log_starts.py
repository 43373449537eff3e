"""Checkpoints of log start offsets that have moved, and removal of the segments below them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock
from minikafka.server.storage.directories.log_directory import LogDirectory
from minikafka.server.storage.log.unified_log import UnifiedLog

_PAUSE_MS: Final = 1_000  # between two flushes, however often log starts move
_CHECKED_AT_ONCE: Final = 100  # starts that are written together; the checkpoint of all checks all


class LogStarts:
    """Checkpoints the log start offsets that have moved. Call ``moved`` for each.

    If a broker lost a log start offset, deleted records would be readable again. So it is written
    in two steps: ``write``, before a response contains the new offset, so that it survives a killed
    process; then the task of ``run`` flushes the file, so that it survives a power loss, and
    removes the segments below the offset. Kafka writes these offsets once a minute.
    """

    def __init__(
        self,
        clock: Clock,
        events: EventLog,
        failed: Callable[[LogDirectory, OSError], object] = lambda *_: None,
    ) -> None:
        """``failed`` is called with each directory that could not be written and its error."""
        self.moves = 0  # of all logs
        self._clock = clock
        self._events = events
        self._on_failure = failed
        # The directories with starts that were not written, by path, and some of these logs.
        self._unwritten: dict[str, tuple[LogDirectory, list[UnifiedLog]]] = {}
        self._unsettled: dict[TopicPartition, tuple[LogDirectory, UnifiedLog]] = {}
        self._wake = asyncio.Event()

    def moved(self, directory: LogDirectory, log: UnifiedLog) -> None:
        self.moves += 1
        _, logs = self._unwritten.setdefault(directory.path, (directory, []))
        if len(logs) < _CHECKED_AT_ONCE:
            logs.append(log)
        self._unsettled[log.topic_partition] = (directory, log)
        self._wake.set()

    def write(self) -> None:
        """Write the offsets that have moved since the last call, without flushing.

        If a directory cannot be written, it keeps its old file and ``failed`` is called. Does not
        raise OSError."""
        if not self._unwritten:
            return
        directories, self._unwritten = self._unwritten, {}
        for directory, logs in directories.values():
            for log in filter(directory.is_in_use, logs):
                directory.check_start(log)
            try:
                directory.write_starts()
            except OSError as error:
                self._failed(directory, error)

    async def run(self) -> None:
        """Flush checkpoints and remove segments until cancelled, at most once a second."""
        while True:
            await self._wake.wait()
            await self.settle()
            await self._clock.sleep(_PAUSE_MS)

    async def settle(self) -> None:
        """Flush the offsets that have moved, then remove the segments below them.

        Yields to other tasks after each segment. A directory that fails is tried again when one of
        its log start offsets moves again. Does not raise OSError."""
        self._wake.clear()
        unsettled, self._unsettled = self._unsettled, {}
        directories = {directory.path: directory for directory, _ in unsettled.values()}
        for directory in directories.values():
            self._unwritten.pop(directory.path, None)  # written before the next await
            try:
                await directory.flush_starts()
                for its, log in unsettled.values():
                    if its is directory:
                        await _remove_dead_segments(log)
            except OSError as error:
                self._failed(directory, error)

    def _failed(self, directory: LogDirectory, error: OSError) -> None:
        self._events.error("log_start_write_failed", directory=directory.path, error=str(error))
        self._on_failure(directory, error)


async def _remove_dead_segments(log: UnifiedLog) -> None:
    for _ in range(len(log.segments)):
        if not log.remove_dead_segment():
            break
        await asyncio.sleep(0)  # the files may be large
