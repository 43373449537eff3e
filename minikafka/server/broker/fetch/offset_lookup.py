"""ListOffsets: the offset of a timestamp or an end of the log, within what the client may read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, TypeAlias

from minikafka.core.log.time_search import (
    BatchSearch,
    BudgetExhausted,
    FoundOffset,
    SearchBudget,
)
from minikafka.kernel.cluster import NO_EPOCH
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Workers
from minikafka.server.broker.fetch.reader import Isolation, end_of
from minikafka.server.broker.replication.partition import Partition
from minikafka.server.storage.log.reader import LogChanged

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6


class ListedOffset(NamedTuple):
    """An offset with its timestamp and leader epoch. Each is -1 if there is none."""

    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = NO_EPOCH


NOTHING = ListedOffset()
# Yields as ``OffsetSearch``.
OffsetLookup: TypeAlias = Generator[BatchSearch | None, FoundOffset | None, ListedOffset]


def find_offset(
    partition: Partition,
    timestamp: int,
    isolation: Isolation,
    current_leader_epoch: int,
    leader_only: bool,
) -> OffsetLookup:
    """Find the first record not older than ``timestamp``, or the end of the log that a negative
    ``timestamp`` stands for.

    Raises KafkaError(OFFSET_NOT_AVAILABLE) for a consumer while the high watermark of a new leader
    is below the start of its epoch, since offsets would seem to go back (KIP-207). Also raises as
    ``Partition.readable_log``, LogChanged, OSError, and KafkaError for a batch that is invalid or
    too large when decompressed.
    """
    log = partition.readable_log(current_leader_epoch, leader_only)
    last = end_of(partition, isolation)
    start = partition.state.leader_epoch_start_offset
    behind = (
        isolation is not Isolation.LOG_END
        and start is not None
        and start > partition.high_watermark
    )
    if timestamp == LATEST_TIMESTAMP:
        if behind:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return ListedOffset(last, leader_epoch=partition.leader_epoch)
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        epoch = log.epochs.cache.epoch_for_offset(log.log_start_offset)
        return ListedOffset(log.log_start_offset, leader_epoch=NO_EPOCH if epoch is None else epoch)
    if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return NOTHING  # nothing is tiered
    if timestamp == MAX_TIMESTAMP:
        found = yield from log.offset_of_max_timestamp(last)
    else:
        found = yield from log.offset_by_timestamp(timestamp, last)
    if found is not None:
        return ListedOffset(*found)
    if behind:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
    return NOTHING


class StartedLookup:
    """The lookup of one offset, on the event loop as far as the request's budget goes, then with a
    worker. ``start`` begins the lookup; it is called again if the log has changed meanwhile."""

    def __init__(self, start: Callable[[], OffsetLookup]) -> None:
        self._start = start
        self._lookup = start()
        self._next: BatchSearch | None = None

    def on_loop(self, budget: SearchBudget) -> ListedOffset | None:
        """Look the offset up, or return None if the budget does not suffice; then call
        ``with_workers``. Raises as ``find_offset``."""
        found: FoundOffset | None = None
        try:
            while True:
                self._next = self._lookup.send(found)
                if self._next is None:
                    return None
                found = budget.run(self._next)
        except StopIteration as end:
            result: ListedOffset = end.value
            return result
        except BudgetExhausted:
            return None

    async def with_workers(self, workers: Workers) -> ListedOffset:
        """Continue after ``on_loop``. Raises as ``find_offset``, but not LogChanged."""
        while True:
            try:
                found = None
                if self._next is None:
                    await asyncio.sleep(0)
                else:
                    found = await workers.run(self._next.run)
                self._next = self._lookup.send(found)
            except StopIteration as end:
                result: ListedOffset = end.value
                return result
            except LogChanged:
                self._lookup = self._start()
                self._next = None


def ages(partition: Partition, leader_only: bool, now_ms: int) -> list[tuple[int, int]]:
    """Return (first offset, time of the last write in ms) of each segment, then (log end, now) if
    the active segment has records.

    Raises as ``Partition.readable_log``, and OSError."""
    log = partition.readable_log(NO_EPOCH, leader_only)
    start = log.log_start_offset
    found = [(max(segment.base_offset, start), segment.modified_ms) for segment in log.segments]
    active = log.segments.active
    if active is None or active.size_bytes > 0:
        found.append((log.log_end_offset, now_ms))
    return found


def offsets_before(
    known: Sequence[tuple[int, int]], timestamp: int, count: int, bound: int
) -> list[int]:
    """Return the offsets of ListOffsets version 0: at most ``count`` of the ``ages`` in ``known``
    that are not after ``timestamp``, highest offset first. ``bound`` replaces the offsets above it.

    Kafka: ``legacyFetchOffsetsBefore``, ``legacyFetchOffsetsForTimestamp``."""
    end = len(known)
    if timestamp == EARLIEST_TIMESTAMP:
        end = 1
    elif timestamp != LATEST_TIMESTAMP:
        while end > 0 and known[end - 1][1] > timestamp:
            end -= 1
    offsets = [offset for offset, _ in reversed(known[:end])][: max(0, count)]
    visible = [offset for offset in offsets if offset <= bound]
    return offsets if len(visible) == len(offsets) else [bound, *visible]
