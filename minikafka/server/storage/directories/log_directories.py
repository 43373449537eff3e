"""The directories of ``log.dirs``: which broker owns them, which are online, which have failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from minikafka.core.log.small_files import REPLICATION_OFFSET
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.disk_errors import is_out_of_resources
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Files
from minikafka.server.storage.directories.delayed_removal import DelayedRemoval
from minikafka.server.storage.directories.log_directory import LogDirectory
from minikafka.server.storage.log.open_segments import OpenSegments
from minikafka.server.storage.log.unified_log import UnifiedLog

T = TypeVar("T")


class LogDirectories:
    """The directories of a broker: ``live`` ones in use, and ``offline`` ones with their errors, by
    path. An offline directory is used again only after a restart of the broker."""

    def __init__(
        self,
        files: Files,
        paths: Sequence[str],
        events: EventLog,
        failed: Callable[[LogDirectory], None],
        removal: DelayedRemoval,
        start_moved: Callable[[LogDirectory, UnifiedLog], None],
        high_watermark: Callable[[TopicPartition], int | None],
        open_segments: OpenSegments,
    ) -> None:
        """``failed`` is called with each directory that has been taken offline. ``removal``,
        ``start_moved``, ``high_watermark`` and ``open_segments`` are passed to each
        ``LogDirectory``."""
        self.paths = tuple(paths)
        self.live = [
            LogDirectory(files, path, events, removal, start_moved, high_watermark, open_segments)
            for path in paths
        ]
        self.offline: dict[str, OSError] = {}
        self._events = events
        self._failed = failed

    # ---- identity

    def lock(self) -> None:
        """Lock all directories for this process. Raises ConfigError if another process has locked
        one of them, or if all have failed."""
        self.each(LogDirectory.lock)

    def broker_id(self) -> int | None:
        """Return the id of the broker that owns the directories, None if they are new. Raises
        ConfigError if they belong to several brokers."""
        metas = self.each(LogDirectory.read_meta_properties)
        ids = {meta.broker_id for meta in metas.values() if meta.broker_id is not None}
        if len(ids) > 1:
            raise ConfigError(f"log.dirs belong to several brokers: {sorted(ids)}")
        return ids.pop() if ids else None

    def cluster_id(self) -> str | None:
        """Return the id of the cluster that the directories belong to, None if they are new or
        disagree."""
        metas = self.each(LogDirectory.read_meta_properties)
        ids = {meta.cluster_id for meta in metas.values() if meta.cluster_id is not None}
        return ids.pop() if len(ids) == 1 else None

    async def claim(self, broker_id: int, cluster_id: str) -> None:
        """Write the broker id and cluster id into ``meta.properties`` of all directories. Raises
        ConfigError if one belongs to another broker or cluster."""
        metas = self.each(LogDirectory.read_meta_properties)
        claimed = {d: meta.claimed_by(broker_id, cluster_id) for d, meta in metas.items()}
        for directory, after in claimed.items():
            if metas[directory] != after:
                try:
                    await directory.write_meta_properties(after)
                except OSError as error:
                    self.fail_at_start(directory, error)
        self.require_one()

    # ---- failure

    def each(self, work: Callable[[LogDirectory], T]) -> dict[LogDirectory, T]:
        """Call ``work`` for each live directory, and take it offline if that raises OSError. Raises
        ConfigError if no directory is left, and as ``fail_at_start``. For the start of a broker."""
        results: dict[LogDirectory, T] = {}
        for directory in list(self.live):
            try:
                results[directory] = work(directory)
            except OSError as error:
                self.fail_at_start(directory, error)
        self.require_one()
        return results

    def fail_at_start(self, directory: LogDirectory, error: OSError) -> None:
        """Take a directory offline that cannot be used when the broker starts, also a full one.

        Raises ConfigError, which ends the start, if the process lacks descriptors, threads or
        memory: the directory is as good as before, and the other directories would be next."""
        if is_out_of_resources(error):
            raise ConfigError(
                f"log directory {directory.path} cannot be used: {error.strerror or error}; raise "
                "the limits of the process (ulimit -n) or free resources, and start again"
            ) from error
        self.fail(directory, error)

    def fail(self, directory: LogDirectory, error: OSError) -> None:
        """Take a directory offline and release its lock. A second call does nothing."""
        if directory not in self.live:
            return
        self.live.remove(directory)
        self.offline[directory.path] = error
        directory.unlock()
        self._events.error(
            "log_directory_failed",
            directory=directory.path,
            error=str(error),
            logs=len(directory.logs),
            left=[other.path for other in self.live],
        )
        self._failed(directory)

    def require_one(self) -> None:
        """Raise ConfigError if all directories have failed."""
        if not self.live:
            path, error = next(iter(self.offline.items()))
            raise ConfigError(
                f"none of the log directories {', '.join(self.paths)} can be used: "
                f"{path}: {error.strerror or error}"
            )

    # ---- lookups

    def by_path(self, path: str) -> LogDirectory | None:
        """Return the live directory with this path, None if there is none."""
        return next((directory for directory in self.live if directory.path == path), None)

    def topics(self) -> set[str]:
        """Return the topics with logs on disk, loaded or not. Raises ConfigError as ``each``."""
        found = self.each(LogDirectory.partitions).values()
        return {topic_partition.topic for here in found for topic_partition in here}

    def by_load(self) -> list[LogDirectory]:
        """Return the live directories by increasing number of logs. Kafka:
        ``LogManager.nextLogDirs``."""
        return sorted(self.live, key=lambda d: len(d.logs) + len(d.futures))

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """Read the high watermarks last checkpointed (``replication-offset-checkpoint``)."""
        merged: dict[TopicPartition, int] = {}
        for found in self.each(lambda d: d.read_offsets(REPLICATION_OFFSET)).values():
            merged |= found
        return merged

    def close(self) -> None:
        for directory in self.live:
            directory.logs.clear()
            directory.unlock()
