"""Reading the log of one partition: by offset, by time, by leader epoch."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.core.log.aborted_txn import AbortedTxn
from minikafka.core.log.leader_epochs import EpochEntry
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.storage.epoch_store import LeaderEpochStore
from minikafka.storage.log_reader import Extent, FoundOffset, LogRead, LogReader
from minikafka.storage.segment import LogSegment
from minikafka.storage.segment_swap import swap_in
from minikafka.storage.segments import LogSegments


class ReadableLog:
    """Records from ``log_start_offset`` up to ``log_end_offset`` (exclusive) in ``segments``.

    ``cuts`` counts truncations. ``cleaned_offset`` is where the cleaner has to go on: None before
    its first time here.
    """

    def __init__(
        self, topic_partition: TopicPartition, segments: LogSegments, epochs: LeaderEpochStore
    ) -> None:
        self.topic_partition = topic_partition
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.segments = segments
        self.epochs = epochs
        self.cuts = 0
        self.cleaned_offset: int | None = None
        self._reader = LogReader(segments)
        self._truncations = 0

    @property
    def latest_epoch(self) -> int | None:
        """The last leader epoch that has, or is going to have, records here."""
        return self.epochs.latest_epoch

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    def _forget_places(self) -> None:
        """Segments have been truncated or removed."""
        self._truncations += 1
        self._reader.forget()

    def _cut_at(self, offset: int) -> None:
        self._forget_places()
        self.cuts += 1
        if self.cleaned_offset is not None:
            self.cleaned_offset = min(self.cleaned_offset, offset)

    def replace_segments(self, cleaned: LogSegment, replaced: Sequence[LogSegment]) -> None:
        """Let a cleaned segment stand for neighbours. As ``swap_in``."""
        try:
            swap_in(self.segments, cleaned, replaced)
        finally:
            self._forget_places()

    def read(
        self,
        start_offset: int,
        max_bytes: int,
        upper_bound_offset: int,
        min_one_message: bool,
        include_aborted: bool = False,
        may_wait: bool = True,
    ) -> LogRead:
        """Whole batches from the one that holds ``start_offset`` on, below ``upper_bound_offset``.

        At most ``max_bytes``, unless ``min_one_message`` and the first batch alone is larger.
        Raises KafkaError(OFFSET_OUT_OF_RANGE), NotInPageCache unless it ``may_wait`` for the disk,
        and what LogReader raises.
        """
        extent = self._extent(
            start_offset, max_bytes, upper_bound_offset, min_one_message, may_wait
        )
        if extent is None:
            return LogRead(b"", start_offset, start_offset)
        found = self._reader.read(extent, start_offset)
        return self._reader.with_aborted(found, extent) if include_aborted else found

    async def read_cold(
        self,
        start_offset: int,
        max_bytes: int,
        upper_bound_offset: int,
        min_one_message: bool,
        include_aborted: bool = False,
    ) -> LogRead:
        """As ``read``, without stalling the loop when the records are not in the page cache.

        Only what is in the log when it returns is returned.
        """
        while True:
            extent = self._extent(start_offset, max_bytes, upper_bound_offset, min_one_message)
            if extent is None:
                return LogRead(b"", start_offset, start_offset)
            truncations = self._truncations
            try:
                data = await self._reader.read_cold(extent)
            except OSError:
                if truncations == self._truncations:
                    raise
                continue  # it was the file of a segment that is gone by now
            if truncations == self._truncations:
                found = self._reader.trim(extent, data, start_offset)
                if include_aborted:
                    found = self._reader.with_aborted(found, extent)
                return found

    def aborted_transactions(self, start_offset: int, bound: int) -> list[AbortedTxn]:
        """Those that touch ``[start_offset, bound)``. Raises OSError. Kafka:
        ``collectAbortedTransactions``."""
        found: list[AbortedTxn] = []
        self._reader.collect_aborted(start_offset, bound, found)
        return found

    def available_bytes(self, start_offset: int, upper_bound_offset: int) -> int:
        """How many bytes ``read`` could give in all, without reading them."""
        bound = self._bound(start_offset, upper_bound_offset)
        if bound is None:
            return 0
        return self._reader.available_bytes(start_offset, bound, self.log_end_offset)

    def _extent(
        self,
        start_offset: int,
        max_bytes: int,
        upper_bound_offset: int,
        min_one_message: bool,
        may_wait: bool = True,
    ) -> Extent | None:
        bound = self._bound(start_offset, upper_bound_offset)
        end = self.log_end_offset
        if bound is None:
            if start_offset == end:
                self._reader.remember_end(end)
            return None
        return self._reader.extent(start_offset, bound, end, max_bytes, min_one_message, may_wait)

    def _bound(self, start_offset: int, upper_bound_offset: int) -> int | None:
        """Where reading ends; None when it would end before it starts."""
        end = self.log_end_offset
        if not self.log_start_offset <= start_offset <= end:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {start_offset} of {self.topic_partition} is outside "
                f"[{self.log_start_offset}, {end}]",
            )
        bound = min(upper_bound_offset, end)
        return bound if start_offset < bound else None

    def offset_by_timestamp(self, timestamp: int, upper_bound_offset: int) -> FoundOffset | None:
        """The first record whose timestamp (ms) is not below ``timestamp``; None when there is
        none below ``upper_bound_offset``. Raises what LogReader raises."""
        found = self._reader.find_timestamp(timestamp, self.log_start_offset)
        return found if found is not None and found.offset < upper_bound_offset else None

    def offset_of_max_timestamp(self, upper_bound_offset: int) -> FoundOffset | None:
        """The first record with the largest timestamp; None when there is none, or it is not below
        ``upper_bound_offset``. Raises what LogReader raises."""
        found = self._reader.find_max_timestamp(self.log_start_offset)
        return found if found is not None and found.offset < upper_bound_offset else None

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry:
        """(epoch, end offset) as ``LeaderEpochCache.end_offset_for``; (-1, -1) when unknown."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)
