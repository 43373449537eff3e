"""Reading from the segments of a log: batches by offset, and offsets by timestamp."""

from __future__ import annotations

from typing import Final, NamedTuple

from minikafka.core.log.open_transactions import AbortedTxn
from minikafka.core.log.time_search import BatchSearch, FoundOffset, OffsetSearch
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Buffer
from minikafka.protocol.records.batch import (
    BATCH_OVERHEAD,
    NO_TIMESTAMP,
    iterate_batches,
    parse_batches,
)
from minikafka.server.storage.log.batch_scan import (
    FoundBatch,
    first_batch_size,
    last_whole_batch,
    next_offset,
)
from minikafka.server.storage.log.segment import LogSegment, LogSegments

_PLACES_LIMIT: Final = 16
# The last of so many batches is found from the first one on: the index may be in a file.
_FEW_BATCHES: Final = 32
_HEADERS_PER_SLICE: Final = 1000
RECENT_BYTES: Final = 8 << 20


class NotInPageCache(Exception):
    """A read would wait for the disk, and the caller must not block."""


class LogRead(NamedTuple):
    """The result of a read: complete batches, or none.

    The first batch contains the start offset of the read and may begin before it. ``first_offset``
    is the base offset of this batch, or the start offset if there is no batch. ``aborted`` has the
    aborted transactions that may have records here, if the reader requested them."""

    records: Buffer
    first_offset: int
    start_offset: int
    aborted: tuple[AbortedTxn, ...] = ()


class LogChanged(Exception):
    """Segments were truncated or removed during a search, which must start again."""


class SegmentPosition(NamedTuple):
    """The position in a segment's file where the batch with some offset starts, or will start."""

    segment: LogSegment
    position: int


class Extent(NamedTuple):
    """The bytes to read: ``length`` bytes, of ``available`` ones below the upper bound."""

    place: SegmentPosition
    length: int
    available: int


def lacks_first_batch(extent: Extent, data: Buffer) -> bool:
    """Whether ``data``, which was read of the extent, ends within the first batch."""
    return extent.length < extent.available and first_batch_size(data) > len(data)


