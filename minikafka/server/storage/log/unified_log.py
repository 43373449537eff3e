"""The log of one partition: appends, reads, truncation, flushes, and their effect on its files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final, Protocol
from uuid import UUID

from minikafka.core.log.append import AppendOrigin, LogAppendInfo, UnexpectedAppendOffset
from minikafka.core.log.config import LOG_APPEND_TIME, LogConfig
from minikafka.core.log.leader_epochs import EpochEntry
from minikafka.core.log.open_transactions import AbortedTxn
from minikafka.core.log.producer_state import end_marker
from minikafka.core.log.segment_limits import fits, segment_runs
from minikafka.core.log.time_search import OffsetSearch
from minikafka.core.log.validation import PreparedBatch, follower_batches, leader_batch
from minikafka.core.log.verification import NOT_REQUIRED, Verification
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.compiled import mypyc_attr
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Buffer, Files
from minikafka.protocol.records.batch import (
    CONTROL_FLAG,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    RecordBatch,
    stamp_at,
    stamp_log_append_time,
)
from minikafka.server.storage.log.epoch_store import LeaderEpochStore
from minikafka.server.storage.log.open_segments import OpenSegments
from minikafka.server.storage.log.producer_store import ProducerStore
from minikafka.server.storage.log.reader import Extent, LogRead, LogReader, lacks_first_batch
from minikafka.server.storage.log.segment import LogSegment, LogSegments
from minikafka.server.storage.log.segment_swap import swap_in

__all__ = ["AppendOrigin", "LogAppendInfo", "LogConfig", "LogRead", "UnifiedLog"]

_NO_EPOCH: Final = -1
NO_CUT: Final = 2**63 - 1
CUT_UNFLUSHED: Final = "cut-unflushed"  # a file that a crash leaves behind


class LogHome(Protocol):
    """The methods of a log directory that its logs call.

    A directory ignores calls of a log that is being loaded, or that is an incomplete copy.
    ``open_segments`` bounds the open files of all logs.
    """

    open_segments: OpenSegments

    def write_lowered_offsets(self, log: UnifiedLog) -> None:
        """Write the recovery point and the log start offset, one of which was lowered, without
        flushing: they survive a killed process, but not a power loss. Raises OSError."""
        ...

    async def flush_lowered_offsets(self, log: UnifiedLog) -> bool:
        """Write and flush these offsets, so that they survive a power loss. Returns False if the
        log is ignored. Raises OSError."""
        ...

    def log_start_moved(self, log: UnifiedLog) -> None:
        """Note that ``log_start_offset`` has changed, or that removing the segments below it should
        be tried again."""
        ...

    def remove_later(self, segment: LogSegment, delay_ms: int) -> None:
        """Remove the files of a deleted segment after ``delay_ms``, because readers may still use
        them. Raises OSError."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class NoHome:
    """The home of a log outside of any log directory: it has no checkpoints to write."""

    def __init__(self) -> None:
        self.open_segments = OpenSegments()

    def write_lowered_offsets(self, log: UnifiedLog) -> None:
        pass

    async def flush_lowered_offsets(self, log: UnifiedLog) -> bool:
        return False

    def log_start_moved(self, log: UnifiedLog) -> None:
        pass

    def remove_later(self, segment: LogSegment, delay_ms: int) -> None:
        segment.remove()


