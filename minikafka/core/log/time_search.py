"""Search for a record by its timestamp within one batch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final, NamedTuple, TypeAlias

from minikafka.protocol.records.batch import NO_TIMESTAMP, RecordBatch
from minikafka.protocol.records.compression import DecompressedTooLarge
from minikafka.protocol.records.record_layout import Want, compile_walk

ON_LOOP_BYTES: Final = 1024 * 1024
ON_LOOP_RECORDS: Final = 20_000


class FoundOffset(NamedTuple):
    """A record found by its timestamp (ms). ``leader_epoch`` is that of its batch, or -1."""

    offset: int
    timestamp: int
    leader_epoch: int


# Neither keys nor headers are read: one record may have millions of headers.
_find_times: Callable[[bytes, int], Iterator[tuple[int, int]]] = compile_walk(
    "find_times",
    "data, count",
    {"timestamp_delta": Want.SIGNED, "offset_delta": Want.SIGNED},
    each="yield offset_delta, timestamp_delta",
)


class BatchSearch(NamedTuple):
    """The search in one batch for the first record from ``start_offset`` on that is not older than
    ``timestamp`` (ms), or for the latest one if ``timestamp`` is None. It may take long, and is a
    pure function of the batch, whose buffer is bytes."""

    batch: RecordBatch
    timestamp: int | None
    start_offset: int

    def run(self) -> FoundOffset | None:
        """Return the record, None if there is none. Raises DecompressedTooLarge, and KafkaError for
        an invalid batch."""
        return self.find_in(self.batch.plain_records())

    def find_in(self, data: bytes) -> FoundOffset | None:
        """Search ``data``, the decompressed records of the batch. Raises CorruptRecordError."""
        batch, wanted, start = self.batch, self.timestamp, self.start_offset
        append_time = batch.max_timestamp if batch.timestamp_type_log_append else None
        latest: FoundOffset | None = None
        for delta, timestamp_delta in _find_times(data, batch.record_count):
            offset = batch.base_offset + delta
            if offset < start:
                continue
            timestamp = batch.base_timestamp + timestamp_delta
            if append_time is not None:
                timestamp = append_time
            if wanted is None:
                if timestamp > (NO_TIMESTAMP if latest is None else latest.timestamp):
                    latest = FoundOffset(offset, timestamp, batch.partition_leader_epoch)
            elif timestamp >= wanted:
                return FoundOffset(offset, timestamp, batch.partition_leader_epoch)
        return latest


# A search in a log. It yields each batch to search, and receives what was found there; or None,
# when it has read many headers and other tasks should run.
OffsetSearch: TypeAlias = Generator[BatchSearch | None, FoundOffset | None, FoundOffset | None]


class BudgetExhausted(Exception):
    """A search is too long for the event loop."""


class SearchBudget:
    """The work that one request may do on the event loop for its searches by timestamp."""

    def __init__(self) -> None:
        self._bytes_left = ON_LOOP_BYTES
        self._records_left = ON_LOOP_RECORDS

    def run(self, search: BatchSearch) -> FoundOffset | None:
        """Run the search at the expense of the budget. Raises BudgetExhausted, and KafkaError for
        an invalid batch."""
        batch = search.batch
        if batch.record_count > self._records_left or batch.size_bytes > self._bytes_left:
            raise BudgetExhausted
        try:
            data = batch.plain_records(self._bytes_left)
        except DecompressedTooLarge as error:
            raise BudgetExhausted from error
        self._bytes_left -= len(data)
        self._records_left -= batch.record_count
        return search.find_in(data)
