"""Rebuilds a sealed segment with batches of another replica where its own are damaged.

Sound batches are copied. For a hole, which reaches from the batch before the damaged one to the
next sound one, the batches with these offsets are fetched. The new segment replaces the old one as
a cleaned segment does, so nothing is lost if the other replica's batches are damaged, too, or do
not fit.

The next sound batch is looked for at the positions in the offset index only: a search in the bytes
could find a batch that a producer has hidden in the value of a record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from minikafka.core.log.scrubbing import check_batches, replacement_for
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.ports import Buffer, Files
from minikafka.protocol.records.batch import crc_is_valid, next_batch, parse_batches
from minikafka.server.storage.log.segment import LogSegment
from minikafka.server.storage.log.segment_rewrite import rewrite_segments
from minikafka.server.storage.log.unified_log import UnifiedLog
from minikafka.server.storage.paced_reads import PacedReads, is_sealed

# Returns the batches of another replica from an offset on. Raises NoReplacement.
FetchBatches: TypeAlias = Callable[[int], Awaitable[Buffer]]


class SegmentChanged(Exception):
    """The log was closed, truncated, or no longer has the segment."""


class NoReplacement(Exception):
    """The other replica has no sound batches that fit."""


class SegmentRepair:
    """The repair of one sealed segment of ``log``. No cleaning of the log may run meanwhile."""

    def __init__(
        self,
        files: Files,
        log: UnifiedLog,
        segment: LogSegment,
        reads: PacedReads,
        fetch: FetchBatches,
    ) -> None:
        self._files = files
        self._log = log
        self._segment = segment
        self._reads = reads
        self._fetch = fetch
        self._cuts = log.cuts
        self.replaced_bytes = 0

    async def run(self) -> None:
        """Rebuild the segment. Raises NoReplacement, OSError, and SegmentChanged if the log was
        closed or truncated, or no longer has the segment."""
        await rewrite_segments(self._files, self._log, [self._segment], self._write, self._check)

    def _check(self) -> None:
        if self._log.cuts != self._cuts or not is_sealed(self._log, self._segment):
            raise SegmentChanged

    async def _write(self, target: LogSegment) -> None:
        self._check()
        segment = self._segment
        following = self._log.segments.after(segment.base_offset)
        assert following is not None, "the active segment is not repaired"
        end_offset = following.base_offset
        position, next_offset = 0, segment.base_offset
        while position < segment.size_bytes:
            data = await self._read(position)
            checked = check_batches(data, next_offset, end_offset)
            size = checked.size_bytes
            damaged = checked.fault is not None or not size
            is_last = position + size == segment.size_bytes
            if damaged or (checked.certain[0] and not is_last):
                size, next_offset = checked.certain  # the last one is read again, or replaced
            else:
                next_offset = checked.next_offset
            if size:
                _append(target, data[:size])
                position += size
            if damaged:
                position, sound_offset = await self._next_sound(position, next_offset, end_offset)
                await self._fill(target, next_offset, sound_offset)
                next_offset = sound_offset
        aborted, _ = segment.txn_index.collect(segment.base_offset, end_offset)
        for transaction in aborted:
            target.txn_index.append(transaction)

    async def _next_sound(self, damaged: int, next_offset: int, end_offset: int) -> tuple[int, int]:
        """Return the position and base offset of the next sound batch after the position
        ``damaged``; the end of the segment and ``end_offset`` if there is none."""
        segment = self._segment
        for entry in segment.offset_index.entries_after(damaged):
            data = await self._read(entry.position)
            try:
                batch = next_batch(data, 0, len(data))
            except KafkaError:
                continue
            if (
                batch is not None
                and next_offset < batch.base_offset <= batch.last_offset < end_offset
                and batch.last_offset == entry.offset
                and crc_is_valid(batch)
            ):
                return entry.position, batch.base_offset
        return segment.size_bytes, end_offset

    async def _fill(self, target: LogSegment, offset: int, end_offset: int) -> None:
        """Append the other replica's batches from ``offset`` to ``end_offset`` (exclusive)."""
        # A log that was compacted keeps its gaps when the policy changes.
        has_gaps = self._log.config.compacts or self._log.cleaned_offset is not None
        while offset < end_offset:
            data = await self._fetch(offset)
            self._check()
            try:
                found = replacement_for(data, offset, end_offset, has_gaps=has_gaps)
            except KafkaError as error:
                raise NoReplacement(error.message) from error
            if found.size_bytes:
                _append(target, bytes(memoryview(data)[: found.size_bytes]))
                self.replaced_bytes += found.size_bytes
            offset = found.next_offset

    async def _read(self, position: int) -> bytes:
        data = await self._reads.read(self._log, self._segment, position)
        self._check()
        assert data is not None, "the segment is still sealed"
        return data


def _append(target: LogSegment, data: bytes) -> None:
    target.append_batches(data, parse_batches(data))
