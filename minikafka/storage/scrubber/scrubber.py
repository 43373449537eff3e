"""The log scrubber: reads all sealed segments, slowly and repeatedly, to find damaged batches.

A flipped bit on a disk is otherwise noticed when a consumer reads it, perhaps years later, when no
other replica has the records any more. Kafka has nothing like it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from minikafka.core.log.scrubbing import ScrubPace, check_batches
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.events import EventLog
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock
from minikafka.protocol.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD, parse_batch
from minikafka.storage.directories.log_directory import LogDirectory
from minikafka.storage.log.segment import LogSegment
from minikafka.storage.log.unified_log import UnifiedLog
from minikafka.storage.scrubber.config import LogScrubberConfig

_CHUNK_BYTES: Final = 256 * 1024


class DamagedBatch(NamedTuple):
    """The first damaged batch of a log. It starts at ``position`` (bytes) of ``segment``, and its
    offsets are not below ``offset``. A truncation to ``keep_below`` removes it: this is the base
    offset of the last valid batch before it, since damaged headers cannot be searched."""

    log: UnifiedLog
    segment: LogSegment
    position: int
    offset: int
    keep_below: int
    fault: str
    found_ms: int
    cuts: int

    @property
    def topic_partition(self) -> TopicPartition:
        return self.log.topic_partition

    @property
    def is_there(self) -> bool:
        """Whether the log still has the segment and was not truncated since. After a truncation
        the next round has to find the damage again."""
        log = self.log
        return not log.closed and log.cuts == self.cuts and log.segments.holds([self.segment])


class LogScrubber:
    """Checks the sealed segments of the logs in ``directories()``, one after the other.

    It remembers only in memory how far it has come, and begins again after a restart.

    ``failed`` is called with a directory and the OSError that it raised."""

    def __init__(
        self,
        clock: Clock,
        config: LogScrubberConfig,
        directories: Callable[[], Iterable[LogDirectory]],
        failed: Callable[[LogDirectory, OSError], object],
        events: EventLog,
    ) -> None:
        self._clock = clock
        self._config = config
        self._directories = directories
        self._failed = failed
        self._events = events
        self._pace = ScrubPace(max(config.bytes_per_second, 1))
        self._damaged: dict[UnifiedLog, DamagedBatch] = {}
        self.rounds = 0
        self.bytes_read = 0

    @property
    def is_on(self) -> bool:
        return self._config.bytes_per_second > 0

    async def run(self) -> None:
        while True:
            await self.scrub_all()
            await self._clock.sleep(self._config.interval_ms)

    def damaged(self) -> list[DamagedBatch]:
        """Return the damaged batches that logs still have, one for each log."""
        self._damaged = {log: batch for log, batch in self._damaged.items() if batch.is_there}
        return list(self._damaged.values())

    async def scrub_all(self) -> None:
        """Check all sealed segments once. Errors of one log are handled here and not raised."""
        for directory in list(self._directories()):
            for log in list(directory.logs.values()):
                try:
                    await self._scrub(log)
                except OSError as error:
                    if not log.closed:
                        self._failed(directory, error)
        self.rounds += 1

    async def _scrub(self, log: UnifiedLog) -> None:
        if log in self._damaged and self._damaged[log].is_there:
            return  # it is known, and will be truncated there
        before: int | None = None  # the start of the last valid batch
        for segment in list(log.segments)[:-1]:
            following = log.segments.after(segment.base_offset)
            if following is None or not _holds(log, segment):
                return  # the log has changed; the next round reads it again
            position, next_offset = 0, segment.base_offset
            while position < segment.size_bytes:
                data = await self._read(log, segment, position)
                if data is None:
                    return
                checked = check_batches(data, next_offset, following.base_offset)
                position += checked.size_bytes
                next_offset = checked.next_offset
                if checked.last_base_offset is not None:
                    before = checked.last_base_offset
                fault = checked.fault
                if fault is None and not checked.size_bytes:
                    fault = "no complete batch"
                if fault is not None:
                    keep_below = log.segments.base_offsets[0] if before is None else before
                    self._found(log, segment, position, next_offset, keep_below, fault)
                    return

    async def _read(self, log: UnifiedLog, segment: LogSegment, position: int) -> bytes | None:
        """Read a chunk, or the first batch in it if that is larger; None if the log has changed
        meanwhile. Then wait as long as the rate requires."""
        size = segment.size_bytes
        try:
            data = await segment.read_cold(min(_CHUNK_BYTES, size - position), position)
            if len(data) >= BATCH_OVERHEAD:
                whole = parse_batch(data, 0).length + LOG_OVERHEAD
                if len(data) < whole <= size - position and _holds(log, segment):
                    data = await segment.read_cold(whole, position)
        except OSError:
            if not _holds(log, segment):
                return None
            raise
        self.bytes_read += len(data)
        await self._clock.sleep(self._pace.wait_ms(len(data), self._clock.monotonic_ms()))
        return data if _holds(log, segment) else None

    def _found(
        self,
        log: UnifiedLog,
        segment: LogSegment,
        position: int,
        offset: int,
        keep_below: int,
        fault: str,
    ) -> None:
        now_ms = self._clock.wall_ms()
        self._damaged[log] = DamagedBatch(
            log, segment, position, offset, keep_below, fault, now_ms, log.cuts
        )
        self._events.error(
            "batch_damaged",
            log=str(log.topic_partition),
            file=segment.path,
            position=position,
            offset=offset,
            fault=fault,
        )

    # ---- what it has found

    def facts(self, limit: int) -> dict[str, Any]:
        """Return what the debug listener shows."""
        return {
            "bytes_per_second": self._config.bytes_per_second,
            "rounds": self.rounds,
            "bytes_read": self.bytes_read,
            "damaged": [
                {
                    "topic": batch.topic_partition.topic,
                    "partition": batch.topic_partition.partition,
                    "offset": batch.offset,
                    "file": batch.segment.path,
                    "position": batch.position,
                    "fault": batch.fault,
                    "found_ms": batch.found_ms,
                }
                for batch in self.damaged()[:limit]
            ],
        }

    def register(self, metrics: Metrics) -> None:
        metrics.gauge("kafka.log:DamagedLogCount", lambda: len(self.damaged()))
        metrics.gauge("kafka.log:ScrubbedBytes", lambda: self.bytes_read)


def _holds(log: UnifiedLog, segment: LogSegment) -> bool:
    """Whether ``segment`` is still a sealed segment of the log."""
    return not log.closed and log.segments.holds([segment]) and log.segments.active is not segment
