"""The log cleaner: the tasks that compact logs. Kafka: ``LogCleaner``, ``LogCleanerManager``."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, NamedTuple

from minikafka.core.log.compaction import (
    CleanerStats,
    Dirt,
    Throttle,
    dirt_of,
    overdue_ms,
    wants_cleaning,
)
from minikafka.core.log.config import NO_LIMIT
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.lazy_module import LazyModule
from minikafka.kernel.metrics import Metrics, tag_value
from minikafka.kernel.ports import Clock, Files, Workers
from minikafka.kernel.slices import BACKGROUND_BUDGET_US, Slices
from minikafka.server.storage.directories.log_directory import LogDirectory
from minikafka.server.storage.log.unified_log import UnifiedLog
from minikafka.server.storage.log_facts import log_facts

if TYPE_CHECKING:
    from minikafka.server.storage import cleaning
else:
    cleaning = LazyModule("minikafka.server.storage.cleaning")  # many brokers clean nothing

_REST_MS: Final = 60_000  # a log whose disk was full is not cleaned for so long


@dataclass(frozen=True, slots=True)
class LogCleanerConfig:
    """Kafka's ``log.cleaner.*``. Sizes are in bytes.

    ``threads`` is a number of asyncio tasks, each of which cleans one log at a time. They share the
    buffers."""

    enable: bool = True
    threads: int = 1
    dedupe_buffer_size: int = 128 * 1024 * 1024
    io_buffer_size: int = 512 * 1024
    io_buffer_load_factor: float = 0.9
    io_max_bytes_per_second: float = float(2**63)
    backoff_ms: int = 15_000


class Filthy(NamedTuple):
    """A log that can be cleaned, and by how many ms it is overdue (``max.compaction.lag.ms``)."""

    directory: LogDirectory
    log: UnifiedLog
    dirt: Dirt
    overdue_ms: int


class LogCleaner:
    """Cleans the compacted logs in ``directories()``, those with the highest dirty ratio first.

    ``stable_offset`` returns the offset up to which a partition may be cleaned (all records below
    it are committed and in no open transaction), None if the broker does not host the partition.
    ``failed`` is called with a directory and the OSError that it raised. A log with a corrupt batch
    is not cleaned again until it is repaired or the broker restarts.
    """

    def __init__(
        self,
        files: Files,
        clock: Clock,
        config: LogCleanerConfig,
        directories: Callable[[], Iterable[LogDirectory]],
        stable_offset: Callable[[TopicPartition], int | None],
        failed: Callable[[LogDirectory, OSError], object],
        workers: Workers,
        events: EventLog | None = None,
    ) -> None:
        self.stats = CleanerStats()  # of the last cleaning
        self.uncleanable: set[UnifiedLog] = set()
        self._files = files
        self._clock = clock
        self._config = config
        self._directories = directories
        self._stable_offset = stable_offset
        self._failed = failed
        self._workers = workers
        self._events = events or event_log("log_cleaner")
        self._throttle = Throttle(config.io_max_bytes_per_second, clock.monotonic_ms())
        self._cleaning: dict[UnifiedLog, asyncio.Event] = {}  # set at the end of the cleaning
        self._paused: Counter[TopicPartition] = Counter()
        self._resting: dict[UnifiedLog, int] = {}  # not cleaned until this monotonic time (ms)
        self._last_run_ms = clock.monotonic_ms()
        self._max_dirty_ratio = 0.0
        self._max_overdue_ms = 0

    # ---- life

    def start(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Create the tasks that clean until they are cancelled. Returns none if
        ``log.cleaner.enable`` is false."""
        if not self._config.enable:
            return []
        return [
            tasks.create_task(self._run(), name=f"kafka-log-cleaner-thread-{number}")
            for number in range(self._config.threads)
        ]

    async def _run(self) -> None:
        while True:
            if not await self.clean_filthiest():
                await self._clock.sleep(self._config.backoff_ms)

    async def pause(self, topic_partition: TopicPartition) -> None:
        """Abort the cleaning of a partition's log and wait for its end.

        The log is not cleaned again until ``resume`` is called once for each ``pause``. Kafka:
        ``abortAndPauseCleaning``."""
        self._paused[topic_partition] += 1
        for log, over in list(self._cleaning.items()):
            if log.topic_partition == topic_partition:
                await over.wait()

    def resume(self, topic_partition: TopicPartition) -> None:
        self._paused[topic_partition] -= 1
        assert self._paused[topic_partition] >= 0, "resumed more often than paused"
        if not self._paused[topic_partition]:
            del self._paused[topic_partition]

    def clean_again(self, log: UnifiedLog) -> None:
        """Forget that the log has a corrupt batch: it was repaired."""
        self.uncleanable.discard(log)

    # ---- choosing

    async def clean_filthiest(self) -> bool:
        """Clean the log with the highest dirty ratio of those that need it. Returns False if none
        does. Errors of one log are handled here and not raised."""
        filthy = await self._filthiest()
        if filthy is None:
            return False
        await self._clean_alone(filthy)
        return True

    async def clean_now(self, directory: LogDirectory, log: UnifiedLog, dirt: Dirt) -> None:
        """Clean a part of a log in ``directory``, however small its dirty ratio is, after the
        cleaning of this log that is under way. Errors are handled as in ``clean_filthiest``."""
        while (over := self._cleaning.get(log)) is not None:
            await over.wait()
        await self._clean_alone(Filthy(directory, log, dirt, 0))

    async def _clean_alone(self, filthy: Filthy) -> None:
        """Clean a log that is not being cleaned, so that ``pause`` can wait for the end."""
        log = filthy.log
        over = self._cleaning[log] = asyncio.Event()
        try:
            await self._clean(filthy)
        finally:
            del self._cleaning[log]
            over.set()

    async def _filthiest(self) -> Filthy | None:
        self._last_run_ms = self._clock.monotonic_ms()
        self._forget_closed()
        best: Filthy | None = None
        dirtiest = longest = 0.0
        slices = Slices(BACKGROUND_BUDGET_US)
        for directory in list(self._directories()):
            async for log in slices.over(list(directory.logs.values())):
                filthy = self._look_at(directory, log)
                if filthy is None:
                    continue
                ratio = filthy.dirt.ratio
                dirtiest, longest = max(dirtiest, ratio), max(longest, filthy.overdue_ms)
                is_due = wants_cleaning(filthy.dirt, log.config, filthy.overdue_ms > 0)
                if is_due and (best is None or ratio > best.dirt.ratio):
                    best = filthy
        self._max_dirty_ratio, self._max_overdue_ms = dirtiest, int(longest)
        # Another cleaner task may have begun to clean this log during one of the sleeps.
        if best is None or not self._may_clean(best.log):
            return None
        return self._look_at(best.directory, best.log)

    def _may_clean(self, log: UnifiedLog) -> bool:
        return not (
            log.closed
            or not log.config.compacts
            or log in self._cleaning
            or log in self.uncleanable
            or log.topic_partition in self._paused
            or self._resting.get(log, 0) > self._clock.monotonic_ms()
        )

    def _look_at(self, directory: LogDirectory, log: UnifiedLog) -> Filthy | None:
        """Return the facts about a log, None if it is empty or cannot be cleaned now."""
        if len(log.segments) < 2 or not self._may_clean(log):
            return None
        stable_offset = self._stable_offset(log.topic_partition)
        if stable_offset is None:
            return None
        now_ms = self._clock.wall_ms()
        try:
            dirt = dirt_of(log_facts(log, stable_offset), log.config, now_ms)
            overdue = _overdue_ms(log, dirt, now_ms)
        except KafkaError as error:
            self._give_up(log, error)
        except OSError as error:
            self._failed(directory, error)
        else:
            if dirt.clean_bytes + dirt.cleanable_bytes > 0:
                return Filthy(directory, log, dirt, overdue)
        return None

    # ---- cleaning

    async def _clean(self, filthy: Filthy) -> None:
        log, dirt = filthy.log, filthy.dirt
        events = self._events.bind(log=str(log.topic_partition))
        try:
            work = self._make_cleaning(filthy)
        except OSError as error:  # no descriptor is left for the import
            self._disk_failed(filthy, error)
            return
        events.info(
            "log_cleaning_started", first_dirty=dirt.first_dirty, end=dirt.first_uncleanable
        )
        try:
            end = await work.run()
            if log.closed:
                return
            log.cleaned_offset = end
            await filthy.directory.checkpoint_cleaned()
        except cleaning.CleaningAborted:
            events.info("log_cleaning_aborted")
        except KafkaError as error:
            self._give_up(log, error)
        except OSError as error:
            self._disk_failed(filthy, error)
        else:
            stats = self.stats = work.stats
            events.info("log_cleaned", end=end, **asdict(stats))

    def _make_cleaning(self, filthy: Filthy) -> cleaning.LogCleaning:
        """The first one imports what cleans. Raises OSError."""
        config, paused = self._config, self._paused
        means = cleaning.CleaningMeans(
            config.dedupe_buffer_size // max(config.threads, 1),
            config.io_buffer_load_factor,
            config.io_buffer_size // max(config.threads, 1) // 2,
            self._throttle,
        )
        return cleaning.LogCleaning(
            self._files,
            self._clock,
            filthy.log,
            filthy.dirt,
            means,
            lambda: filthy.log.topic_partition not in paused,
            self._workers,
        )

    def _give_up(self, log: UnifiedLog, error: KafkaError) -> None:
        self.uncleanable.add(log)
        self._events.error("log_marked_uncleanable", log=str(log.topic_partition), error=str(error))

    def _disk_failed(self, filthy: Filthy, error: OSError) -> None:
        if filthy.log.closed:
            return  # it was deleted, and its files were renamed
        # If it was a full disk, the directory stays; the others get their turn before this one.
        self._resting[filthy.log] = self._clock.monotonic_ms() + _REST_MS
        self._events.error(
            "log_cleaning_failed", log=str(filthy.log.topic_partition), error=str(error)
        )
        self._failed(filthy.directory, error)

    def _forget_closed(self) -> None:
        self.uncleanable = {log for log in self.uncleanable if not log.closed}
        now_ms = self._clock.monotonic_ms()
        self._resting = {log: until for log, until in self._resting.items() if until > now_ms}

    # ---- metrics

    def register(self, metrics: Metrics) -> None:
        """Register Kafka's gauges of ``LogCleaner`` and ``LogCleanerManager``.

        ``DeadThreadCount`` is always 0, because an unexpected error of a task ends the broker."""
        for directory in self._directories():
            tag = f"logDirectory={tag_value(directory.path)}"
            metrics.gauge(
                f"kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count,{tag}",
                lambda d=directory: len(self._uncleanable_in(d)),  # type: ignore[misc]
            )
            metrics.gauge(
                f"kafka.log:type=LogCleanerManager,name=uncleanable-bytes,{tag}",
                lambda d=directory: sum(log.size_bytes for log in self._uncleanable_in(d)),  # type: ignore[misc]
            )
        for name, read in {
            "type=LogCleanerManager,name=max-dirty-percent": lambda: int(
                100 * self._max_dirty_ratio
            ),
            "type=LogCleanerManager,name=time-since-last-run-ms": lambda: (
                self._clock.monotonic_ms() - self._last_run_ms
            ),
            "type=LogCleaner,name=max-buffer-utilization-percent": lambda: int(
                100 * self.stats.buffer_utilization
            ),
            "type=LogCleaner,name=cleaner-recopy-percent": lambda: (
                100 * self.stats.bytes_written // max(self.stats.bytes_read, 1)
            ),
            "type=LogCleaner,name=max-clean-time-secs": lambda: self.stats.elapsed_ms // 1000,
            "type=LogCleaner,name=max-compaction-delay-secs": lambda: self._max_overdue_ms // 1000,
            "type=LogCleaner,name=DeadThreadCount": lambda: 0,
        }.items():
            metrics.gauge(f"kafka.log:{name}", read)

    def _uncleanable_in(self, directory: LogDirectory) -> list[UnifiedLog]:
        return [log for log in self.uncleanable if directory.logs.get(log.topic_partition) is log]


def _overdue_ms(log: UnifiedLog, dirt: Dirt, now_ms: int) -> int:
    """Return by how many ms a log exceeds ``max.compaction.lag.ms``; 0 without such a limit.

    Reads the first batch of each dirty segment. Raises OSError, CorruptRecordError."""
    if log.config.max_compaction_lag_ms == NO_LIMIT:
        return 0
    dirty = log.segments.since(dirt.first_dirty)[:-1]
    first = [found.batch.max_timestamp for s in dirty if (found := next(s.batches(), None))]
    return overdue_ms(first, log.config, now_ms)