class LogReader:
    """Reads from the segments of one log.

    It remembers the positions where the last few reads ended, because consumers continue there. All
    methods raise OSError, and KafkaError(CORRUPT_MESSAGE) if there is no batch where one should be.
    """

    def __init__(self, segments: LogSegments) -> None:
        self._segments = segments
        self._places: dict[int, SegmentPosition] = {}
        self._changes = 0

    def forget(self) -> None:
        """Forget all positions, after segments were truncated or removed."""
        self._places.clear()
        self._changes += 1

    # ---- by offset

    def extent(self, start: int, bound: int, log_end: int, max_bytes: int) -> Extent | None:
        """Return the bytes that a read of ``max_bytes`` from the offset ``start`` covers, None for
        none."""
        place = self._place(start, log_end)
        stop = self._place(bound, log_end)
        segment = place.segment
        end = stop.position if stop.segment is segment else segment.size_bytes
        available = end - place.position
        return Extent(place, min(available, max_bytes), available) if available > 0 else None

    def read(self, extent: Extent, start: int, min_one_message: bool, may_wait: bool) -> LogRead:
        """Return the complete batches of the extent, and with ``min_one_message`` the first batch
        even if it is larger.

        If ``may_wait`` is False, raises NotInPageCache where the read would wait for the disk. The
        last ``RECENT_BYTES`` of the log are assumed to be in the page cache, since they were
        written recently."""
        data = self._view(extent, may_wait)
        found = self.trim(extent, data, start)
        if not found.records and min_one_message and lacks_first_batch(extent, data):
            extent = extent._replace(length=self.size_of_first_batch(extent))
            found = self.trim(extent, self._view(extent, may_wait), start)
        return found

    def _view(self, extent: Extent, may_wait: bool) -> Buffer:
        segment, position = extent.place
        recent = segment is self._segments.active and position + RECENT_BYTES >= segment.size_bytes
        if may_wait or recent or extent.length == 0:
            return segment.view(extent.length, position)
        data = segment.view_cached(extent.length, position)
        if data is None:
            raise NotInPageCache
        return data

    async def read_cold(self, extent: Extent) -> Buffer:
        """Read the bytes for ``trim`` in a thread. Meanwhile the segment may have been deleted."""
        return await extent.place.segment.read_cold(extent.length, extent.place.position)

    def size_of_first_batch(self, extent: Extent) -> int:
        """Return the size of the first batch, and see that it ends below the upper bound."""
        segment, position = extent.place
        first = next(segment.batches(position, position + extent.available))
        return first.batch.size_bytes

    def trim(self, extent: Extent, data: Buffer, start: int) -> LogRead:
        """Return ``data`` without the incomplete batch at its end, as a view, to avoid a copy. What
        is left out is probably read next: its position is remembered. Raises
        KafkaError(CORRUPT_MESSAGE) for a batch that cannot be of this segment."""
        segment, position = extent.place
        if extent.length < extent.available:
            last, end = self._last_whole_batch(extent, data)
            if end - last >= BATCH_OVERHEAD:  # a smaller one is damaged, and has no last offset
                following = SegmentPosition(segment, position + end)
                self._remember(next_offset(data, last), following)
            if end < len(data):
                data = memoryview(data)[:end]
        if not data:
            return LogRead(b"", start, start)
        first_offset = int.from_bytes(data[:8], "big")
        if first_offset < segment.base_offset:  # no CRC covers it
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"the batch at {position} of {segment.path} has the offset {first_offset}",
            )
        return LogRead(data, first_offset, start)

    def _last_whole_batch(self, extent: Extent, data: Buffer) -> tuple[int, int]:
        """Return where the last complete batch in ``data`` begins and ends: from its beginning on
        if there are few, otherwise from the last one that has an index entry."""
        found = None
        if len(data) <= _FEW_BATCHES * first_batch_size(data):
            found = last_whole_batch(data, 0, _FEW_BATCHES)
        if found is None:
            segment, position = extent.place
            indexed = segment.offset_index.lookup_position(position + len(data)).position
            found = last_whole_batch(data, max(indexed - position, 0), len(data))
        assert found is not None, "there are fewer batches than bytes"
        return found

    def with_aborted(self, read: LogRead, extent: Extent) -> LogRead:
        """Kafka: ``LocalLog.addAbortedTransactions``. What was read ends with the last batch after
        an index entry: neither all batches nor the rest of the log are looked at."""
        if not read.records:
            return read
        segment, position = extent.place
        last = position + len(read.records) - 1
        indexed = segment.offset_index.lookup_position(last).position
        end = 0
        for batch in iterate_batches(memoryview(read.records)[max(indexed - position, 0) :]):
            end = batch.next_offset
        found = self.aborted_transactions(read.start_offset, end)
        return read._replace(aborted=tuple(found)) if found else read

    def aborted_transactions(self, start: int, bound: int) -> list[AbortedTxn]:
        """The aborted transactions that touch ``[start, bound)``, in the order of their markers.
        Kafka: ``collectAbortedTransactions``."""
        found: list[AbortedTxn] = []
        for segment in self._segments.since(start):
            transactions, complete = segment.txn_index.collect(start, bound)
            found += transactions
            if complete:
                break
        return found

    def available_bytes(self, start: int, bound: int, log_end: int) -> int:
        """Bytes from the batch that holds ``start`` up to the one that holds ``bound``."""
        place, stop = self._place(start, log_end), self._place(bound, log_end)
        total = stop.position - place.position
        segment: LogSegment | None = place.segment
        while segment is not None and segment is not stop.segment:
            total += segment.size_bytes
            segment = self._segments.after(segment.base_offset)
        return total

    def _place(self, offset: int, log_end: int) -> SegmentPosition:
        place = self._places.get(offset)
        if place is not None:
            segment, position = place
            if position < segment.size_bytes or segment is self._segments.active:
                return place
        if offset >= log_end:
            active = self._segments.active
            if active is None:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the log has no segments")
            place = SegmentPosition(active, active.size_bytes)
        else:
            place = self._find_place(offset)
        self._remember(offset, place)
        return place

    def remember_end(self, log_end: int) -> None:
        """Remember the position of the log end, from which delayed fetches will read."""
        active = self._segments.active
        if active is not None and log_end not in self._places:
            self._remember(log_end, SegmentPosition(active, active.size_bytes))

    def _remember(self, offset: int, place: SegmentPosition) -> None:
        if len(self._places) >= _PLACES_LIMIT:
            del self._places[next(iter(self._places))]
        self._places[offset] = place

    def _find_place(self, offset: int) -> SegmentPosition:
        segment = self._segments.floor(offset) or self._segments.first
        while segment is not None:
            found = segment.find(offset)
            if found is not None:
                return SegmentPosition(segment, found.position)
            following = self._segments.after(segment.base_offset)
            if following is None:
                return SegmentPosition(segment, segment.size_bytes)
            segment = following
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the log has no segments")

    # ---- by time

    def find_timestamp(self, timestamp: int, start_offset: int) -> OffsetSearch:
        """Search the first record at or after ``start_offset`` whose timestamp is not below
        ``timestamp``. Kafka: ``LogSegment.findOffsetByTimestamp``."""
        for segment in self._segments:
            if segment.max_timestamp < timestamp:
                continue
            indexed = segment.time_index.lookup(timestamp).offset
            position = segment.offset_index.lookup(max(indexed, start_offset)).position
            for count, found in enumerate(segment.batches(position), 1):
                batch = found.batch
                if batch.max_timestamp >= timestamp and batch.last_offset >= start_offset:
                    record = yield from self._search(segment, found, timestamp, start_offset)
                    if record is not None:
                        return record
                if count % _HEADERS_PER_SLICE == 0:
                    yield from self._yield()
        return None

    def find_max_timestamp(self, start_offset: int) -> OffsetSearch:
        """Search the first record with the largest timestamp from ``start_offset`` on (KIP-734)."""
        found = yield from self._latest_record()
        if found is None or found.offset >= start_offset:
            return found
        return (yield from self._latest_since(start_offset))

    def _latest_since(self, start_offset: int) -> OffsetSearch:
        """When the latest record of all is deleted: reads all headers that are left."""
        first: FoundOffset | None = None  # of the batch that holds the start
        latest: tuple[LogSegment, FoundBatch] | None = None
        for segment in self._segments.since(start_offset):
            headers = segment.batches(segment.offset_index.lookup(start_offset).position)
            for count, found in enumerate(headers, 1):
                batch = found.batch
                if count % _HEADERS_PER_SLICE == 0:
                    yield from self._yield()
                if batch.last_offset < start_offset:
                    continue
                if batch.base_offset < start_offset:
                    first = yield from self._search(segment, found, None, start_offset)
                elif latest is None or batch.max_timestamp > latest[1].batch.max_timestamp:
                    latest = (segment, found)
        last = None
        if latest is not None:
            last = yield from self._search(*latest, None, start_offset)
        left = [record for record in (first, last) if record is not None]
        return max(left, key=lambda record: record.timestamp, default=None)

    def _latest_record(self) -> OffsetSearch:
        latest = max(self._segments, key=lambda segment: segment.max_timestamp, default=None)
        if latest is None or latest.max_timestamp == NO_TIMESTAMP:
            return None
        timestamp = latest.max_timestamp
        position = latest.offset_index.lookup(latest.offset_of_max_timestamp).position
        for found in latest.batches(position):
            if found.batch.max_timestamp == timestamp:
                return (yield from self._search(latest, found, timestamp, found.batch.base_offset))
        return None

    def _search(
        self, segment: LogSegment, found: FoundBatch, timestamp: int | None, start_offset: int
    ) -> OffsetSearch:
        """Have one batch searched. Raises LogChanged if the log has changed meanwhile."""
        (batch,) = parse_batches(segment.read(found.batch.size_bytes, found.position))
        changes = self._changes
        record = yield BatchSearch(batch, timestamp, start_offset)
        self._check(changes)
        return record

    def _yield(self) -> OffsetSearch:
        changes = self._changes
        yield None
        self._check(changes)
        return None

    def _check(self, changes: int) -> None:
        if changes != self._changes:
            raise LogChanged
