"""Moves of logs between log directories: copying a log, then replacing it by the copy."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final, Protocol

from minikafka.core.log.names import (
    delete_directory_name,
    directory_name,
    future_directory_name,
)
from minikafka.core.replication.quota import QuotaConfig, ReplicationQuota
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock, Files
from minikafka.server.storage.directories.delayed_removal import DelayedRemoval
from minikafka.server.storage.directories.log_directories import LogDirectories
from minikafka.server.storage.directories.log_directory import LogDirectory
from minikafka.server.storage.log.loader import assign_topic_id, create_log
from minikafka.server.storage.log.reader import LogRead
from minikafka.server.storage.log.unified_log import NO_CUT, UnifiedLog
from minikafka.server.storage.log_cleaner import LogCleaner

MOVED_FROM: Final = "moved-from"  # a file: the directory that this log replaces
_SLICE_BYTES: Final = 1 << 20
_FLUSH_BYTES: Final = 64 << 20
_RETRY_MS: Final = 1_000
_LOOK_AGAIN_MS: Final = 1_000  # while the quota is exceeded; it may be changed meanwhile
_PREFERRED_LIMIT: Final = 100_000  # clients may name partitions that do not exist


@dataclass(eq=False, slots=True)
class _Move:
    source: UnifiedLog
    directory: LogDirectory  # the target
    future: UnifiedLog
    cleaning_paused: bool = False


class LogOwner(Protocol):
    """The methods of the log manager that moves call."""

    cleaner: LogCleaner

    def failed(self, directory: LogDirectory, error: OSError) -> bool:
        """Handle an error of a directory: True if it is offline now, False if it is full."""
        ...

    def storage_failed(self, topic_partition: TopicPartition, error: OSError) -> bool: ...

    def replace(self, log: UnifiedLog, directory: LogDirectory) -> None:
        """Replace the log of a partition by ``log``, which is in ``directory``, and close the old
        one."""
        ...


class LogMoves:
    """The requested moves. Each task in ``run`` carries out one at a time.

    If the source is truncated, so is the copy. The source is not compacted during a move. A move
    that is interrupted by a restart starts again with an empty copy. ``quota`` limits the bytes
    copied (``replica.alter.log.dirs.io.max.bytes.per.second``). Kafka:
    ``ReplicaAlterLogDirsThread``.
    """

    def __init__(
        self,
        files: Files,
        clock: Clock,
        directories: LogDirectories,
        removal: DelayedRemoval,
        owner: LogOwner,
        quota: QuotaConfig,
        events: EventLog,
    ) -> None:
        self.quota = ReplicationQuota(quota)
        self.preferred: dict[TopicPartition, str] = {}  # the paths for logs that do not exist yet
        self._files = files
        self._clock = clock
        self._directories = directories
        self._removal = removal
        self._owner = owner
        self._events = events
        self._moves: dict[TopicPartition, _Move] = {}
        self._carried: set[TopicPartition] = set()  # the moves that a worker has claimed
        self._wake = asyncio.Event()
        self._names = 0

    # ---- requests

    def begin(self, topic_partition: TopicPartition, path: str, source: UnifiedLog | None) -> None:
        """Begin to move a partition's log, ``source``, to the log directory ``path``.

        This cancels a move of the partition to another directory. If the log is in ``path``, or is
        being moved there, nothing else happens. Raises KafkaError: LOG_DIR_NOT_FOUND,
        KAFKA_STORAGE_ERROR if a log directory is offline, INVALID_TOPIC_EXCEPTION for a topic name
        that is too long, REPLICA_NOT_AVAILABLE if ``source`` is None: the log is then created in
        ``path`` when the broker becomes a replica, as in Kafka.
        """
        if path not in self._directories.paths:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not in log.dirs")
        directory = self._directories.by_path(path)
        if directory is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {path} is offline")
        if source is None:
            if len(self.preferred) < _PREFERRED_LIMIT:
                self.preferred[topic_partition] = path
            raise KafkaError(
                ErrorCode.REPLICA_NOT_AVAILABLE, f"there is no log of {topic_partition} yet"
            )
        move = self._moves.get(topic_partition)
        if move is not None and move.directory is directory:
            return
        self.cancel(topic_partition)
        if topic_partition in directory.logs:
            return
        if self._directories.offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, "no log is moved while log directories are offline"
            )
        self._create(source, directory)

    def _create(self, source: UnifiedLog, directory: LogDirectory) -> None:
        topic_partition = source.topic_partition
        name = future_directory_name(topic_partition, self._seed(source))
        while name is not None and self._files.exists(f"{directory.path}/{name}"):
            name = future_directory_name(topic_partition, self._seed(source))
        if name is None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic's name is too long")
        try:
            # Remove entries of an earlier log with this name from the checkpoints.
            if directory.points.in_file(topic_partition) is not None:
                directory.write_recovery_points()
            if directory.starts.in_file(topic_partition) is not None:
                directory.write_starts()
            path = f"{directory.path}/{name}"
            future = create_log(
                self._files, path, topic_partition, source.topic_id, source.config, directory
            )
        except OSError as error:
            self._owner.failed(directory, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        source.cut_to = NO_CUT
        self._moves[topic_partition] = _Move(source, directory, future)
        directory.futures[topic_partition] = future
        self._events.info(
            "log_move_started", log=str(topic_partition), source=source.directory, target=path
        )
        self._wake.set()

    def _seed(self, log: UnifiedLog) -> str:
        self._names += 1
        return f"{log.directory} {self._clock.wall_ms()} {self._names}"

    def cancel(self, topic_partition: TopicPartition) -> None:
        """Cancel the move of a partition, if there is one."""
        move = self._moves.get(topic_partition)
        if move is not None:
            self._events.info("log_move_cancelled", log=str(topic_partition))
            self._end(move)
            move.future.close()
            self._removal.tree(move.future.directory, 0)

    def _end(self, move: _Move) -> None:
        topic_partition = move.source.topic_partition
        del self._moves[topic_partition]
        del move.directory.futures[topic_partition]
        if move.cleaning_paused:
            self._owner.cleaner.resume(topic_partition)

    def directory_failed(self, directory: LogDirectory) -> None:
        """Cancel all moves from and to the directory."""
        for topic_partition, move in list(self._moves.items()):
            if move.directory is directory:
                self._end(move)
                with contextlib.suppress(OSError):
                    move.future.close()
            elif topic_partition in directory.logs:
                self.cancel(topic_partition)

    def close(self) -> None:
        for move in self._moves.values():
            move.future.close()

    # ---- after a restart

    def tidy(self) -> None:
        """Delete the old log of each move that was interrupted after its copy had taken over.

        Call this before logs are loaded."""
        if len(self._directories.paths) > 1:
            self._directories.each(self._tidy)

    def _tidy(self, directory: LogDirectory) -> None:
        for topic_partition in directory.partitions():
            path = f"{directory.path}/{directory_name(topic_partition)}"
            marker = f"{path}/{MOVED_FROM}"
            if not self._files.exists(marker) or self._files.is_directory(marker):
                continue
            old = self._files.read_all(marker).decode(errors="replace")
            home = self._directories.by_path(old.rpartition("/")[0])
            if home is not None and home is not directory and self._files.exists(old):
                self._events.info("old_log_replaced", log=path, old=old)
                name = delete_directory_name(topic_partition, f"{old} {self._clock.wall_ms()}")
                self._files.rename(old, f"{home.path}/{name}")
            if home is not None:
                self._files.remove(marker)

    def resume(self, logs: Mapping[TopicPartition, UnifiedLog]) -> None:
        """Start the unfinished moves of the last process again. Call this after logs are loaded.

        While a directory is offline, copies of logs that may be there are kept. Raises ConfigError
        as ``LogDirectories.each``."""
        leftover = self._directories.each(LogDirectory.leftover_futures)
        if self._directories.offline:
            return
        for directory, futures in leftover.items():
            for path, topic_partition in futures.items():
                source = logs.get(topic_partition)
                if source is None:
                    self._events.warning("orphaned_future_log_found", path=path)
                    continue
                self._removal.tree(path, 0)
                with contextlib.suppress(KafkaError):
                    self.begin(topic_partition, directory.path, source)

    # ---- the copying

    async def run(self) -> None:
        """Carry out moves until cancelled. Several tasks may run this."""
        while True:
            move = self._next()
            if move is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            topic_partition = move.source.topic_partition
            self._carried.add(topic_partition)
            try:
                await self._carry_out(move)
            except OSError as error:
                if self._is_on(move) and not self._owner.failed(move.directory, error):
                    # The disk is full or no file can be opened. Another move may have room.
                    self._moves[topic_partition] = self._moves.pop(topic_partition)
                    await self._clock.sleep(_RETRY_MS)
            except KafkaError as error:
                self._events.error("log_move_failed", log=str(topic_partition), error=str(error))
                if self._is_on(move):
                    self.cancel(topic_partition)
            finally:
                self._carried.remove(topic_partition)

    def _next(self) -> _Move | None:
        """Return the next move that no worker has claimed. A log that moves again waits for the end
        of its last move, which renames the old directory."""
        waiting = (move for tp, move in self._moves.items() if tp not in self._carried)
        return next(waiting, None)

    def _is_on(self, move: _Move) -> bool:
        return self._moves.get(move.source.topic_partition) is move

    async def _carry_out(self, move: _Move) -> None:
        """Copy the log, flush the copy, copy the records appended meanwhile, and swap the two.

        Raises OSError of the target directory, KafkaError if the source cannot be read."""
        unflushed = 0
        if not move.cleaning_paused:
            move.cleaning_paused = True
            await self._owner.cleaner.pause(move.source.topic_partition)
        while self._is_on(move):
            if wait_ms := self.quota.wait_ms(self._clock.monotonic_ms()):
                await self._clock.sleep(min(wait_ms, _LOOK_AGAIN_MS))
                continue
            copied = await self._copy(move)
            unflushed += copied or 0
            if copied is not None and unflushed < _FLUSH_BYTES:
                await asyncio.sleep(0)
                continue
            unflushed = 0
            await move.future.flush()
            if copied is None and self._is_on(move):
                marker = f"{move.future.directory}/{MOVED_FROM}"
                await self._files.replace(marker, move.source.directory.encode())
                await self._files.flush_directory(move.directory.path)
                if self._is_on(move) and self._catches_up(move):
                    await self._swap(move)

    async def _copy(self, move: _Move) -> int | None:
        """Copy one slice. Returns its size in bytes, None if there is nothing left to copy."""
        source = move.source
        start = self._aligned(move)
        if move.future.cut_unflushed:
            await move.future.flush()
            return 0
        if start >= source.log_end_offset:
            return None
        try:
            found = await source.read_cold(start, _SLICE_BYTES, source.log_end_offset, True)
        except OSError as error:
            raise self._source_failed(source, error) from error
        if not self._is_on(move) or source.cut_to != NO_CUT:
            return 0  # the next slice is read again
        self._append(move.future, found, source.log_end_offset)
        return len(found.records)

    def _catches_up(self, move: _Move) -> bool:
        """Copy the last records synchronously; False if they are more than one slice."""
        source = move.source
        start = self._aligned(move)
        if move.future.cut_unflushed:
            return False
        if start < source.log_end_offset:
            try:
                found = source.read(start, _SLICE_BYTES, source.log_end_offset, True)
            except OSError as error:
                raise self._source_failed(source, error) from error
            self._append(move.future, found, source.log_end_offset)
        return move.future.log_end_offset >= source.log_end_offset

    def _source_failed(self, source: UnifiedLog, error: OSError) -> KafkaError | OSError:
        """Return the error to raise: KafkaError ends the move, OSError has it tried again."""
        if not self._owner.storage_failed(source.topic_partition, error):
            return error
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def _aligned(self, move: _Move) -> int:
        """Truncate the copy where the source was truncated; return the offset to copy from."""
        source, future = move.source, move.future
        future.config = source.config
        if source.cut_to < future.log_end_offset:
            future.truncate_to(source.cut_to)
        source.cut_to = NO_CUT
        if future.log_end_offset < source.log_start_offset:
            future.truncate_fully_and_start_at(source.log_start_offset)
        return future.log_end_offset

    def _append(self, future: UnifiedLog, found: LogRead, end: int) -> None:
        if found.first_offset < future.log_end_offset:
            # The source starts within a batch, or has other batches than those that were copied.
            future.truncate_fully_and_start_at(found.first_offset)
            if future.cut_unflushed:
                return
        if found.records:
            future.append_as_follower(found.records)
            self.quota.record(len(found.records), self._clock.monotonic_ms())
        else:
            future.skip_to(end)  # compaction has removed all records up to there

    # ---- the swap

    async def _swap(self, move: _Move) -> None:
        """Replace the source by the copy, synchronously. If the broker dies before the old
        directory is renamed, ``tidy`` finds out by a marker file which of the two is valid."""
        source, log, directory = move.source, move.future, move.directory
        old = source.directory
        log.increment_log_start_offset(source.log_start_offset)
        log.epochs.take_over(source.epochs.cache.entries)
        log.producers.states.take_over_verifications(source.producers.states)
        log.cleaned_offset = source.cleaned_offset
        if log.topic_id != source.topic_id and source.topic_id is not None:
            assign_topic_id(self._files, log, source.topic_id)
        path = f"{directory.path}/{directory_name(log.topic_partition)}"
        self._files.rename(log.directory, path)
        log.moved_to(path)
        log.recovery_point_lowered = log.unflushed_names = True
        self._end(move)
        self._owner.replace(log, directory)
        self._events.info("log_moved", log=str(log.topic_partition), source=old, target=path)
        try:
            directory.write_starts()
            await directory.checkpoint_recovery_points()
            await directory.checkpoint_starts()
            if log.cleaned_offset is not None:
                await directory.checkpoint_cleaned()
            await self._files.flush_directory(directory.path)
        except OSError as error:
            self._owner.failed(directory, error)
            return
        if await self._put_aside(source, old) and not log.closed:
            self._files.remove(f"{path}/{MOVED_FROM}")

    async def _put_aside(self, source: UnifiedLog, old: str) -> bool:
        """Rename the old directory. False if its disk has failed: then ``tidy`` does it when the
        disk is back, or the broker would find two logs of the partition and not start."""
        home = self._directories.by_path(old.rpartition("/")[0])
        if home is None:
            return False
        name = delete_directory_name(source.topic_partition, self._seed(source))
        try:
            self._files.rename(old, f"{home.path}/{name}")
            self._removal.tree(f"{home.path}/{name}", source.config.file_delete_delay_ms)
            await self._files.flush_directory(home.path)
        except OSError as error:
            self._owner.failed(home, error)
            return False
        return True
