"""One segment of a log (the ``.log`` file and its indexes), and the ordered segments of a log."""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import is_
from typing import NamedTuple

from minikafka.core.log.config import LogConfig, roll_jitter_ms
from minikafka.core.log.names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from minikafka.core.log.open_transactions import AbortedTxn
from minikafka.core.log.recovery import batch_survives, offsets_are_possible
from minikafka.core.log.segment_limits import MAX_RELATIVE_OFFSET
from minikafka.kernel.disk_errors import before_flush
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.ports import Buffer, File, Files
from minikafka.protocol.records.batch import (
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    CorruptRecordError,
    RecordBatch,
)
from minikafka.server.storage.log.batch_scan import FoundBatch, read_whole, scan, whole_batches
from minikafka.server.storage.log.indexes import OffsetIndex, TimeIndex, TxnIndex
from minikafka.server.storage.log.open_segments import OpenSegments


class SegmentCut(NamedTuple):
    """Where a segment is truncated: the position (bytes) of the first batch to go, and its base
    offset."""

    position: int
    offset: int


class LogSegment:
    """A segment: the batches from ``base_offset`` on, and their indexes.

    Methods that read or write raise OSError. Bytes in the file beyond ``size_bytes``, left by a
    failed write, are never read. ``max_timestamp`` (ms, -1 for none) is the largest timestamp so
    far, in the batch that ends at ``offset_of_max_timestamp``; ``first_timestamp`` is the largest
    of the first batch. ``max_offset`` is the highest offset that the indexes can store. If
    ``indexes_full`` is True, the next batch must go to a new segment.

    A segment that gets no appends is cold: ``open_segments`` may have its file closed, and the next
    method that uses the file opens it again.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        config: LogConfig,
        open_segments: OpenSegments,
        suffix: str = "",
    ) -> None:
        self.base_offset = base_offset
        self.max_offset = base_offset + MAX_RELATIVE_OFFSET
        self.size_bytes = 0
        self.indexes_full = False
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self.first_timestamp = NO_TIMESTAMP
        path, limit = f"{directory}/{file_name(base_offset, '')}", config.index_size_max_bytes
        self.path = path + LOG_SUFFIX + suffix
        self.offset_index = OffsetIndex(files, path + INDEX_SUFFIX + suffix, base_offset, limit)
        self.time_index = TimeIndex(files, path + TIME_INDEX_SUFFIX + suffix, base_offset, limit)
        self.txn_index = TxnIndex(files, path + TXN_INDEX_SUFFIX + suffix, base_offset)
        self.roll_jitter_ms = roll_jitter_ms(config, self.path)
        self._files = files
        self._index_interval_bytes = config.index_interval_bytes
        self._indexed_position = 0  # where the last batch with an index entry starts, or 0
        self._torn = False  # the file may be longer than size_bytes
        self._open_segments = open_segments
        self._is_open = False
        self._is_cold = False
        self._handle: File | None = None  # None although the segment is open: closed by ``let_go``

    @property
    def _file(self) -> File:
        """The open file, to be used at once: it may be closed when another segment is used."""
        handle = self._handle
        if handle is None:
            assert self._is_open, "the segment is not open"
            handle = self._handle = self._open_segments.reopen(self._files, self.path)
        if self._is_cold:
            self._open_segments.use(self)
        return handle

    @property
    def holds_file(self) -> bool:
        """Whether the ``.log`` file is open now."""
        return self._handle is not None

    # ---- life

    def create(self) -> None:
        """Create an empty ``.log`` file, and empty indexes. An existing file is overwritten."""
        self._handle = self._open_segments.open(self._files, self.path, create=True)
        self._is_open = True
        self._handle.truncate(0)
        self.offset_index.create()
        self.time_index.create()
        self.txn_index.create()
        self._open_segments.index_writes.changed(self)

    def open(self) -> None:
        """Open the existing ``.log`` file, as that of a cold segment. Call ``attach_indexes`` or
        ``recover`` next."""
        self._handle = self._open_segments.open(self._files, self.path)
        self._is_open = True
        self._is_cold = True
        self.size_bytes = self._file.size()

    def _keep_open(self) -> None:
        """The segment may get appends: it is no longer cold."""
        if self._is_cold:
            self._file  # noqa: B018 - open it, if it was closed
            self._is_cold = False
            self._open_segments.forget(self)

    def let_go(self) -> None:
        """Close the file of a cold segment until it is used again. Only ``OpenSegments`` calls
        this."""
        assert self._is_cold, "the file of an active segment stays open"
        assert self._handle is not None
        self._handle.close()
        self._handle = None

    def attach_indexes(self) -> bool:
        """Open the existing indexes. Returns False if they are missing or fail a sanity check."""
        try:
            self.offset_index.attach()
            self.time_index.attach()
        except FileNotFoundError:
            return False
        self.txn_index.attach()
        if not (self.offset_index.is_sane(self.size_bytes) and self.time_index.is_sane()):
            return False
        if not self.txn_index.is_sane():
            return False
        last = self.time_index.last_entry()
        self.max_timestamp, self.offset_of_max_timestamp = last
        return True

    def activate(self) -> int:
        """Load the attached indexes into memory for appends, and return the segment's next offset.

        Raises CorruptRecordError, see ``next_offset``.
        """
        self._keep_open()
        self.offset_index.load()
        self.time_index.load()
        self.txn_index.load()
        self._indexed_position = self.size_bytes
        self._note_full()
        first = next(self.batches(), None)
        self.first_timestamp = NO_TIMESTAMP if first is None else first.batch.max_timestamp
        return self.next_offset()

    def next_offset(self) -> int:
        """Return the offset after the last batch, by reading from the last index entry on.

        Raises CorruptRecordError if there is no batch where one should be, or if the last one has
        impossible offsets. Batches before it fail when they are read."""
        known = self.offset_index.last_entry()
        last, end_before = None, self.base_offset
        for found in self.batches(known.position):
            if last is not None and last.last_offset <= self.max_offset:
                end_before = last.next_offset
            last = found.batch
        if last is None:
            return self.base_offset
        possible = offsets_are_possible(last, self.base_offset, end_before)
        if not possible or last.last_offset < known.offset:
            raise CorruptRecordError(f"the last batch ends with the offset {last.last_offset}")
        return last.next_offset

    def deactivate(self) -> None:
        """End the appends to the segment: complete the time index, and write the indexes to
        files."""
        self._complete()
        self.offset_index.release()
        self.time_index.release()
        self.txn_index.release()
        self._is_cold = True
        if self._handle is not None:
            self._open_segments.use(self)

    def persist(self) -> None:
        """Complete the time index and write the indexes to files, for a clean shutdown."""
        self._complete()
        self.write_indexes()

    @property
    def indexes_written(self) -> bool:
        """Whether the index files have all entries."""
        return (
            self.offset_index.is_written
            and self.time_index.is_written
            and self.txn_index.is_written
        )

    def write_indexes(self) -> None:
        """Write the entries so far to the index files, for tools that read them. Raises OSError."""
        assert self._is_open, "the segment is not open: another one may have these names now"
        self.offset_index.persist()
        self.time_index.persist()
        self.txn_index.persist()

    def _complete(self) -> None:
        if self._torn:
            self._file.truncate(self.size_bytes)
            self._torn = False
        if self.max_timestamp > NO_TIMESTAMP:
            self.time_index.load()
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)

    async def flush(self) -> None:
        """Flush all batches appended before the call, and the indexes. Returns early if the segment
        is closed meanwhile.

        This includes the last entry of the time index: if the segment is rolled next, recovery does
        not rebuild its indexes.
        """
        if not self._is_open:
            return  # the log was truncated or deleted: another segment may have these names now
        with before_flush():
            self.persist()
        await self._file.flush()
        for index in (self.offset_index, self.time_index, self.txn_index):
            if self._is_open:
                await index.flush()

    def close(self) -> None:
        """Close the file for good. No effect if the segment is closed."""
        self._is_open = False
        self._open_segments.forget(self)
        self._open_segments.index_writes.forget(self)
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def change_suffix(self, old: str, new: str) -> None:
        """Rename the files: the log file first, see ``segment_swap``. They can still be read."""
        path = self.path.removesuffix(old) + new
        self._files.rename(self.path, path)
        self.path = path
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.change_suffix(old, new)

    def put_aside(self) -> None:
        """Rename the files with the suffix ``.deleted``, the ``.log`` file first, so that they are
        never loaded again. They can still be read. May be called again after OSError."""
        self._open_segments.index_writes.forget(self)
        for file in (self, self.offset_index, self.time_index, self.txn_index):
            if not file.path.endswith(DELETED_SUFFIX):
                aside = file.path + DELETED_SUFFIX
                if self._files.exists(file.path):
                    self._files.rename(file.path, aside)
                file.path = aside

    def moved_to(self, directory: str) -> None:
        for file in (self, self.offset_index, self.time_index, self.txn_index):
            file.path = f"{directory}/{file.path.rpartition('/')[2]}"

    @property
    def paths(self) -> list[str]:
        """Paths of the log file and the indexes; some may not exist."""
        indexes = (self.offset_index, self.time_index, self.txn_index)
        return [self.path, *(index.path for index in indexes)]

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp (ms); if no record has one, the modification time of the file.

        Raises OSError."""
        if self.max_timestamp > NO_TIMESTAMP:
            return self.max_timestamp
        return self.modified_ms

    @property
    def modified_ms(self) -> int:
        """Return the modification time (ms) of the ``.log`` file. Raises OSError."""
        return self._files.modified_ms(self.path)

    def remove(self) -> None:
        """Close and delete the files, the ``.log`` file last, so that no index is left alone."""
        self.close()
        self.offset_index.remove()
        self.time_index.remove()
        self.txn_index.remove()
        self._files.remove(self.path)

    # ---- appending

    def append(self, data: Buffer, last_offset: int, max_timestamp: int) -> None:
        """Append one batch. If it raises OSError, nothing was appended."""
        assert self.base_offset <= last_offset <= self.max_offset, "an offset of another segment"
        position = self.size_bytes
        self._write((data,), position)
        self.size_bytes = position + len(data)
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if position - self._indexed_position > self._index_interval_bytes:
            self._add_index_entries(last_offset, position)
        elif position == 0:
            self.first_timestamp = max_timestamp

    def append_batches(self, data: Buffer, batches: Sequence[RecordBatch]) -> None:
        """Append several batches, which are adjacent in ``data``, with one write."""
        assert self.base_offset <= batches[0].base_offset, "an offset of another segment"
        assert batches[-1].last_offset <= self.max_offset, "an offset of another segment"
        position = self.size_bytes
        self._write([data], position)
        ends = [
            (batch.base_offset + batch.last_offset_delta, batch.max_timestamp, batch.length)
            for batch in batches
        ]
        self.size_bytes = self._take_in(ends, position)

    def _write(self, parts: Sequence[Buffer], position: int) -> None:
        try:
            if len(parts) == 1:
                self._file.write(parts[0], position)
            else:
                self._file.write_parts(parts, position)
        except OSError:
            # The next append writes over the torn tail, and reads stop before it; so when it
            # cannot be cut off now either, that can wait until the segment is completed.
            self._torn = True
            with contextlib.suppress(OSError):
                self._file.truncate(position)
                self._torn = False
            raise

    def _take_in(self, ends: Iterable[tuple[int, int, int]], position: int) -> int:
        """Update timestamps and indexes with batches that start at ``position``, by the last
        offset, the largest timestamp and the length of each. Return where they stop."""
        for last_offset, max_timestamp, length in ends:
            if max_timestamp > self.max_timestamp:
                self.max_timestamp = max_timestamp
                self.offset_of_max_timestamp = last_offset
            if position == 0:
                self.first_timestamp = max_timestamp
            if position - self._indexed_position > self._index_interval_bytes:
                self._add_index_entries(last_offset, position)
            position += length + LOG_OVERHEAD
        return position

    def _add_index_entries(self, last_offset: int, position: int) -> None:
        # The batch is in the log already. Should an index fail to write its entries out, they stay
        # in memory and the roll, flush or close that has to write them reports the error.
        if self.indexes_full:
            return
        self._indexed_position = position
        base_offset, offsets, times = self.base_offset, self.offset_index, self.time_index
        try:  # noqa: SIM105, suppress() costs more than the entry
            offsets.add(last_offset - base_offset, position)
        except OSError:
            pass
        try:
            if times.last is None or self.max_timestamp > times.last[0]:
                times.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        except OSError:
            pass
        if offsets.count >= offsets.full_count or times.count >= times.full_count:
            self.indexes_full = True
        self._open_segments.index_writes.changed(self)

    def add_aborted(self, txn: AbortedTxn) -> None:
        """Add an aborted transaction, whose marker was appended here, to the transaction index."""
        with contextlib.suppress(OSError):  # as in _add_index_entries
            self.txn_index.append(txn)
        self._open_segments.index_writes.changed(self)

    def _note_full(self) -> None:
        self.indexes_full = self.offset_index.is_full or self.time_index.is_full

    # ---- reading

    def read(self, length: int, position: int) -> bytes:
        return self._file.read(length, position)

    def view(self, length: int, position: int) -> Buffer:
        """Read into memory that is used again when nothing refers to the result any more."""
        return self._file.view(length, position)

    def view_cached(self, length: int, position: int) -> Buffer | None:
        """Return the same as ``view``, or None if a part is known not to be in the page cache."""
        return self._file.view_cached(length, position)

    async def read_cold(self, length: int, position: int) -> bytes:
        return await self._file.read_cold(length, position)

    def batches(self, start: int = 0, end: int | None = None) -> Iterator[FoundBatch]:
        """Headers from position ``start`` on. Raises CorruptRecordError."""
        return scan(self, start, self.size_bytes if end is None else end)

    def find(self, offset: int) -> FoundBatch | None:
        """Return the first batch that ends at or after ``offset``, None if all end before it.

        Raises CorruptRecordError.
        """
        for found in self.batches(self.offset_index.lookup(offset).position):
            if found.batch.last_offset >= offset:
                return found
        return None

    # ---- truncation and recovery

    def find_cut(self, offset: int) -> SegmentCut:
        """Return where ``truncate_to`` cuts: before the batch that contains ``offset``. Raises
        CorruptRecordError."""
        if offset <= self.base_offset:
            return SegmentCut(0, offset)
        found = self.find(offset)
        if found is None:
            return SegmentCut(self.size_bytes, offset)
        return SegmentCut(found.position, found.batch.base_offset)

    def truncate_to(self, offset: int, cut: SegmentCut) -> None:
        """Remove the batch that contains ``offset``, and all later ones. ``find_cut`` has found
        the place."""
        self._keep_open()
        self.offset_index.load()
        self.time_index.load()
        self.txn_index.load()
        self._open_segments.index_writes.changed(self)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(cut.offset)
        self._file.truncate(cut.position)
        self.size_bytes = cut.position
        self._torn = False
        self._indexed_position = self.size_bytes
        self._note_full()
        if self.size_bytes == 0:
            self.first_timestamp = NO_TIMESTAMP
        self._reread_max_timestamp()

    def _reread_max_timestamp(self) -> None:
        last = self.time_index.last_entry()
        self.max_timestamp, self.offset_of_max_timestamp = last
        base_offset = self.base_offset
        with contextlib.suppress(CorruptRecordError):  # what follows cannot be read anyway
            for _, batch in self.batches(self.offset_index.lookup(last.offset).position):
                # A damaged offset may be one that the time index cannot store.
                if batch.max_timestamp > self.max_timestamp and offsets_are_possible(
                    batch, base_offset, base_offset
                ):
                    self.max_timestamp = batch.max_timestamp
                    self.offset_of_max_timestamp = batch.last_offset

    async def recover(self, take: Callable[[RecordBatch], None]) -> None:
        """Read all batches, rebuild the indexes, and truncate the file after the last valid batch.

        Yields to other tasks between chunks. ``take`` is called with each valid batch, and may
        refuse it by raising KafkaError. It must not store the batch, whose buffer holds many
        others. Kafka: ``LogSegment.recover``.
        """
        self.offset_index.create()
        self.time_index.create()
        self.txn_index.create()
        self._indexed_position = 0
        self.indexes_full = False
        self.max_timestamp = self.first_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = end_offset = self.base_offset
        position, size = 0, self.size_bytes
        sound = True
        while sound and position < size:
            chunk = await read_whole(self, position, size)
            start = position
            for batch in whole_batches(chunk):
                sound = batch_survives(batch, self.base_offset, end_offset)
                if not sound:
                    break
                try:
                    take(batch)
                except KafkaError:
                    sound = False
                    break
                end = batch.last_offset, batch.max_timestamp, batch.length
                position = self._take_in((end,), start + batch.position)
                end_offset = batch.base_offset + batch.last_offset_delta + 1
            sound = sound and position > start
            await asyncio.sleep(0)
        if position < size:
            self._file.truncate(position)
            self.size_bytes = position
        self.persist()


