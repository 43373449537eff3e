"""All logs of a broker: which directory each lies in, loading, flushing, deletion, shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from minikafka.core.log.config import LogConfig
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log
from minikafka.kernel.ports import Clock, Files, TimerHandle
from minikafka.storage.checkpoints import LOG_START_OFFSET, RECOVERY_POINT, REPLICATION_OFFSET
from minikafka.storage.log_directory import LogDirectory
from minikafka.storage.log_loader import Checkpointed, LogLoader, assign_topic_id, create_log
from minikafka.storage.log_starts import LogStarts
from minikafka.storage.names import delete_directory_name, directory_name
from minikafka.storage.unified_log import UnifiedLog

__all__ = ["LogConfig", "LogManager", "LogManagerConfig"]

_LOADS_PER_BREATH: Final = 20


@dataclass(frozen=True, slots=True)
class LogManagerConfig:
    """``log_dirs`` are absolute paths. ``log`` holds for logs whose topic's settings are not known
    yet. Recovery reads on the loop, one log after the other; the number of recovery threads is
    how many logs of a directory are flushed at once at shutdown."""

    log_dirs: tuple[str, ...]
    num_recovery_threads_per_data_dir: int = 1
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    file_delete_delay_ms: int = 60_000
    producer_id_expiration_ms: int = 24 * 60 * 60 * 1000
    log: LogConfig = field(default_factory=LogConfig)


class LogManager:
    """Owns the log directories from ``broker_id`` or ``start`` on until ``close``.

    Everything that touches files may raise OSError. Kafka: ``LogManager``.
    """

    def __init__(self, files: Files, clock: Clock, config: LogManagerConfig) -> None:
        self._files = files
        self._clock = clock
        self._config = config
        self._events = event_log("log_manager")
        self._directories = [LogDirectory(files, path, self._events) for path in config.log_dirs]
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._homes: dict[TopicPartition, LogDirectory] = {}
        self._doomed: dict[str, TimerHandle] = {}  # directories to be removed
        self._unsound: set[TopicPartition] = set()  # logs with a failed flush
        self._starts = LogStarts(clock, self._events)
        self._background: list[asyncio.Task[None]] = []
        self._deletions = 0
        self._loaded = False

    # ---- identity

    async def broker_id(self) -> int | None:
        """The broker that the directories belong to; None for new ones. Raises ConfigError when
        they are in use, or belong to several brokers."""
        self._lock()
        metas = [directory.read_meta_properties() for directory in self._directories]
        ids = {meta.broker_id for meta in metas if meta.broker_id is not None}
        if len(ids) > 1:
            raise ConfigError(f"log.dirs belong to several brokers: {sorted(ids)}")
        return ids.pop() if ids else None

    async def claim(self, broker_id: int, cluster_id: str) -> None:
        """Write into the directories whose they are. Raises ConfigError when they are another
        broker's or another cluster's."""
        self._lock()
        metas = [directory.read_meta_properties() for directory in self._directories]
        claimed = [meta.claimed_by(broker_id, cluster_id) for meta in metas]
        for directory, before, after in zip(self._directories, metas, claimed, strict=True):
            if before != after:
                await directory.write_meta_properties(after)

    def _lock(self) -> None:
        for directory in self._directories:
            directory.lock()

    # ---- start

    async def start(
        self,
        tasks: asyncio.TaskGroup | None = None,
        configs: Mapping[str, LogConfig] | None = None,
    ) -> None:
        """Load all logs, recovering those of a directory that was not shut down in order.

        ``configs`` are those of topics known to differ from the default. With ``tasks``,
        checkpoints are written in the background until ``shutdown``. Raises ConfigError.
        """
        self._lock()
        for directory in self._directories:
            await directory.settle()
            await directory.take_clean_marker()
            await self._load(directory, configs or {})
            for path in directory.doomed():
                self._remove_later(path)
        self._loaded = True
        if tasks is not None:
            self._background = [
                tasks.create_task(
                    self._checkpoint_forever(), name="kafka-recovery-point-checkpoint"
                ),
                tasks.create_task(self._starts.run(), name="kafka-log-start-offset-checkpoint"),
            ]

    async def _load(self, directory: LogDirectory, configs: Mapping[str, LogConfig]) -> None:
        points = directory.checkpointed_points = directory.read_offsets(RECOVERY_POINT)
        starts = directory.checkpointed_starts = directory.read_offsets(LOG_START_OFFSET)
        partitions = directory.partitions()
        for count, topic_partition in enumerate(partitions, start=1):
            if topic_partition in self._logs:
                raise ConfigError(f"two log directories hold a log of {topic_partition}")
            log = UnifiedLog(
                self._files,
                f"{directory.path}/{directory_name(topic_partition)}",
                topic_partition,
                configs.get(topic_partition.topic, self._config.log),
            )
            found = Checkpointed(
                directory.clean, points.get(topic_partition, 0), starts.get(topic_partition, 0)
            )
            loader = LogLoader(self._files, log, found, self._events)
            loader.load()
            self._adopt(directory, log)
            if loader.discarded:
                await log.flush()
            if count % _LOADS_PER_BREATH == 0:
                await asyncio.sleep(0)
        if any(log.recovery_point_lowered for log in directory.logs.values()):
            await directory.checkpoint_recovery_points()
        if not starts.keys() <= directory.logs.keys():
            await directory.checkpoint_starts()  # a new log of the name is not to start there
        self._events.info(
            "logs_loaded", directory=directory.path, logs=len(partitions), clean=directory.clean
        )

    def _adopt(self, directory: LogDirectory, log: UnifiedLog) -> None:
        topic_partition = log.topic_partition
        log.write_recovery_point = directory.write_recovery_points
        log.flush_recovery_point = directory.checkpoint_recovery_points
        log.start_moved = lambda: self._starts.moved(directory, log)
        if log.segments.first_ends_below(log.log_start_offset):
            self._starts.moved(directory, log)
        directory.logs[topic_partition] = log
        self._logs[topic_partition] = log
        self._homes[topic_partition] = directory

    # ---- logs

    def get(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        return self._logs.get(topic_partition)

    def logs(self) -> Mapping[TopicPartition, UnifiedLog]:
        return self._logs

    def get_or_create(
        self, topic_partition: TopicPartition, topic_id: UUID | None, config: LogConfig
    ) -> UnifiedLog:
        """The log, made in the directory that holds the fewest if there is none yet.

        Raises KafkaError(INCONSISTENT_TOPIC_ID) when it is that of an earlier topic of the name.
        """
        if topic_id == ZERO_UUID:
            topic_id = None
        log = self._logs.get(topic_partition)
        if log is None:
            directory = min(self._directories, key=lambda d: len(d.logs))
            path = f"{directory.path}/{directory_name(topic_partition)}"
            log = create_log(self._files, path, topic_partition, topic_id, config)
            # The checkpoint file may still tell the recovery point of a deleted log of the name.
            log.recovery_point_lowered = directory.checkpointed_points.get(topic_partition, 0) > 0
            self._adopt(directory, log)
            return log
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

    async def delete(self, topic_partition: TopicPartition) -> None:
        """Put the log aside at once, and remove its files after ``file_delete_delay_ms``. Nothing
        happens when there is none."""
        log = self._logs.get(topic_partition)
        if log is None:
            return
        directory = self._homes[topic_partition]
        self._deletions += 1
        seed = f"{log.directory} {self._clock.wall_ms()} {self._deletions}"
        doomed = f"{directory.path}/{delete_directory_name(topic_partition, seed)}"
        log.close()
        self._files.rename(log.directory, doomed)
        del self._logs[topic_partition], self._homes[topic_partition]
        del directory.logs[topic_partition]
        self._unsound.discard(topic_partition)
        self._remove_later(doomed)
        self._events.info("log_deleted", log=str(topic_partition), directory=doomed)
        if topic_partition in directory.checkpointed_starts:
            await directory.checkpoint_starts()

    def _remove_later(self, path: str) -> None:
        delay_ms = self._config.file_delete_delay_ms
        self._doomed[path] = self._clock.call_later(delay_ms, lambda: self._remove(path))

    def _remove(self, path: str) -> None:
        try:
            self._files.remove_tree(path)
        except OSError as error:
            self._events.error("log_removal_failed", directory=path, error=str(error))
            self._remove_later(path)
        else:
            del self._doomed[path]

    # ---- checkpoints

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """As last written (``replication-offset-checkpoint``)."""
        merged: dict[TopicPartition, int] = {}
        for directory in self._directories:
            merged |= directory.read_offsets(REPLICATION_OFFSET)
        return merged

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Each into the directory that holds the log; where there is none, into the first.

        A directory that cannot be written keeps what it had, which after a restart means lower
        high watermarks for a moment, and is logged. Raises nothing.
        """
        for directory in self._directories:
            mine = {
                topic_partition: offset
                for topic_partition, offset in high_watermarks.items()
                if self._homes.get(topic_partition, self._directories[0]) is directory
            }
            try:
                directory.write_high_watermarks(mine)
            except OSError as error:
                self._events.error("checkpoint_failed", directory=directory.path, error=str(error))

    def write_log_starts(self) -> None:
        """Write down the log starts that have moved, before somebody is told of them; as
        ``LogStarts.write``."""
        self._starts.write()

    async def checkpoint(self) -> None:
        """Flush rolled segments, forget expired producers, write recovery points and log start
        offsets."""
        now_ms = self._clock.wall_ms()
        for topic_partition, log in list(self._logs.items()):
            log.producers.states.expire(now_ms, self._config.producer_id_expiration_ms)
            active = log.segments.active
            if active is not None and log.recovery_point < active.base_offset:
                await self._flush(topic_partition, log, active.base_offset)
        for directory in self._directories:
            await directory.checkpoint_recovery_points()
            await directory.checkpoint_starts()

    async def _checkpoint_forever(self) -> None:
        while True:
            await self._clock.sleep(self._config.log_flush_offset_checkpoint_interval_ms)
            try:
                await self.checkpoint()
            except OSError as error:
                # The old checkpoints stay, which means a longer recovery and nothing worse.
                self._events.error("checkpoint_failed", error=str(error))

    async def _flush(
        self,
        topic_partition: TopicPartition,
        log: UnifiedLog,
        before_offset: int | None = None,
        persist: bool = False,
    ) -> None:
        """After a flush has failed, the kernel may have dropped what was to be written, and a
        second one would seem to succeed: that log counts as not shut down in order."""
        if topic_partition in self._unsound:
            return
        try:
            if persist:
                log.persist()
            await log.flush(before_offset)
        except OSError as error:
            if not log.closed:
                self._unsound.add(topic_partition)
                self._events.error("flush_failed", log=str(topic_partition), error=str(error))

    # ---- shutdown

    async def shutdown(self) -> None:
        """Bring all logs to disk, leave the marker of a clean shutdown, and close."""
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)
        if self._loaded:
            for directory in self._directories:
                try:
                    await self._shut_down(directory)
                except OSError as error:
                    # Without the marker, the next start recovers what this one could not bring to
                    # disk; the other directories still get theirs.
                    self._events.error(
                        "shutdown_not_clean", directory=directory.path, error=str(error)
                    )
        self.close()

    async def _shut_down(self, directory: LogDirectory) -> None:
        turns = asyncio.Semaphore(self._config.num_recovery_threads_per_data_dir)

        async def settle(topic_partition: TopicPartition, log: UnifiedLog) -> None:
            async with turns:
                await self._flush(topic_partition, log, persist=True)

        async with asyncio.TaskGroup() as tasks:
            for topic_partition, log in directory.logs.items():
                tasks.create_task(settle(topic_partition, log))
        await directory.checkpoint_recovery_points()
        await directory.checkpoint_starts()
        unsound = self._unsound & directory.logs.keys()
        if not unsound:
            await directory.leave_clean_marker()
        self._events.info(
            "logs_shut_down", directory=directory.path, clean=not unsound, logs=len(directory.logs)
        )

    def close(self) -> None:
        """Let go of files and directories without writing anything. May be called again."""
        for timer in self._doomed.values():
            timer.cancel()
        self._doomed.clear()
        for log in self._logs.values():
            log.close()
        for directory in self._directories:
            directory.logs.clear()
            directory.unlock()
        self._logs.clear()
        self._homes.clear()
