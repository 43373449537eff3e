"""The log of one partition: appends and truncation, and what they mean for its files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from minikafka.core.log.aborted_txn import AbortedTxn
from minikafka.core.log.append import AppendOrigin, LogAppendInfo, UnexpectedAppendOffset
from minikafka.core.log.config import LOG_APPEND_TIME, LogConfig
from minikafka.core.log.index_math import fits
from minikafka.core.log.producer_state import end_marker
from minikafka.core.log.segment_runs import segment_runs
from minikafka.core.log.validation import follower_batches, leader_batch
from minikafka.core.log.verification import NOT_REQUIRED, Verification
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Buffer, Files
from minikafka.protocol.records.batch import (
    CONTROL_FLAG,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    RecordBatch,
    stamp,
    stamp_log_append_time,
)
from minikafka.storage.flushable_log import CUT_UNFLUSHED, FlushableLog
from minikafka.storage.log_reader import FoundOffset, LogRead
from minikafka.storage.segment import LogSegment

__all__ = ["AppendOrigin", "FoundOffset", "LogAppendInfo", "LogConfig", "LogRead", "UnifiedLog"]

_NO_EPOCH: Final = -1
NO_CUT: Final = 2**63 - 1


class UnifiedLog(FlushableLog):
    """One partition's records from ``log_start_offset`` up to ``log_end_offset`` (exclusive).

    Everything before ``recovery_point`` is on disk. The directory is there from the beginning, the
    files of a segment appear with the first append. A call that raises OSError has changed nothing
    that can be seen, and the log can be used on. Kafka: ``UnifiedLog`` and ``LocalLog``.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        topic_id: UUID | None = None,
    ) -> None:
        super().__init__(files, directory, topic_partition, config, topic_id)
        self.cut_to = NO_CUT  # the lowest truncation since a copy of this log was cut as well
        self._assigned_epoch = _NO_EPOCH  # the epoch of the last append, if it is the latest one

    # ---- appending

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: Verification | None = NOT_REQUIRED,
    ) -> LogAppendInfo:
        """Append the one batch of a producer. A writable buffer is stamped in place. ``guard``: by
        what a batch of a transaction was verified; None when it was not.

        Raises OSError (a full disk, ...), and KafkaError: what ``leader_batch`` raises,
        NOT_LEADER_OR_FOLLOWER while a truncation is not on disk yet, RECORD_LIST_TOO_LARGE for a
        batch larger than a segment, and INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or
        INVALID_TXN_STATE for a producer that may not. A retried
        batch is not appended again: the answer tells where it is, as ``duplicate``.
        """
        batch = leader_batch(records, self.config, origin, now_ms)
        first_offset = self.log_end_offset
        if batch.producer_id >= 0:
            known = self.producers.states.check(batch, origin, guard)
            if known is not None:
                return LogAppendInfo(
                    known.first_offset,
                    known.last_offset,
                    known.timestamp,
                    known.last_offset,
                    known.timestamp,
                    self.log_start_offset,
                    leader_epoch,
                    0,
                    duplicate=True,
                )
        size = batch.length + LOG_OVERHEAD
        if size > self.config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a batch of {size} bytes exceeds a segment of {self.config.segment_bytes} bytes",
            )
        data = _writable(batch.buffer, size)
        stamp(data, 0, first_offset, leader_epoch)
        max_timestamp = batch.max_timestamp
        append_time = NO_TIMESTAMP
        if self.config.message_timestamp_type == LOG_APPEND_TIME:
            max_timestamp = append_time = now_ms
            stamp_log_append_time(data, batch, now_ms)
        last_offset = first_offset + batch.last_offset_delta
        segment = self._segment_for(size, first_offset, last_offset, max_timestamp)
        if leader_epoch != self._assigned_epoch:
            self.epochs.assign(leader_epoch, first_offset)
            self._assigned_epoch = leader_epoch
        segment.append(data, last_offset, max_timestamp)
        self.log_end_offset = last_offset + 1
        if batch.producer_id >= 0:
            aborted = self.producers.states.update(batch, first_offset, max_timestamp)
            if aborted is not None:
                self._note_aborted(segment, aborted)
        return LogAppendInfo(
            first_offset,
            last_offset,
            max_timestamp,
            last_offset,
            append_time,
            self.log_start_offset,
            leader_epoch,
            size,
        )

    def append_as_follower(self, records: Buffer) -> LogAppendInfo:
        """Append a leader's batches, offsets and epochs as they are; perhaps none at all.

        Those that do not fit into one segment go into several, as segments may have been larger on
        the leader (Kafka refuses them). Then some may have been appended when OSError is raised.
        Raises KafkaError as well: what ``follower_batches`` raises, UnexpectedAppendOffset for
        batches from before the log end, NOT_LEADER_OR_FOLLOWER.
        """
        batches = follower_batches(records)
        if not batches:
            end, start = self.log_end_offset, self.log_start_offset
            no_time = NO_TIMESTAMP
            return LogAppendInfo(end, end - 1, no_time, end - 1, no_time, start, _NO_EPOCH, 0)
        first, last = batches[0], batches[-1]
        if first.base_offset < self.log_end_offset:
            raise UnexpectedAppendOffset(first.base_offset, last.last_offset, self.log_end_offset)
        for batch in batches:
            if batch.attributes & CONTROL_FLAG:
                end_marker(batch)
        lump = memoryview(records)
        runs = segment_runs(batches, self.config.segment_bytes)
        latest = max(
            (self._append_run(lump, run) for run in runs), key=lambda batch: batch.max_timestamp
        )
        return LogAppendInfo(
            first.base_offset,
            last.last_offset,
            latest.max_timestamp,
            latest.last_offset,
            NO_TIMESTAMP,
            self.log_start_offset,
            last.partition_leader_epoch,
            last.position + last.size_bytes,
        )

    def _append_run(self, lump: memoryview, batches: Sequence[RecordBatch]) -> RecordBatch:
        """Append batches that lie in ``lump`` to one segment; the one with the latest timestamp."""
        first, last = batches[0], batches[-1]
        start, end = first.position, last.position + last.size_bytes
        latest = max(batches, key=lambda batch: batch.max_timestamp)
        segment = self._segment_for(
            end - start, first.base_offset, last.last_offset, latest.max_timestamp
        )
        for batch in batches:
            epoch = batch.partition_leader_epoch
            if epoch != self._assigned_epoch and epoch > _NO_EPOCH:
                self.epochs.assign(epoch, batch.base_offset)
                self._assigned_epoch = epoch
        segment.append_batches(lump[start:end], batches)
        self.log_end_offset = last.next_offset
        for batch in batches:
            if batch.producer_id >= 0:
                states = self.producers.states
                aborted = states.update(batch, batch.base_offset, batch.max_timestamp)
                if aborted is not None:
                    self._note_aborted(segment, aborted)
        return latest

    def _note_aborted(self, segment: LogSegment, aborted: AbortedTxn) -> None:
        segment.add_aborted(aborted)
        self.unflushed_names = True  # perhaps that of its transaction index

    def _segment_for(
        self, size: int, first_offset: int, last_offset: int, max_timestamp: int
    ) -> LogSegment:
        """The active segment, after rolling to a new one if this append needs it."""
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
        """Go on in a new segment, so that the active one may be deleted. Raises OSError."""
        self._roll(self.log_end_offset)

    def skip_to(self, offset: int) -> None:
        """There is nothing from the log end up to ``offset``. Raises OSError."""
        self._roll(offset)
        self.log_end_offset = offset

    def _roll(self, base_offset: int) -> LogSegment:
        """Add a segment that starts at ``base_offset``. When OSError is raised, none was added."""
        if self.closed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"log {self.directory} is closed")
        if self.recovery_point_lowered and self.write_recovery_point is not None:
            self.write_recovery_point()
        self.epochs.start_writing()
        old = self.segments.active
        if old is not None and old.size_bytes > 0:
            old.persist()
            self.producers.take_snapshot(base_offset)
        segment = LogSegment(self._files, self.directory, base_offset, self.config)
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
        """Let ``epoch`` start at ``offset`` (a new leader: at its log end)."""
        self.epochs.begin(epoch, offset)

    # ---- truncation

    def truncate_to(self, offset: int) -> bool:
        """Drop everything from ``offset`` on; True if there was anything.

        A batch that holds ``offset`` goes as a whole. Until a ``flush`` has returned, a power loss
        may bring back some of what was dropped, for the leader to have it dropped again; so nothing
        is appended in its place: appends are refused (``cut_unflushed``). Raises OSError, and then
        the log may be longer or shorter than asked but is whole; KafkaError(CORRUPT_MESSAGE).
        """
        if offset >= self.log_end_offset:
            # An epoch that was assigned but never written to may contradict the next leader.
            self.epochs.truncate_from_end(self.log_end_offset)
            self._assigned_epoch = _NO_EPOCH
            return False
        first = self.segments.first
        if first is None or first.base_offset > offset:
            self.truncate_fully_and_start_at(offset)
            return True
        self._truncated_to(offset)
        while (active := self.segments.active) is not None and active.base_offset > offset:
            self._drop_active(active)
        assert active is not None
        active.truncate_to(offset)
        self.log_end_offset = offset
        self._start_at(min(self.log_start_offset, offset))
        self.epochs.truncate_from_end(offset)
        self.reload_producers()
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything, as ``truncate_to``; the next record appended gets ``offset``. Raises
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

    # ---- the start

    def increment_log_start_offset(self, offset: int) -> bool:
        """Records below ``offset`` are gone, as far as readers can tell. True if that moved the
        start, which never moves back here. Raises OSError."""
        assert offset <= self.log_end_offset
        if offset <= self.log_start_offset:
            return False
        self._start_at(offset)
        self.epochs.truncate_from_start(offset)
        return True

    def _start_at(self, offset: int) -> None:
        if offset != self.log_start_offset:
            if offset < self.log_start_offset:
                self.recovery_point_lowered = self._lowering_unflushed = True
            self.log_start_offset = offset
            if self.start_moved is not None:
                self.start_moved()

    # ---- producers

    def last_stable_offset(self, high_watermark: int) -> int:
        """The high watermark, or below it the first offset that a transaction holds back."""
        unstable = self.transactions.first_unstable_offset
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        return max(unstable, self.log_start_offset)

    def reload_producers(self) -> None:
        """Learn the state of all producers anew, from a snapshot and the batches after it."""
        self.producers.reload(self.log_start_offset, self.log_end_offset, self.batches_from)

    def batches_from(self, offset: int) -> Iterator[RecordBatch]:
        """Headers (of control batches: all) of those that end at or after ``offset``. Raises
        OSError, CorruptRecordError."""
        for segment in self.segments.since(offset):
            position = segment.offset_index.lookup(offset).position
            for found in segment.batches(position):
                if found.batch.last_offset >= offset:
                    yield found.batch


def _writable(buffer: Buffer, size: int) -> bytearray | memoryview:
    """The first ``size`` bytes, copied only if they cannot be written to."""
    if type(buffer) is memoryview and not buffer.readonly:
        return buffer if len(buffer) == size else buffer[:size]
    if isinstance(buffer, bytearray) and len(buffer) == size:
        return buffer
    return bytearray(memoryview(buffer)[:size])
