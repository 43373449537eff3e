"""The log scrubber: reads all sealed segments, slowly and repeatedly, to find damaged batches.

A flipped bit on a disk is otherwise noticed when a consumer reads it, perhaps years later, when no
other replica has the records any more. Kafka has nothing like it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from minikafka.core.log.scrubbing import check_batches
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.events import EventLog
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock, Files
from minikafka.server.storage.directories.log_directory import LogDirectory
from minikafka.server.storage.log.segment import LogSegment
from minikafka.server.storage.log.unified_log import UnifiedLog
from minikafka.server.storage.paced_reads import PacedReads, is_sealed
from minikafka.server.storage.segment_repair import FetchBatches, SegmentRepair


@dataclass(frozen=True, slots=True)
class LogScrubberConfig:
    """``log.scrubber.*``, which are ours. With 0 bytes per second the scrubber is off."""

    bytes_per_second: int = 0
    interval_ms: int = 24 * 60 * 60 * 1000


class DamagedBatch(NamedTuple):
    """The first damaged batch of a log. It starts at ``position`` (bytes) of ``segment``, and its
    offsets are not below ``offset``."""

    log: UnifiedLog
    segment: LogSegment
    position: int
    offset: int
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
        files: Files,
        clock: Clock,
        config: LogScrubberConfig,
        directories: Callable[[], Iterable[LogDirectory]],
        failed: Callable[[LogDirectory, OSError], object],
        events: EventLog,
    ) -> None:
        self._files = files
        self._clock = clock
        self._config = config
        self._directories = directories
        self._failed = failed
        self._events = events
        self._reads = PacedReads(clock, config.bytes_per_second)
        self._damaged: dict[UnifiedLog, DamagedBatch] = {}
        self.rounds = 0
        self.repaired = 0

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

    async def repair(self, damaged: DamagedBatch, fetch: FetchBatches) -> None:
        """Rebuild the segment of ``damaged`` with batches that ``fetch`` returns, then check the
        log again. No cleaning of the log may run meanwhile. Raises the errors of
        ``SegmentRepair.run``."""
        log = damaged.log
        repair = SegmentRepair(self._files, log, damaged.segment, self._reads, fetch)
        await repair.run()
        self.repaired += 1
        self._events.warning(
            "segment_repaired",
            log=str(log.topic_partition),
            file=damaged.segment.path,
            offset=damaged.offset,
            replaced_bytes=repair.replaced_bytes,
        )
        await self._scrub(log)

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
            return  # it is known, and will be repaired there
        for segment in list(log.segments)[:-1]:
            following = log.segments.after(segment.base_offset)
            if following is None or not is_sealed(log, segment):
                return  # the log has changed; the next round reads it again
            position, next_offset = 0, segment.base_offset
            while position < segment.size_bytes:
                data = await self._reads.read(log, segment, position)
                if data is None:
                    return
                checked = check_batches(data, next_offset, following.base_offset)
                position += checked.size_bytes
                next_offset = checked.next_offset
                fault = checked.fault
                if fault is None and not checked.size_bytes:
                    fault = "no complete batch"
                if fault is not None:
                    self._found(log, segment, position, next_offset, fault)
                    return

    def _found(
        self,
        log: UnifiedLog,
        segment: LogSegment,
        position: int,
        offset: int,
        fault: str,
    ) -> None:
        now_ms = self._clock.wall_ms()
        self._damaged[log] = DamagedBatch(log, segment, position, offset, fault, now_ms, log.cuts)
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
            "bytes_read": self._reads.bytes_read,
            "repaired": self.repaired,
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
        metrics.gauge(
            "minikafka.log:type=Scrubber,name=DamagedLogCount", lambda: len(self.damaged())
        )
        metrics.gauge(
            "minikafka.log:type=Scrubber,name=ScrubbedBytes", lambda: self._reads.bytes_read
        )
        metrics.gauge("minikafka.log:type=Scrubber,name=RepairedSegments", lambda: self.repaired)