class LogSegments:
    """Ordered by base offset; the last one is active. Kafka: ``LogSegments``."""

    def __init__(self) -> None:
        self._segments: list[LogSegment] = []
        self._base_offsets: list[int] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        """Iterate over a copy, so that segments may be removed meanwhile."""
        return iter(self._segments[:])

    @property
    def base_offsets(self) -> list[int]:
        return self._base_offsets[:]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def first(self) -> LogSegment | None:
        return self._segments[0] if self._segments else None

    @property
    def active(self) -> LogSegment | None:
        return self._segments[-1] if self._segments else None

    def add(self, segment: LogSegment) -> None:
        """Add ``segment``, whose base offset must be above all others, as the active one."""
        assert not self._base_offsets or segment.base_offset > self._base_offsets[-1]
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)

    def pop(self) -> LogSegment:
        """Remove the active segment; the one before it becomes active."""
        self._base_offsets.pop()
        return self._segments.pop()

    def holds(self, segments: Sequence[LogSegment]) -> bool:
        """Return whether all of these adjacent segments are still segments of the log."""
        start = bisect_left(self._base_offsets, segments[0].base_offset)
        here = self._segments[start : start + len(segments)]
        return len(here) == len(segments) and all(map(is_, here, segments))

    def replace(self, old: Sequence[LogSegment], new: LogSegment) -> None:
        """Replace adjacent segments by ``new``, which starts at the first one's base offset."""
        assert self.holds(old)
        assert new.base_offset == old[0].base_offset
        start = bisect_left(self._base_offsets, new.base_offset)
        self._segments[start : start + len(old)] = [new]
        self._base_offsets[start : start + len(old)] = [new.base_offset]

    def first_ends_below(self, offset: int) -> bool:
        """Return whether all offsets of the first segment are below ``offset``. False if the first
        segment is the active one."""
        return len(self._base_offsets) > 1 and self._base_offsets[1] <= offset

    def pop_first(self) -> LogSegment:
        """Remove the first segment, which must not be the active one."""
        assert len(self._base_offsets) > 1
        del self._base_offsets[0]
        return self._segments.pop(0)

    def floor(self, offset: int) -> LogSegment | None:
        """Return the last segment that starts at or below ``offset``, None if there is none."""
        index = bisect_right(self._base_offsets, offset) - 1
        return self._segments[index] if index >= 0 else None

    def after(self, base_offset: int) -> LogSegment | None:
        """The segment after the one that starts at ``base_offset``."""
        index = bisect_right(self._base_offsets, base_offset)
        return self._segments[index] if index < len(self._segments) else None

    def since(self, offset: int) -> list[LogSegment]:
        """Return the segments that may contain ``offset`` or later offsets."""
        return self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0) :]
