"""One directory of ``log.dirs``: its lock, ``meta.properties``, checkpoint files and logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from minikafka.core.log.names import (
    is_deleted_directory_name,
    parse_directory_name,
    parse_future_directory_name,
)
from minikafka.core.log.small_files import (
    CLEANER_OFFSET,
    LOG_START_OFFSET,
    META_PROPERTIES,
    RECOVERY_POINT,
    REPLICATION_OFFSET,
    CheckpointError,
    MetaProperties,
    OffsetRows,
    decode_meta_properties,
    decode_offsets,
    encode_meta_properties,
    encode_offsets,
    encode_rows,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.disk_errors import before_flush
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import FileLock, Files, Volume
from minikafka.kernel.slices import in_slices
from minikafka.server.storage.directories.delayed_removal import DelayedRemoval
from minikafka.server.storage.durable import flush_path, write_durably
from minikafka.server.storage.log.open_segments import OpenSegments
from minikafka.server.storage.log.segment import LogSegment
from minikafka.server.storage.log.unified_log import UnifiedLog

LOCK: Final = ".lock"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
_CLEAN_SHUTDOWN_CONTENT: Final = b'{"version":0,"brokerEpoch":-1}'


class LogDirectory:
    """One log directory. It is the ``LogHome`` of its logs.

    ``logs`` are those in use, ``futures`` the incomplete copies of logs that are moved here.
    ``points``, ``starts`` and ``checkpointed_cleaned`` have the contents of the checkpoint files.
    ``start_moved`` is called when the start offset of a log in use has moved. ``high_watermark``
    returns the high watermark of a partition, None if the broker does not host it.
    ``open_segments`` is that of all logs of the broker. Every method may raise OSError.
    """

    def __init__(
        self,
        files: Files,
        path: str,
        events: EventLog,
        removal: DelayedRemoval,
        start_moved: Callable[[LogDirectory, UnifiedLog], None],
        high_watermark: Callable[[TopicPartition], int | None],
        open_segments: OpenSegments,
    ) -> None:
        self.path = path
        self.open_segments = open_segments
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        self.futures: dict[TopicPartition, UnifiedLog] = {}  # logs that are being moved here
        self.clean = False  # whether the last broker process shut down cleanly
        self.points = OffsetRows()  # recovery points
        self.starts = OffsetRows()
        self._lowered: dict[TopicPartition, UnifiedLog] = {}  # noted since the points were written
        self.checkpointed_cleaned: dict[TopicPartition, int] = {}
        self._files = files
        self._events = events.bind(directory=path)
        self._removal = removal
        self._start_moved = start_moved
        self._high_watermark = high_watermark
        self._lock: FileLock | None = None
        self._made: list[str] = []  # directories that ``lock`` has made

    # ---- the logs in use

    def add(self, log: UnifiedLog) -> None:
        """Take a log into use: its offsets are in the checkpoints from now on."""
        self.logs[log.topic_partition] = log
        self._note_point(log)
        self._note_start(log)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Take the log of a partition out of use. The files have its offsets until they are written
        again."""
        del self.logs[topic_partition]
        self.points.remove(topic_partition)
        self.starts.remove(topic_partition)

    # ---- as home of its logs

    def write_lowered_offsets(self, log: UnifiedLog) -> None:
        if self.is_in_use(log):
            self._note_point(log)
            self._note_start(log)
            self.write_recovery_points()
            self.write_starts()

    async def flush_lowered_offsets(self, log: UnifiedLog) -> bool:
        if not self.is_in_use(log):
            return False
        with before_flush():
            self.write_lowered_offsets(log)
        await flush_path(self._files, f"{self.path}/{RECOVERY_POINT}")
        await flush_path(self._files, f"{self.path}/{LOG_START_OFFSET}")
        return True

    def log_start_moved(self, log: UnifiedLog) -> None:
        if self.is_in_use(log):
            self._note_start(log)
            self._start_moved(self, log)

    def remove_later(self, segment: LogSegment, delay_ms: int) -> None:
        self._removal.segment(segment, delay_ms)

    def is_in_use(self, log: UnifiedLog) -> bool:
        """Return whether this is the log of its partition, and not a log being loaded or a copy.

        While logs are being loaded, a checkpoint would lack those that are not loaded yet. A copy
        would be written in place of the log that it is going to replace."""
        return self.logs.get(log.topic_partition) is log

    # ---- ownership

    def lock(self) -> None:
        """Create the directory if it does not exist, and lock it. Raises ConfigError if another
        process has locked it."""
        if self._lock is None:
            self._made = self._missing()
            self._files.make_directories(self.path)
            try:
                self._lock = self._files.lock(f"{self.path}/{LOCK}")
            except BlockingIOError as error:
                raise ConfigError(
                    f"log directory {self.path} is in use by another process"
                ) from error

    def _missing(self) -> list[str]:
        """Return the path and its parents that do not exist, outermost first."""
        missing: list[str] = []
        path = self.path
        while path and not self._files.exists(path):
            missing.insert(0, path)
            path = path.rpartition("/")[0]
        return missing

    async def settle(self) -> None:
        """Flush the entries of the directories that ``lock`` has created."""
        for made in self._made:
            await self._files.flush_directory(made.rpartition("/")[0] or "/")
        self._made = []

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read_meta_properties(self) -> MetaProperties:
        """Read ``meta.properties``; empty properties if there is no file. Raises ConfigError."""
        try:
            return decode_meta_properties(self._files.read_all(f"{self.path}/{META_PROPERTIES}"))
        except FileNotFoundError:
            return MetaProperties()

    async def write_meta_properties(self, meta: MetaProperties) -> None:
        await self._files.replace(f"{self.path}/{META_PROPERTIES}", encode_meta_properties(meta))

    # ---- the marker of a clean shutdown

    async def take_clean_marker(self) -> None:
        """Set ``clean`` if the marker of a clean shutdown exists, and remove the marker durably,
        because this process may crash."""
        marker = f"{self.path}/{CLEAN_SHUTDOWN}"
        self.clean = self._files.exists(marker)
        if self.clean:
            self._files.remove(marker)
            await self._files.flush_directory(self.path)

    async def leave_clean_marker(self) -> None:
        await self._files.replace(f"{self.path}/{CLEAN_SHUTDOWN}", _CLEAN_SHUTDOWN_CONTENT)

    # ---- directories

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions with logs here, from the names of directories. Other names are
        ignored."""
        return [
            topic_partition
            for name in self._files.list(self.path)
            if (topic_partition := parse_directory_name(name)) is not None
            and self._files.is_directory(f"{self.path}/{name}")
        ]

    def doomed(self) -> list[str]:
        """Return the paths of deleted logs whose files have not been removed yet."""
        names = self._files.list(self.path)
        return [
            path
            for name in names
            if is_deleted_directory_name(name)
            and self._files.is_directory(path := f"{self.path}/{name}")
        ]

    def volume(self) -> Volume:
        """Return the size and free space of its file system."""
        return self._files.volume(self.path)

    def leftover_futures(self) -> dict[str, TopicPartition]:
        """Return the directories of copies that the last broker process did not complete: path and
        partition."""
        names = {name: parse_future_directory_name(name) for name in self._files.list(self.path)}
        return {
            path: tp
            for name, tp in names.items()
            if tp is not None and self._files.is_directory(path := f"{self.path}/{name}")
        }

    # ---- checkpoints

    def read_offsets(self, name: str) -> dict[TopicPartition, int]:
        """Return the offsets in a checkpoint file, none if it is missing or damaged.

        Without recovery points, logs are recovered from their start. Without high watermarks,
        followers get them from leaders."""
        try:
            return decode_offsets(self._files.read_all(f"{self.path}/{name}"))
        except FileNotFoundError:
            return {}
        except CheckpointError as error:
            self._events.warning("checkpoint_malformed", name=name, error=str(error))
            return {}

    def write_high_watermarks(self, rows: Sequence[str]) -> None:
        """Write rows of ``checkpoints.offset_row``."""
        self._files.replace_unsynced(f"{self.path}/{REPLICATION_OFFSET}", encode_rows(rows))

    def write_recovery_points(self) -> None:
        """Write the recovery points without flushing: they survive a killed process, but not a
        power loss. Those that have risen since ``checkpoint_recovery_points`` are written as they
        were then, which costs more recovery at most."""
        self.points.write(partial(self._files.replace_unsynced, f"{self.path}/{RECOVERY_POINT}"))
        for topic_partition, log in self._lowered.items():
            written = self.points.get(topic_partition)
            if written is not None and written <= log.recovery_point:
                log.recovery_point_lowered = False
        self._lowered = {}

    async def checkpoint_recovery_points(self) -> None:
        """Write and flush the recovery points of now, so that they survive a power loss."""
        await self._note_all(self._note_point)
        self.write_recovery_points()
        await flush_path(self._files, f"{self.path}/{RECOVERY_POINT}")

    def write_starts(self) -> None:
        """Write the log start offsets that the name of the first segment does not give.

        Without flushing: they survive a killed process, but not a power loss."""
        self.starts.write(partial(self._files.replace_unsynced, f"{self.path}/{LOG_START_OFFSET}"))

    async def flush_starts(self) -> None:
        """Write and flush the log start offsets, so that they survive a power loss."""
        self.write_starts()
        await flush_path(self._files, f"{self.path}/{LOG_START_OFFSET}")

    async def checkpoint_starts(self) -> None:
        """Write and flush the log start offsets that the names of segments do not give already."""
        await self._note_all(self._note_checked_start)
        await self.flush_starts()

    async def _note_all(self, note: Callable[[UnifiedLog], None]) -> None:
        """Call ``note`` for each log in use, in slices. What changes meanwhile is noted by itself
        where it must not be lost (``write_lowered_offsets``, ``log_start_moved``), so that no older
        offset is written over a newer one."""
        async for log in in_slices(list(self.logs.values())):
            if self.is_in_use(log):
                note(log)

    def _note_point(self, log: UnifiedLog) -> None:
        assert log.recovery_point <= log.log_end_offset, (
            f"{log.topic_partition}: the recovery point is above the log end offset"
        )
        self.points.set(log.topic_partition, log.recovery_point)
        if log.recovery_point_lowered:
            self._lowered[log.topic_partition] = log

    def _note_start(self, log: UnifiedLog) -> None:
        """While the removal of a segment is not flushed, the name of the first one does not count,
        because a power loss may bring the segment back."""
        first, start = log.segments.first, log.log_start_offset
        assert start <= log.log_end_offset, (
            f"{log.topic_partition}: the log start offset is above the log end offset"
        )
        named = 0 if first is None or log.unflushed_names else first.base_offset
        if start > named:
            self.starts.set(log.topic_partition, start)
        else:
            self.starts.remove(log.topic_partition)

    def _note_checked_start(self, log: UnifiedLog) -> None:
        self.check_start(log)
        self._note_start(log)

    def check_start(self, log: UnifiedLog) -> None:
        """Assert that log start <= high watermark <= log end, if the broker hosts the partition.

        The high watermark may be the log end below the log start, after a truncation that failed
        half way. ``write_lowered_offsets`` does not check: it is called in the course of a
        truncation, when ``Partition`` has not lowered the high watermark yet."""
        high_watermark = self._high_watermark(log.topic_partition)
        if high_watermark is not None:
            start, end = log.log_start_offset, log.log_end_offset
            assert start <= high_watermark <= end or high_watermark == end, (
                f"{log.topic_partition}: high watermark {high_watermark} outside of {start}..{end}"
            )

    async def checkpoint_cleaned(self) -> None:
        """Write and flush the offset up to which each log is clean.

        The entry of a log is kept when its topic is no longer compacted: recovery must know that
        gaps between its segments are normal."""
        cleaned = {
            topic_partition: log.cleaned_offset
            for topic_partition, log in self.logs.items()
            if log.cleaned_offset is not None
        }
        self.checkpointed_cleaned = cleaned
        path = f"{self.path}/{CLEANER_OFFSET}"
        await write_durably(self._files, path, encode_offsets(cleaned))
