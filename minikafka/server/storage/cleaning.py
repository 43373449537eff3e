"""The cleaning of one log: collects the latest offset of each key, then rewrites the segments.

Cleaning runs on the event loop in slices of a fraction of a millisecond; only flushes and reads
outside of the page cache run in threads, and workers decompress and rewrite huge batches. After
every wait it checks whether the log has changed (truncated, deleted, segments removed), and if so
ends the cleaning. Cleaned segments that have been swapped in by then remain. Kafka: ``Cleaner``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, TypeVar

from minikafka.core.log.compaction import CleanerStats, Dirt, Throttle, group_segments
from minikafka.core.log.compaction_filter import (
    BatchFilter,
    CleaningSteps,
    KeyIndexer,
    LastRecord,
)
from minikafka.core.log.compaction_map import OffsetMap, slots_for
from minikafka.core.log.compaction_transactions import CleanedTransactions
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock, Files, Workers
from minikafka.kernel.slices import BACKGROUND_BUDGET_US, Slices
from minikafka.protocol.records.batch import (
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    CorruptRecordError,
    RecordBatch,
    parse_batch,
    parse_batches,
)
from minikafka.server.storage.log.segment import LogSegment
from minikafka.server.storage.log.segment_rewrite import rewrite_segments
from minikafka.server.storage.log.unified_log import UnifiedLog
from minikafka.server.storage.log_facts import facts_of

T = TypeVar("T")

_LEAST_BUFFER_BYTES: Final = 4096


class CleaningAborted(Exception):
    """A cleaning was ended because the log has changed since it began, or was paused."""


@dataclass(frozen=True, slots=True)
class CleaningMeans:
    """The memory and rate limits of one cleaning: bytes for the map of keys and for one read."""

    map_bytes: int
    load_factor: float
    buffer_bytes: int
    throttle: Throttle


class LogCleaning:
    """One cleaning of the part ``dirt`` of ``log``. It is aborted when ``is_wanted`` returns
    False."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        log: UnifiedLog,
        dirt: Dirt,
        means: CleaningMeans,
        is_wanted: Callable[[], bool],
        workers: Workers,
    ) -> None:
        self.log = log
        self.stats = CleanerStats()
        self._files = files
        self._clock = clock
        self._dirt = dirt
        self._means = means
        self._is_wanted = is_wanted
        self._workers = workers
        self._slices = Slices(BACKGROUND_BUDGET_US, look_every=1)
        self._cuts = log.cuts

    async def run(self) -> int:
        """Clean the log, and return the offset up to which it is clean.

        Raises CleaningAborted, OSError, and KafkaError for a corrupt batch.
        """
        started_ms = self._clock.monotonic_ms()
        offsets = await self._index_keys()
        end = offsets.latest_offset + 1
        self.stats.buffer_utilization = offsets.utilization
        now_ms = self._clock.wall_ms()
        segments = [s for s in self.log.segments if s.base_offset < end]
        by_base = {segment.base_offset: segment for segment in segments}
        transactions = CleanedTransactions()
        groups = group_segments(
            [facts_of(segment) for segment in segments],
            self.log.config,
            self._dirt.first_uncleanable,
        )
        for group in groups:
            members = [by_base[facts.base_offset] for facts in group]
            await self._clean(members, offsets, transactions, now_ms)
        self.stats.elapsed_ms = self._clock.monotonic_ms() - started_ms
        return end

    # ---- the keys

    async def _index_keys(self) -> OffsetMap:
        first, end = self._dirt.first_dirty, self._dirt.first_uncleanable
        means = self._means
        slots = slots_for(means.map_bytes, end - first, means.load_factor)
        offsets = OffsetMap(slots, means.load_factor)
        offsets.latest_offset = first - 1
        indexer = KeyIndexer(offsets, first, stats=self.stats)
        indexer.transactions.expect(self.log.aborted_transactions(first, end))
        dirty = [s for s in self.log.segments.since(first) if s.base_offset < end]
        for index, segment in enumerate(dirty):
            self._check(segment)
            position = segment.offset_index.lookup(first).position
            async for batches in self._batches(segment, position):
                self.stats.map_bytes_read += sum(batch.size_bytes for batch in batches)
                if await self._in_slices(indexer.take(batches), segment):
                    return offsets
            following = dirty[index + 1].base_offset if index + 1 < len(dirty) else end
            offsets.latest_offset = following - 1  # also if compaction has removed its last records
        return offsets

    # ---- the copies

    async def _clean(
        self,
        group: Sequence[LogSegment],
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        now_ms: int,
    ) -> None:
        """Write the remaining batches of ``group`` into a new segment, which replaces the group."""
        await rewrite_segments(
            self._files,
            self.log,
            group,
            lambda cleaned: self._copy(group, cleaned, offsets, transactions, now_ms),
            lambda: self._check(*group),
        )

    async def _copy(
        self,
        group: Sequence[LogSegment],
        cleaned: LogSegment,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        now_ms: int,
    ) -> None:
        log, stats = self.log, self.stats
        entries = log.producers.states.entries
        batch_filter = BatchFilter(
            offsets,
            now_ms,
            log.config.delete_retention_ms,
            {e.producer_id: LastRecord(e.last_offset, e.producer_epoch) for e in entries},
            transactions,
            stats,
        )
        for segment in group:
            self._check(*group)
            following = log.segments.after(segment.base_offset)
            assert following is not None, "the active segment is never cleaned"
            transactions.expect(
                log.aborted_transactions(segment.base_offset, following.base_offset)
            )
            async for batches in self._batches(segment, 0):
                stats.bytes_read += sum(batch.size_bytes for batch in batches)
                left = await self._in_slices(batch_filter.take(batches), *group)
                if left:
                    data = b"".join(left)
                    cleaned.append_batches(data, parse_batches(data))
                    stats.bytes_written += len(data)
                    await self._throttle(len(data), *group)
                for txn in transactions.retained:
                    cleaned.txn_index.append(txn)
                transactions.retained.clear()

    # ---- reading, and yielding to other tasks

    async def _batches(
        self, segment: LogSegment, position: int
    ) -> AsyncIterator[list[RecordBatch]]:
        """Yield the batches of a segment from ``position`` on, as many as fit the buffer at a time.

        A batch that is larger than the buffer is read alone. The CRC does not cover base offsets,
        so their order is checked. Raises KafkaError for an invalid batch."""
        size = max(self._means.buffer_bytes, _LEAST_BUFFER_BYTES)
        end = segment.size_bytes
        following = self.log.segments.after(segment.base_offset)
        assert following is not None, "the active segment is never cleaned"
        next_offset = segment.base_offset
        while position < end:
            data = await self._read(segment, min(size, end - position), position)
            batches = parse_batches(data)
            if not batches:
                whole = self._batch_size(data, position, end)
                batches = parse_batches(await self._read(segment, whole, position))
                if not batches:
                    raise CorruptRecordError(f"{segment.path} ends inside a batch at {position}")
            position += sum(batch.size_bytes for batch in batches)
            for batch in batches:
                last_offset = batch.last_offset
                if not next_offset <= batch.base_offset <= last_offset < following.base_offset:
                    raise CorruptRecordError(
                        f"{segment.path} has a batch from {batch.base_offset} to {last_offset} "
                        f"where {next_offset} is expected"
                    )
                next_offset = last_offset + 1
            yield batches

    def _batch_size(self, data: bytes, position: int, end: int) -> int:
        """Return the size of the batch that starts in ``data`` and ends after it."""
        if len(data) >= BATCH_OVERHEAD:
            size = parse_batch(data, 0).length + LOG_OVERHEAD
            if len(data) < size <= end - position:
                return size
        raise CorruptRecordError(f"no whole batch at {position} of {end} bytes")

    async def _read(self, segment: LogSegment, length: int, position: int) -> bytes:
        self._check(segment)
        try:
            data = await segment.read_cold(length, position)
        except OSError:
            self._check(segment)
            raise
        await self._throttle(len(data), segment)
        return data

    async def _throttle(self, size_bytes: int, *segments: LogSegment) -> None:
        wait_ms = self._means.throttle.observe(size_bytes, self._clock.monotonic_ms())
        if wait_ms:
            await self._clock.sleep(wait_ms)
        self._check(*segments)

    async def _in_slices(self, steps: CleaningSteps[T], *segments: LogSegment) -> T:
        done: Any = None
        while True:
            try:
                work = steps.send(done)
            except StopIteration as end:
                result: T = end.value
                return result
            done = None
            if work is not None:
                done = await self._workers.run(work)
            elif self._slices.ended():
                await self._slices.pause()
            else:
                continue
            self._check(*segments)

    def _check(self, *segments: LogSegment) -> None:
        """Raise CleaningAborted if the log was changed or if these segments were replaced."""
        log = self.log
        if log.closed or log.cuts != self._cuts or not self._is_wanted():
            raise CleaningAborted
        if not log.segments.holds(segments):
            raise CleaningAborted