class UnifiedLog:
    """One partition's records from ``log_start_offset`` up to ``log_end_offset`` (exclusive).

    Everything before ``recovery_point`` is on disk. The directory exists from the beginning; the
    files of a segment appear with the first append. A call that raises OSError has changed nothing
    visible, and the log stays usable. Kafka: ``UnifiedLog`` and ``LocalLog``.

    ``cuts`` counts truncations, and ``cut_to`` is the lowest offset truncated to since a copy of
    this log was truncated as well. ``cleaned_offset`` is where the cleaner continues, None before
    its first run. ``home`` is the log directory that holds the log.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        home: LogHome | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.config = config
        self.topic_id: UUID | None = None
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        self.cuts = 0
        self.cut_to = NO_CUT
        self.cleaned_offset: int | None = None
        self.last_flush_ms = 0  # monotonic; the last flush of the whole log
        self.closed = False
        self.segments = LogSegments()
        self.epochs = LeaderEpochStore(files, directory)
        self.producers = ProducerStore(files, directory)
        self.transactions = self.producers.states.transactions
        # A lowered recovery point is written before a segment is added, since recovery would skip
        # segments that were never flushed, and the next flush makes it survive a power loss. The
        # same holds for a lowered log start, which would hide what is appended below the old one.
        self.recovery_point_lowered = False
        self.unflushed_names = False  # files were created or removed since the last flush
        self._files = files
        self._home: LogHome = NoHome() if home is None else home
        self.open_segments = self._home.open_segments
        self._reader = LogReader(self.segments)
        self._truncations = 0
        self._lowering_unflushed = False
        self._unflushed_cut = 0  # the last of ``cuts`` that dropped anything, or 0
        self._assigned_epoch = _NO_EPOCH  # the epoch of the last append, if it is the latest one

    @property
    def latest_epoch(self) -> int | None:
        """The latest leader epoch that has records here or was assigned; None if there is none."""
        return self.epochs.cache.latest_epoch

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    # ---- appending

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: Verification | None = NOT_REQUIRED,
        prepared: PreparedBatch | None = None,
        transaction_version: int = 0,
    ) -> LogAppendInfo:
        """Append the batch of a producer, and assign offsets and ``leader_epoch`` to it.

        If the buffer is writable, they are written into it. ``guard`` is the verification of a
        transactional batch and ``transaction_version`` the version of a marker, see
        ``ProducerStates.check``. ``prepared`` is the outcome of an earlier
        validation of ``records``; without it they are validated here. A producer's retry of a batch
        is not appended again; the result has ``duplicate`` set and the offsets of the first append.

        Raises OSError, for example for a full disk, and KafkaError: the errors of ``leader_batch``
        and of ``ProducerStates.check``, NOT_LEADER_OR_FOLLOWER while a truncation is not on disk
        yet, RECORD_LIST_TOO_LARGE for a batch larger than a segment.
        """
        if prepared is None:
            batch = leader_batch(records, self.config, origin, now_ms)
        else:
            batch = prepared.accepted()
        append_time = NO_TIMESTAMP
        if self.config.message_timestamp_type == LOG_APPEND_TIME:
            append_time = now_ms
        return self.append_valid(
            batch, leader_epoch, append_time, origin, guard, transaction_version
        )

    def append_valid(
        self,
        batch: RecordBatch,
        leader_epoch: int,
        append_time: int = NO_TIMESTAMP,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: Verification | None = NOT_REQUIRED,
        transaction_version: int = 0,
    ) -> LogAppendInfo:
        """Append a batch whose records are valid: ``leader_batch`` has returned it, or would.
        ``append_time`` in ms replaces the producer's timestamps if the topic has LogAppendTime."""
        first_offset = self.log_end_offset
        if batch.producer_id >= 0:
            known = self.producers.states.check(batch, origin, guard, transaction_version)
            if known is not None:
                return LogAppendInfo(
                    known.first_offset,
                    known.last_offset,
                    known.timestamp,
                    self.log_start_offset,
                    is_duplicate=True,
                )
        size = batch.length + LOG_OVERHEAD
        if size > self.config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a batch of {size} bytes exceeds a segment of {self.config.segment_bytes} bytes",
            )
        data = _writable(batch.buffer, size)
        stamp_at(data, 0, first_offset, batch.length, leader_epoch)
        max_timestamp = batch.max_timestamp
        if append_time != NO_TIMESTAMP:
            max_timestamp = append_time
            stamp_log_append_time(data, batch, append_time)
        last_offset = first_offset + batch.last_offset_delta
        try:
            segment = self._segment_for(size, first_offset, last_offset, max_timestamp)
            if leader_epoch != self._assigned_epoch:
                self.epochs.assign(leader_epoch, first_offset)
                self._assigned_epoch = leader_epoch
            segment.append(data, last_offset, max_timestamp)
        except (KafkaError, OSError) as failure:
            if batch.producer_id >= 0 and origin is AppendOrigin.CLIENT:
                storage = ErrorCode.KAFKA_STORAGE_ERROR
                error = failure.code if isinstance(failure, KafkaError) else storage
                self.producers.states.refuse(batch, error)
            raise
        self.log_end_offset = last_offset + 1
        if batch.producer_id >= 0:
            aborted = self.producers.states.update(batch, first_offset, max_timestamp)
            if aborted is not None:
                self._note_aborted(segment, aborted)
        return LogAppendInfo(first_offset, last_offset, append_time, self.log_start_offset)

    def append_as_follower(self, records: Buffer) -> None:
        """Append the batches that a follower has fetched, with the leader's offsets and epochs.

        ``records`` may be empty. If they do not fit into one segment, because segments are larger
        on the leader, they go into several (Kafka refuses them); then some of the batches may have
        been appended when OSError is raised. Raises KafkaError: the errors of ``follower_batches``,
        UnexpectedAppendOffset for batches below the log end offset, NOT_LEADER_OR_FOLLOWER while a
        truncation is not on disk yet.
        """
        batches = follower_batches(records)
        if not batches:
            return
        first, last = batches[0], batches[-1]
        if first.base_offset < self.log_end_offset:
            raise UnexpectedAppendOffset(first.base_offset, last.last_offset, self.log_end_offset)
        for batch in batches:
            if batch.attributes & CONTROL_FLAG:
                end_marker(batch)
        lump = memoryview(records)
        for run in segment_runs(batches, self.config.segment_bytes):
            self._append_run(lump, run)

    def _append_run(self, lump: memoryview, batches: Sequence[RecordBatch]) -> None:
        """Append the batches in ``lump`` to one segment."""
        first, last = batches[0], batches[-1]
        start, end = first.position, last.position + last.size_bytes
        max_timestamp = max([batch.max_timestamp for batch in batches])
        segment = self._segment_for(end - start, first.base_offset, last.last_offset, max_timestamp)
        for batch in batches:
            epoch = batch.partition_leader_epoch
            if epoch != self._assigned_epoch and epoch > _NO_EPOCH:
                self.epochs.assign(epoch, batch.base_offset)
                self._assigned_epoch = epoch
        assert first.base_offset >= self.log_end_offset, "a batch below the log end"
        segment.append_batches(lump[start:end], batches)
        self.log_end_offset = last.next_offset
        for batch in batches:
            if batch.producer_id >= 0:
                states = self.producers.states
                aborted = states.update(batch, batch.base_offset, batch.max_timestamp)
                if aborted is not None:
                    self._note_aborted(segment, aborted)

    def _note_aborted(self, segment: LogSegment, aborted: AbortedTxn) -> None:
        segment.add_aborted(aborted)
        self.unflushed_names = True  # perhaps that of its transaction index

    def _segment_for(
        self, size: int, first_offset: int, last_offset: int, max_timestamp: int
    ) -> LogSegment:
        """Return the active segment, after rolling a new one if this append requires it."""
        if self._unflushed_cut:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"the truncation of {self.topic_partition} is not on disk yet",
            )
        config = self.config
        segment = self.segments.active
        if segment is not None:
            room = config.segment_bytes - segment.size_bytes
            if size <= room and last_offset <= segment.max_offset and not segment.indexes_full:
                first_timestamp = segment.first_timestamp
                if first_timestamp < 0 or max_timestamp - first_timestamp <= (
                    config.segment_ms - segment.roll_jitter_ms
                ):
                    return segment
        if segment is None:
            return self._roll(first_offset)
        if segment.size_bytes == 0 and last_offset <= segment.max_offset:
            return segment  # nothing would be gained
        # Where a leader's log has a gap, the segment starts with the gap: one between segments
        # would look to recovery as if a power loss had made it.
        end = self.log_end_offset
        return self._roll(end if fits(end, last_offset) else first_offset)

    def roll(self) -> None:
        """Roll a new active segment, so that the old one can be deleted. Raises OSError."""
        self._roll(self.log_end_offset)

    def skip_to(self, offset: int) -> None:
        """Continue the log at ``offset``, because the leader has no records below it. Raises
        OSError."""
        assert offset >= self.log_end_offset
        self._roll(offset)
        self.log_end_offset = offset

    def _roll(self, base_offset: int) -> LogSegment:
        """Add a segment that starts at ``base_offset``. If it raises OSError, none was added."""
        if self.closed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"log {self.directory} is closed")
        if self.recovery_point_lowered:
            self._home.write_lowered_offsets(self)
        self.epochs.start_writing()
        old = self.segments.active
        if old is not None and old.size_bytes > 0:
            old.persist()
            self.producers.take_snapshot(base_offset)
        segment = LogSegment(
            self._files, self.directory, base_offset, self.config, self.open_segments
        )
        try:
            segment.create()
        except OSError:
            with contextlib.suppress(OSError):
                segment.remove()
            raise
        if old is not None and old.size_bytes > 0:
            old.deactivate()
        elif old is not None:
            self.segments.pop()
            old.remove()  # it starts too low for what comes, and holds nothing
        self.segments.add(segment)
        self.unflushed_names = True
        return segment

    def assign_epoch_start_offset(self, epoch: int, offset: int) -> None:
        """Set the start offset of ``epoch``, which for a new leader is its log end offset."""
        self.epochs.begin(epoch, offset)

    # ---- reading

    def read(
        self,
        start_offset: int,
        max_bytes: int,
        upper_bound_offset: int,
        min_one_message: bool,
        include_aborted: bool = False,
        may_wait: bool = True,
    ) -> LogRead:
        """Return complete batches from the one that contains ``start_offset`` on.

        They end before ``upper_bound_offset`` and have at most ``max_bytes``, unless the first
        batch alone is larger and ``min_one_message`` is set. Raises
        KafkaError(OFFSET_OUT_OF_RANGE), and the errors of LogReader. If ``may_wait`` is False,
        raises NotInPageCache where the read would wait for the disk.
        """
        extent = self._extent(start_offset, max_bytes, upper_bound_offset)
        if extent is None:
            return LogRead(b"", start_offset, start_offset)
        found = self._reader.read(extent, start_offset, min_one_message, may_wait)
        return self._reader.with_aborted(found, extent) if include_aborted else found

    async def read_cold(
        self,
        start_offset: int,
        max_bytes: int,
        upper_bound_offset: int,
        min_one_message: bool,
        include_aborted: bool = False,
    ) -> LogRead:
        """Return the same as ``read``, reading in a thread if the records are not in the page
        cache.

        Records that are truncated meanwhile are not returned.
        """
        while True:
            extent = self._extent(start_offset, max_bytes, upper_bound_offset)
            if extent is None:
                return LogRead(b"", start_offset, start_offset)
            truncations = self._truncations
            try:
                data = await self._reader.read_cold(extent)
            except OSError:
                if truncations == self._truncations:
                    raise
                continue  # it was the file of a segment that is gone by now
            if truncations != self._truncations:
                continue
            if min_one_message and lacks_first_batch(extent, data):
                max_bytes = self._reader.size_of_first_batch(extent)
            else:
                found = self._reader.trim(extent, data, start_offset)
                if include_aborted:
                    found = self._reader.with_aborted(found, extent)
                return found

    def aborted_transactions(self, start_offset: int, bound: int) -> list[AbortedTxn]:
        """Return the aborted transactions with offsets in ``[start_offset, bound)``. Raises
        OSError."""
        return self._reader.aborted_transactions(start_offset, bound)

    def available_bytes(self, start_offset: int, upper_bound_offset: int) -> int:
        """Return how many bytes ``read`` could return in all, without reading them."""
        bound = self._bound(start_offset, upper_bound_offset)
        if bound is None:
            return 0
        return self._reader.available_bytes(start_offset, bound, self.log_end_offset)

    def _extent(self, start_offset: int, max_bytes: int, upper_bound_offset: int) -> Extent | None:
        bound = self._bound(start_offset, upper_bound_offset)
        end = self.log_end_offset
        if bound is None:
            if start_offset == end:
                self._reader.remember_end(end)
            return None
        return self._reader.extent(start_offset, bound, end, max_bytes)

    def _bound(self, start_offset: int, upper_bound_offset: int) -> int | None:
        """Return the offset where a read ends; None if the read is empty."""
        end = self.log_end_offset
        if not self.log_start_offset <= start_offset <= end:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {start_offset} of {self.topic_partition} is outside "
                f"[{self.log_start_offset}, {end}]",
            )
        bound = min(upper_bound_offset, end)
        return bound if start_offset < bound else None

    def offset_by_timestamp(self, timestamp: int, upper_bound_offset: int) -> OffsetSearch:
        """Search the first record below ``upper_bound_offset`` with this timestamp (ms) or a later
        one, None if there is none. Raises LogChanged, and the errors of LogReader."""
        found = yield from self._reader.find_timestamp(timestamp, self.log_start_offset)
        return found if found is not None and found.offset < upper_bound_offset else None

    def offset_of_max_timestamp(self, upper_bound_offset: int) -> OffsetSearch:
        """Search the first record with the largest timestamp, None if there is none or if it is not
        below ``upper_bound_offset``. Raises LogChanged, and the errors of LogReader."""
        found = yield from self._reader.find_max_timestamp(self.log_start_offset)
        return found if found is not None and found.offset < upper_bound_offset else None

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry:
        """Return the largest known epoch up to ``epoch`` and its end offset, (-1, -1) if unknown.

        See ``LeaderEpochCache.end_offset_for``."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # ---- truncation

    def truncate_to(self, offset: int) -> bool:
        """Truncate the log to ``offset``. Returns True if there were records to remove.

        A batch that contains ``offset`` is removed completely. Until the next ``flush`` has
        returned, a power loss may bring back removed records, so appends are refused
        (``cut_unflushed``): without new records in their place, the leader has them removed again.
        Raises KafkaError(CORRUPT_MESSAGE) and OSError; then the log may end before or after
        ``offset``, but consists of complete batches. Where no batch is in the place of ``offset``,
        nothing has changed.
        """
        if offset >= self.log_end_offset:
            # An epoch that was assigned but never written to may contradict the next leader.
            self.epochs.truncate_from_end(self.log_end_offset)
            self._assigned_epoch = _NO_EPOCH
            return False
        last = self.segments.floor(offset)  # that is kept
        if last is None:
            self.truncate_fully_and_start_at(offset)
            return True
        cut = last.find_cut(offset)
        self._truncated_to(offset)
        while (active := self.segments.active) is not None and active is not last:
            self._drop_active(active)
        last.truncate_to(offset, cut)
        self.log_end_offset = offset
        self._start_at(min(self.log_start_offset, offset))
        self.epochs.truncate_from_end(offset)
        self.reload_producers()
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records, as ``truncate_to`` does, and continue the log at ``offset``. Raises
        OSError."""
        self._truncated_to(offset)
        while (active := self.segments.active) is not None:
            self._drop_active(active)
        self.log_end_offset = offset
        self._start_at(offset)
        self.epochs.clear()
        self.producers.clear(offset)
        if offset > 0:
            self._roll(offset)  # the file's name alone keeps the offset over a restart

    def _drop_active(self, active: LogSegment) -> None:
        self.segments.pop()
        self.log_end_offset = min(self.log_end_offset, active.base_offset)
        active.remove()

    def _truncated_to(self, offset: int) -> None:
        if self.size_bytes > 0:
            if not self._unflushed_cut:
                self._files.open(f"{self.directory}/{CUT_UNFLUSHED}", create=True).close()
            self.hold_appends()
        self.cut_to = min(self.cut_to, offset)
        self._cut_at(offset)
        self._assigned_epoch = _NO_EPOCH
        self.unflushed_names = True
        if offset < self.recovery_point:
            self.recovery_point = offset
            self.recovery_point_lowered = self._lowering_unflushed = True

    def _forget_places(self) -> None:
        """Forget remembered file positions, after segments were truncated or removed."""
        self._truncations += 1
        self._reader.forget()

    def _cut_at(self, offset: int) -> None:
        self._forget_places()
        self.cuts += 1
        if self.cleaned_offset is not None:
            self.cleaned_offset = min(self.cleaned_offset, offset)

    # ---- the start

    def increment_log_start_offset(self, offset: int) -> bool:
        """Raise the log start offset to ``offset``, so that records below it cannot be read.

        Returns True if the offset was raised; this method never lowers it. Raises OSError."""
        assert offset <= self.log_end_offset
        if offset <= self.log_start_offset:
            return False
        self._start_at(offset)
        self.epochs.truncate_from_start(offset)
        return True

    def _start_at(self, offset: int) -> None:
        assert 0 <= offset <= self.log_end_offset, "the log would start behind its end"
        if offset != self.log_start_offset:
            if offset < self.log_start_offset:
                self.recovery_point_lowered = self._lowering_unflushed = True
            self.log_start_offset = offset
            self._home.log_start_moved(self)

    def retry_removal(self) -> None:
        """Request again that the segments below the log start offset are removed, in case an error
        has prevented it before."""
        self._home.log_start_moved(self)

    def remove_dead_segment(self) -> bool:
        """Delete the first segment if all its offsets are below the log start offset.

        The log start offset must be on disk. Returns True if the segment was deleted. Raises
        OSError; files that remain then are removed at the next start of the broker."""
        if not self.segments.first_ends_below(self.log_start_offset):
            return False
        dead = self.segments.first
        assert dead is not None
        dead.put_aside()
        self.segments.pop_first()
        self._forget_places()
        self.unflushed_names = True
        self.remove_later(dead)
        self.producers.remove_snapshot(dead.base_offset)
        return True

    def remove_later(self, segment: LogSegment) -> None:
        """Remove the files of a deleted segment after ``file.delete.delay.ms``, because readers may
        still use them. Raises OSError."""
        self._home.remove_later(segment, self.config.file_delete_delay_ms)

    def replace_segments(self, cleaned: LogSegment, replaced: Sequence[LogSegment]) -> None:
        """Replace adjacent segments by a cleaned one. Raises OSError, see ``swap_in``."""
        try:
            swap_in(self.segments, cleaned, replaced)
        finally:
            self._forget_places()

    # ---- flushing and closing

    @property
    def flush_due(self) -> bool:
        """Whether ``flush.messages`` requires a flush before the last append is acknowledged."""
        return self.log_end_offset - self.recovery_point >= self.config.flush_messages

    @property
    def cut_unflushed(self) -> bool:
        """Whether a power loss could bring back truncated records. Appends are refused then."""
        return self._unflushed_cut > 0

    def hold_appends(self) -> None:
        """Refuse appends until a flush has made the truncation durable."""
        self.cuts += 1
        self._unflushed_cut = self.cuts

    async def flush(self, before_offset: int | None = None) -> None:
        """Flush all records appended before the call, and raise the recovery point accordingly.

        With ``before_offset``, flush only segments that start before it. Raises OSError.
        """
        end = self.log_end_offset if before_offset is None else before_offset
        truncations, cut = self._truncations, self._unflushed_cut
        for segment in self.segments.since(self.recovery_point):
            if before_offset is None or segment.base_offset < before_offset:
                await segment.flush()
        await self.epochs.flush()
        if self.unflushed_names and not self.closed:
            self.unflushed_names = False
            await self._flush_names()
        if truncations == self._truncations and not self.closed:
            self.recovery_point = max(self.recovery_point, end)
            assert self.recovery_point <= self.log_end_offset, "flushed past the log end"
        if self._lowering_unflushed and await self._home.flush_lowered_offsets(self):
            self._lowering_unflushed = truncations != self._truncations
        if cut and before_offset is None and cut == self._unflushed_cut and not self.closed:
            self._files.remove(f"{self.directory}/{CUT_UNFLUSHED}")
            self._unflushed_cut = 0

    async def _flush_names(self) -> None:
        try:
            await self._files.flush_directory(self.directory)
            await self._files.flush_directory(self.directory.rpartition("/")[0])
        except OSError:
            self.unflushed_names = True
            raise

    def moved_to(self, directory: str) -> None:
        """Note that the log's directory has been renamed. Open files stay open."""
        self.directory = directory
        self.epochs.moved_to(directory)
        self.producers.moved_to(directory)
        for segment in self.segments:
            segment.moved_to(directory)

    def persist(self) -> None:
        """Write what is only in memory into the files, for a clean shutdown. Raises OSError."""
        active = self.segments.active
        if active is not None:
            active.persist()
            self.producers.take_snapshot(self.log_end_offset)
            self.unflushed_names = True

    def close(self) -> None:
        """Close the files; writes nothing. The log cannot be used any more."""
        self.closed = True
        self._forget_places()
        while self.segments.active is not None:
            self.segments.pop().close()

    # ---- producers

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the last stable offset: the first offset of the first open transaction, at most
        the high watermark."""
        unstable = self.transactions.first_unstable_offset
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        stable = max(unstable, self.log_start_offset)
        assert stable <= high_watermark, "the log starts above its high watermark"
        return stable

    def reload_producers(self) -> None:
        """Rebuild the state of all producers from a snapshot and the batches after it."""
        self.producers.reload(self.log_start_offset, self.log_end_offset, self.batches_from)

    def batches_from(self, offset: int) -> Iterator[RecordBatch]:
        """Yield the batches that end at or after ``offset``: the headers only, but control batches
        completely. Raises OSError, CorruptRecordError."""
        for segment in self.segments.since(offset):
            position = segment.offset_index.lookup(offset).position
            for found in segment.batches(position):
                if found.batch.last_offset >= offset:
                    yield found.batch


def _writable(buffer: Buffer, size: int) -> bytearray | memoryview:
    """Return the first ``size`` bytes of ``buffer``, as a copy if the buffer is read-only."""
    if type(buffer) is memoryview and not buffer.readonly:
        return buffer if len(buffer) == size else buffer[:size]
    if isinstance(buffer, bytearray) and len(buffer) == size:
        return buffer
    return bytearray(memoryview(buffer)[:size])
