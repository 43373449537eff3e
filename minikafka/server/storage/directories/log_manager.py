"""The log manager: all logs of a broker, from loading to shutdown. Kafka: ``LogManager``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from minikafka.core.log.config import LogConfig
from minikafka.core.log.names import (
    delete_directory_name,
    directory_name,
    stray_directory_name,
)
from minikafka.core.log.small_files import offset_row
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.kernel.disk_errors import is_disk_broken
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock, Files, Workers
from minikafka.kernel.slices import in_slices
from minikafka.server.storage.directories.background_tasks import LogBackgroundTasks
from minikafka.server.storage.directories.config import LogManagerConfig
from minikafka.server.storage.directories.delayed_removal import DelayedRemoval
from minikafka.server.storage.directories.loading import DirectoryLoading
from minikafka.server.storage.directories.log_directories import LogDirectories
from minikafka.server.storage.directories.log_directory import LogDirectory
from minikafka.server.storage.directories.log_starts import LogStarts
from minikafka.server.storage.directories.moves import LogMoves
from minikafka.server.storage.log.flushes import LogFlushes, bring_to_disk
from minikafka.server.storage.log.loader import assign_topic_id, create_log
from minikafka.server.storage.log.open_segments import OpenSegments
from minikafka.server.storage.log.unified_log import UnifiedLog
from minikafka.server.storage.log_cleaner import LogCleaner
from minikafka.server.storage.scrubber import DamagedBatch, LogScrubber
from minikafka.server.storage.segment_repair import FetchBatches

__all__ = ["NO_REPLICAS", "LogConfig", "LogManager", "LogManagerConfig", "ReplicaCallbacks"]


@dataclass(frozen=True, slots=True)
class ReplicaCallbacks:
    """What the log manager calls in the part of the broker that hosts the replicas.

    ``high_watermark`` returns the high watermark of a partition: retention deletes no record at or
    above it, and no log start offset above it is checkpointed. ``stable_offset`` returns the offset
    below which all records are committed and in no open transaction: the cleaner stops there. Both
    return None for a partition that the broker does not host; retention and the cleaner leave its
    log alone.

    ``directory_failed`` is called with the path and the partitions of a failed log directory, after
    their logs were closed. ``log_replaced`` is called with the new log of a partition, after a move
    between log directories.
    """

    high_watermark: Callable[[TopicPartition], int | None]
    stable_offset: Callable[[TopicPartition], int | None]
    directory_failed: Callable[[str, list[TopicPartition]], None]
    log_replaced: Callable[[UnifiedLog], None]


FLUSHES: Final = "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs"
# Holds until ``connect``, and for good in a program without replicas, such as a benchmark.
NO_REPLICAS: Final = ReplicaCallbacks(
    high_watermark=lambda _: None,
    stable_offset=lambda _: None,
    directory_failed=lambda path, partitions: None,
    log_replaced=lambda log: None,
)


class LogManager:
    """All logs of a broker. It holds the locks of the log directories from ``start`` to ``close``.

    If a directory fails, its logs are closed. ``all_failed`` is called with an OSError when no
    directory is left. ``connect`` sets what else the log manager calls. Methods that use files may
    raise OSError.
    """

    def __init__(
        self,
        files: Files,
        clock: Clock,
        workers: Workers,
        config: LogManagerConfig,
        all_failed: Callable[[OSError], None] = lambda error: None,
        metrics: Metrics | None = None,
    ) -> None:
        self._all_failed = all_failed
        self._replicas = NO_REPLICAS
        self._files = files
        self._clock = clock
        self._config = config
        self._events = event_log("log_manager")
        self.removal = DelayedRemoval(files, clock, self._events)
        self.starts = LogStarts(clock, self._events, self.failed)
        self.open_segments = OpenSegments(config.max_open_cold_segments)
        self.directories = LogDirectories(
            files,
            config.log_dirs,
            self._events,
            self._directory_failed,
            self.removal,
            self.starts.moved,
            self._high_watermark,
            self.open_segments,
        )
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._homes: dict[TopicPartition, LogDirectory] = {}
        self.flushes = LogFlushes(
            clock,
            self._logs.get,
            self._flush_failed,
            (metrics or Metrics()).histogram(FLUSHES, 1000),
        )
        self.background_tasks = LogBackgroundTasks(
            clock,
            config,
            self.directories,
            self.flushes,
            self.open_segments.index_writes,
            self._high_watermark,
            self.failed,
            self._events,
        )
        self.cleaner = LogCleaner(
            files,
            clock,
            config.cleaner,
            lambda: self.directories.live,
            self._stable_offset,
            self.failed,
            workers,
        )
        self.scrubber = LogScrubber(
            files, clock, config.scrubber, lambda: self.directories.live, self.failed, self._events
        )
        self.moves = LogMoves(
            files, clock, self.directories, self.removal, self, config.moves_quota, self._events
        )
        self._background: list[asyncio.Task[None]] = []
        self._put_asides = 0
        self._loaded = False

    # ---- replicas

    def connect(self, replicas: ReplicaCallbacks) -> None:
        """Set what the log manager calls in the part of the broker that hosts the replicas.

        Call this once, before the first partition is hosted."""
        assert self._replicas is NO_REPLICAS, "the log manager is connected already"
        self._replicas = replicas

    def _high_watermark(self, topic_partition: TopicPartition) -> int | None:
        return self._replicas.high_watermark(topic_partition)

    def _stable_offset(self, topic_partition: TopicPartition) -> int | None:
        return self._replicas.stable_offset(topic_partition)

    # ---- identity

    async def broker_id(self) -> int | None:
        """Lock the directories, and return the id of the broker that owns them, None if they are
        new. Raises ConfigError if another process uses them, if they belong to several brokers, or
        if all have failed."""
        self.directories.lock()
        return self.directories.broker_id()

    def cluster_id(self) -> str | None:
        """Lock the directories, and return the id of the cluster that they belong to, None if they
        are new. Raises ConfigError as ``broker_id``."""
        self.directories.lock()
        return self.directories.cluster_id()

    async def claim(self, broker_id: int, cluster_id: str) -> None:
        """Write the broker id and cluster id into the directories. Raises ConfigError if they
        belong to another broker or cluster."""
        self.directories.lock()
        await self.directories.claim(broker_id, cluster_id)

    # ---- start

    async def start(
        self,
        tasks: asyncio.TaskGroup | None = None,
        configs: Mapping[str, LogConfig] | None = None,
    ) -> None:
        """Load all logs, and recover those in a directory without a clean shutdown.

        ``configs`` has the settings of topics that differ from the defaults. With ``tasks``, start
        the background tasks, which run until ``shutdown``. Raises ConfigError.
        """
        self.directories.lock()
        self.moves.tidy()
        await DirectoryLoading(
            self._files,
            self._clock,
            self._config,
            configs or {},
            self.directories,
            self._adopt,
            self._events,
        ).load()
        for paths in self.directories.each(LogDirectory.doomed).values():
            for path in paths:
                self.removal.tree(path, self._config.file_delete_delay_ms)
        self._loaded = True
        self.moves.resume(self._logs)
        if tasks is not None:
            self.run_in_background(tasks, "kafka-delete-logs", self.removal.run())
            self.run_in_background(tasks, "log-starts", self.starts.run())
            for number in range(self._config.alter_log_dirs_threads):
                name = f"ReplicaAlterLogDirsThread-{number}"
                self.run_in_background(tasks, name, self.moves.run())
            for name, work in self.background_tasks.tasks().items():
                self.run_in_background(tasks, name, work)
            self._background += self.cleaner.start(tasks)
            if self.scrubber.is_on:
                self.run_in_background(tasks, "log-scrubber", self.scrubber.run())

    def run_in_background(
        self, tasks: asyncio.TaskGroup, name: str, work: Coroutine[Any, Any, None]
    ) -> None:
        """Start a task that is cancelled before the logs are shut down."""
        self._background.append(tasks.create_task(work, name=name))

    def _adopt(self, directory: LogDirectory, log: UnifiedLog) -> None:
        """Register ``log``, whose files are in ``directory``, as the log of its partition."""
        topic_partition = log.topic_partition
        log.last_flush_ms = self._clock.monotonic_ms()
        if log.segments.first_ends_below(log.log_start_offset):
            self.starts.moved(directory, log)
        directory.add(log)
        self._logs[topic_partition] = log
        self._homes[topic_partition] = directory

    # ---- failure

    def storage_failed(self, topic_partition: TopicPartition, error: OSError) -> bool:
        """Handle an error that reading or writing a log has raised.

        Returns True if its directory is offline now. Returns False if the disk is full, or if the
        process lacks descriptors: the log stays online and accepts appends when that has passed."""
        home = self._homes.get(topic_partition)
        return home is None or self.failed(home, error)

    def failed(self, directory: LogDirectory, error: OSError) -> bool:
        """Handle an error of a directory, as ``storage_failed`` does for a log."""
        if not is_disk_broken(error):
            self._events.error("log_directory_filled", directory=directory.path, error=str(error))
            return False
        self.directories.fail(directory, error)
        return True

    def _flush_failed(self, log: UnifiedLog, error: OSError) -> None:
        """Take the directory offline, whatever the error: unflushed records may be lost."""
        self._events.error("flush_failed", log=str(log.topic_partition), error=str(error))
        home = self._homes.get(log.topic_partition)
        if home is not None and self._logs.get(log.topic_partition) is log:
            self.directories.fail(home, error)

    def _directory_failed(self, directory: LogDirectory) -> None:
        partitions = list(directory.logs)
        self.moves.directory_failed(directory)
        for topic_partition, log in directory.logs.items():
            with contextlib.suppress(OSError):
                log.close()
            del self._logs[topic_partition], self._homes[topic_partition]
        directory.logs.clear()
        self.removal.forget(directory.path)
        self._replicas.directory_failed(directory.path, partitions)
        if not self.directories.live and self._loaded:
            error = self.directories.offline[directory.path]
            paths = ", ".join(self.directories.paths)
            text = f"all log directories have failed ({paths}): {error.strerror or error}"
            self._all_failed(OSError(error.errno or 0, text, directory.path))

    # ---- logs

    def get(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        return self._logs.get(topic_partition)

    def logs(self) -> Mapping[TopicPartition, UnifiedLog]:
        return self._logs

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig,
        is_new: bool = True,
    ) -> UnifiedLog:
        """Return the log of a partition, and set its ``config``. Create it if it does not exist.

        A log is created in the directory to which a move was requested, else in the one with the
        fewest logs. With ``is_new`` False the broker had a log of the partition before; it is not
        created while a directory is offline, because it may be there.

        Raises KafkaError: INCONSISTENT_TOPIC_ID if the log has another topic id, which means that
        it is of a deleted topic with this name; KAFKA_STORAGE_ERROR if it cannot be created.
        """
        if topic_id == ZERO_UUID:
            topic_id = None
        log = self._logs.get(topic_partition)
        if log is None:
            if not is_new and self.directories.offline:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"the log of {topic_partition} is not created while log directories are "
                    f"offline: {', '.join(self.directories.offline)}",
                )
            return self._create(topic_partition, topic_id, config)
        if topic_id is not None:
            if log.topic_id is None:
                assign_topic_id(self._files, log, topic_id)
            elif log.topic_id != topic_id:
                raise KafkaError(
                    ErrorCode.INCONSISTENT_TOPIC_ID,
                    f"the log of {topic_partition} has topic id {log.topic_id}, not {topic_id}",
                )
        log.config = config
        return log

    def _create(
        self, topic_partition: TopicPartition, topic_id: UUID | None, config: LogConfig
    ) -> UnifiedLog:
        preferred = self.directories.by_path(self.moves.preferred.pop(topic_partition, ""))
        candidates = self.directories.by_load() if preferred is None else [preferred]
        for directory in candidates:
            path = f"{directory.path}/{directory_name(topic_partition)}"
            try:
                log = create_log(self._files, path, topic_partition, topic_id, config, directory)
            except OSError as error:
                with contextlib.suppress(OSError):
                    self._files.remove_tree(path)
                self.failed(directory, error)
                continue
            # The checkpoint file may still have the recovery point of a deleted log of this name.
            log.recovery_point_lowered = bool(directory.points.in_file(topic_partition))
            self._adopt(directory, log)
            return log
        tried = ", ".join(directory.path for directory in candidates)
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"no log directory for {topic_partition}; tried {tried}"
        )

    async def delete(self, topic_partition: TopicPartition, stray: bool = False) -> None:
        """Delete the log of a partition, if there is one. Raises OSError.

        Its directory is renamed immediately and removed after ``file_delete_delay_ms``. With
        ``stray`` it is renamed and kept."""
        log = self._logs.get(topic_partition)
        if log is None:
            return
        directory = self._homes[topic_partition]
        self.moves.cancel(topic_partition)
        log.close()
        aside = self._put_aside(directory, log, stray)
        del self._logs[topic_partition], self._homes[topic_partition]
        directory.remove(topic_partition)
        event = "stray_log_renamed" if stray else "log_deleted"
        self._events.info(event, log=str(topic_partition), directory=aside)
        if directory.starts.in_file(topic_partition) is not None:
            await directory.flush_starts()
        if topic_partition in directory.checkpointed_cleaned:
            await directory.checkpoint_cleaned()

    def replace(self, log: UnifiedLog, directory: LogDirectory) -> None:
        """Replace the log of a partition by ``log``, which is in ``directory``, and close the old
        one."""
        topic_partition = log.topic_partition
        old = self._logs[topic_partition]
        self._homes[topic_partition].remove(topic_partition)
        old.close()
        self._adopt(directory, log)
        self._replicas.log_replaced(log)

    def _put_aside(self, directory: LogDirectory, log: UnifiedLog, stray: bool) -> str:
        """Rename the directory of a closed log, and queue it for removal unless it is a stray.

        Returns the new path."""
        self._put_asides += 1
        seed = f"{log.directory} {self._clock.wall_ms()} {self._put_asides}"
        name = stray_directory_name if stray else delete_directory_name
        aside = f"{directory.path}/{name(log.topic_partition, seed)}"
        self._files.rename(log.directory, aside)
        if not stray:
            self.removal.tree(aside, self._config.file_delete_delay_ms)
        return aside

    # ---- checkpoints

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """Read the high watermarks last checkpointed (``replication-offset-checkpoint``)."""
        return self.directories.read_high_watermarks()

    async def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> bool:
        """Checkpoint each high watermark in the directory of its log, or in the first directory if
        there is no log. They are encoded in slices.

        A full directory keeps its old checkpoint; after a restart, high watermarks are lower until
        replication has raised them again. Returns False if no directory could be written. Does not
        raise OSError.
        """
        rows: dict[LogDirectory, list[str]] = {live: [] for live in self.directories.live}
        first = next(iter(rows), None)
        async for topic_partition, offset in in_slices(high_watermarks.items()):
            home = self._homes.get(topic_partition, first)
            if home is not None and home in rows:
                rows[home].append(offset_row(topic_partition, offset))
        written = False
        for directory, of_directory in rows.items():
            if directory not in self.directories.live:
                continue
            try:
                directory.write_high_watermarks(of_directory)
                written = True
            except OSError as error:
                self.failed(directory, error)
        return written

    async def checkpoint(self) -> None:
        """Flush the rolled segments, then checkpoint recovery points and log start offsets."""
        await self.background_tasks.checkpoint_recovery_points()
        await self.background_tasks.checkpoint_starts()

    async def flush(self, logs: Iterable[UnifiedLog]) -> None:
        """Wait until all current records of these logs are on disk. If a flush fails, the directory
        of the log is taken offline."""
        async with asyncio.TaskGroup() as tasks:
            for log in logs:
                tasks.create_task(self.flushes.up_to_now(log))

    async def repair(self, damaged: DamagedBatch, fetch: FetchBatches) -> None:
        """Replace a damaged batch by what ``fetch`` returns, see ``SegmentRepair``. The cleaner may
        clean the log again afterwards. Raises NoReplacement, SegmentChanged and OSError."""
        await self.cleaner.pause(damaged.topic_partition)
        try:
            await self.scrubber.repair(damaged, fetch)
        finally:
            self.cleaner.resume(damaged.topic_partition)
        self.cleaner.clean_again(damaged.log)

    # ---- shutdown

    async def shutdown(self) -> None:
        """Flush all logs, write the marker of a clean shutdown, and close the logs."""
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)
        if self._loaded:
            for directory in list(self.directories.live):
                try:
                    threads = self._config.num_recovery_threads_per_data_dir
                    await bring_to_disk(list(directory.logs.values()), threads)
                    await directory.checkpoint_recovery_points()
                    await directory.checkpoint_starts()
                    await directory.leave_clean_marker()
                    self._events.info("logs_shut_down", directory=directory.path)
                except OSError as error:
                    # Without the marker, the next start recovers what this one could not bring to
                    # disk; the other directories still get theirs.
                    self._events.error(
                        "clean_shutdown_failed", directory=directory.path, error=str(error)
                    )
        self.close()

    def close(self) -> None:
        """Close all files and unlock the directories, without writing. May be called again."""
        self.removal.close()
        self.moves.close()
        for log in self._logs.values():
            log.close()
        self._logs.clear()
        self._homes.clear()
        self.directories.close()
