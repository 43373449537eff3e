"""Loading of the logs of all log directories: several directories and logs concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from minikafka.core.log.config import LogConfig
from minikafka.core.log.names import directory_name
from minikafka.core.log.small_files import CLEANER_OFFSET, LOG_START_OFFSET, RECOVERY_POINT
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock, Files
from minikafka.kernel.slices import in_slices
from minikafka.server.storage.directories.config import LogManagerConfig
from minikafka.server.storage.directories.log_directories import LogDirectories
from minikafka.server.storage.directories.log_directory import LogDirectory
from minikafka.server.storage.log.loader import Checkpointed, LogLoader
from minikafka.server.storage.log.unified_log import UnifiedLog
from minikafka.server.storage.strays import put_files_apart

_PROGRESS_MS: Final = 5_000


class LogLoading:
    """Loads the logs of one directory, ``at_once`` of them concurrently.

    ``adopt`` is called with each log when it has been loaded. Kafka: ``LogManager.loadLogs``."""

    def __init__(
        self,
        clock: Clock,
        events: EventLog,
        at_once: int,
        adopt: Callable[[UnifiedLog], None],
    ) -> None:
        self._clock = clock
        self._events = events
        self._at_once = at_once
        self._adopt = adopt
        self._loaders: Sequence[LogLoader] = ()
        self._loaded = 0
        self._error: OSError | KafkaError | None = None

    async def load(self, loaders: Sequence[LogLoader]) -> None:
        """Load the logs of all ``loaders``.

        Raises the first OSError or KafkaError(CORRUPT_MESSAGE) of a log, and then loads no more."""
        self._loaders = loaders
        waiting = iter(loaders)
        self._progress = self._clock.call_later(_PROGRESS_MS, self._tell)
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(self._at_once, len(loaders))):
                    tasks.create_task(self._work(waiting))
        finally:
            self._progress.cancel()
        if self._error is not None:
            raise self._error

    async def _work(self, waiting: Iterator[LogLoader]) -> None:
        async for loader in in_slices(waiting, look_every=1):
            if self._error is not None:
                return
            try:
                await loader.load()
                self._adopt(loader.log)
                if loader.discarded:
                    await loader.log.flush()
            except (OSError, KafkaError) as error:
                self._error = error
                return
            self._loaded += 1

    def _tell(self) -> None:
        self._events.info(
            "logs_loading",
            loaded=self._loaded,
            logs=len(self._loaders),
            bytes_recovered=sum(loader.bytes_read for loader in self._loaders),
        )
        self._progress = self._clock.call_later(_PROGRESS_MS, self._tell)


class DirectoryLoading:
    """Loads the logs of all live directories.

    ``adopt`` is called with each loaded log and its directory. ``configs`` has the settings of
    topics that differ from the defaults. A directory that raises OSError is taken offline; the
    others are still loaded."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        config: LogManagerConfig,
        configs: Mapping[str, LogConfig],
        directories: LogDirectories,
        adopt: Callable[[LogDirectory, UnifiedLog], None],
        events: EventLog,
    ) -> None:
        self._files = files
        self._clock = clock
        self._config = config
        self._configs = configs
        self._directories = directories
        self._adopt = adopt
        self._events = events

    async def load(self) -> None:
        """Load the logs. Raises ConfigError if all directories have failed, if two of them have a
        log of the same partition, and as ``LogDirectories.fail_at_start``;
        KafkaError(CORRUPT_MESSAGE) as ``LogLoader.load``."""
        found = self._directories.each(LogDirectory.partitions)
        homes: dict[TopicPartition, LogDirectory] = {}
        for directory, partitions in found.items():
            for topic_partition in partitions:
                if homes.setdefault(topic_partition, directory) is not directory:
                    raise ConfigError(f"two log directories hold a log of {topic_partition}")
        async with asyncio.TaskGroup() as tasks:
            loads = [
                tasks.create_task(self._load(directory, partitions), name=f"load {directory.path}")
                for directory, partitions in found.items()
            ]
        errors = [error for load in loads if (error := load.result()) is not None]
        if errors:
            raise errors[0]
        self._directories.require_one()

    async def _load(
        self, directory: LogDirectory, partitions: Sequence[TopicPartition]
    ) -> KafkaError | ConfigError | None:
        """Load one directory. Returns its error instead of raising it, so that the other
        directories are loaded completely."""
        try:
            await directory.settle()
            put_files_apart(self._files, directory.path, self._events)
            await directory.take_clean_marker()
            await self._load_logs(directory, partitions)
        except OSError as error:
            try:
                self._directories.fail_at_start(directory, error)
            except ConfigError as shortage:
                return shortage
        except KafkaError as error:
            return error
        return None

    async def _load_logs(
        self, directory: LogDirectory, partitions: Sequence[TopicPartition]
    ) -> None:
        points, starts = (
            directory.read_offsets(each) for each in (RECOVERY_POINT, LOG_START_OFFSET)
        )
        directory.points.was_read(points)
        directory.starts.was_read(starts)
        cleaned = directory.checkpointed_cleaned = directory.read_offsets(CLEANER_OFFSET)
        loaders: list[LogLoader] = []
        for topic_partition in partitions:
            log = UnifiedLog(
                self._files,
                f"{directory.path}/{directory_name(topic_partition)}",
                topic_partition,
                self._configs.get(topic_partition.topic, self._config.log),
                directory,
            )
            found = Checkpointed(
                directory.clean,
                points.get(topic_partition, 0),
                starts.get(topic_partition, 0),
                cleaned.get(topic_partition),
            )
            loaders.append(LogLoader(self._files, log, found, self._events))
        await LogLoading(
            self._clock,
            self._events.bind(directory=directory.path),
            self._config.num_recovery_threads_per_data_dir,
            lambda log: self._adopt(directory, log),
        ).load(loaders)
        if any(log.recovery_point_lowered for log in directory.logs.values()):
            await directory.checkpoint_recovery_points()
        if not starts.keys() <= directory.logs.keys():
            # Else a new log of this partition would start at the old offset.
            await directory.checkpoint_starts()
        if not cleaned.keys() <= directory.logs.keys():
            await directory.checkpoint_cleaned()
        self._events.info(
            "logs_loaded", directory=directory.path, logs=len(partitions), clean=directory.clean
        )
