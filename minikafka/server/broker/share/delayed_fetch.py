"""ShareFetch at the leader: reading, acquiring, and waiting for records that may be acquired."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

from minikafka.core.log.open_transactions import AbortedTxn
from minikafka.core.purgatory import DelayedOperation
from minikafka.core.share.persister import TopicIdPartition
from minikafka.core.share.share_partition import Acquired, AcquireMode, Demand, Span
from minikafka.kernel.cluster import CONSUMER_REPLICA_ID
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Buffer
from minikafka.protocol.records.batch import LOG_OVERHEAD, RecordBatch, iterate_batches
from minikafka.protocol.records.control import (
    ControlRecordType,
    control_record,
    decode_end_txn_marker,
)
from minikafka.server.broker.fetch.reader import (
    FetchEntry,
    FetchParams,
    Isolation,
    ReadResult,
    end_of,
)
from minikafka.server.broker.fetch.record_fetches import FetchOperation, RecordFetches
from minikafka.server.broker.share.share_partitions import LedSharePartition, SharePartitions


@dataclass(frozen=True, slots=True)
class SharedRecords:
    """What a fetch gets of one share-partition: records, and those among them that it has acquired;
    or an error."""

    error: ErrorCode = ErrorCode.NONE
    records: Buffer = b""
    acquired: Sequence[Acquired] = ()


FetchedShares: TypeAlias = Mapping[TopicIdPartition, SharedRecords]


@dataclass(frozen=True, slots=True)
class ShareFetchParams:
    """The parameters of a ShareFetch."""

    group_id: str
    member_id: str
    mode: AcquireMode
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    isolation: Isolation


class DelayedShareFetch(DelayedOperation):
    """A ShareFetch that waits for ``min_bytes`` of records that may be acquired, in
    share-partitions that no other fetch reads at the time. It also completes if none of its
    share-partitions is led here any more, and after its time.

    It reads the log when it completes: ``respond`` is called once, then or after a read from disk.
    Share-partitions without anything to acquire are not in the response. Kafka:
    ``DelayedShareFetch``.
    """

    __slots__ = ("_fetches", "_led", "_params", "_respond", "_shares")

    def __init__(
        self,
        params: ShareFetchParams,
        led: Mapping[TopicIdPartition, LedSharePartition],
        shares: SharePartitions,
        fetches: RecordFetches,
        respond: Callable[[FetchedShares], None],
    ) -> None:
        super().__init__(params.max_wait_ms)
        self._params = params
        self._led = led
        self._shares = shares
        self._fetches = fetches
        self._respond = respond

    def watched_keys(self) -> Iterable[Hashable]:
        for led in self._led.values():
            yield led.key
            yield led.topic_partition

    def try_complete(self) -> bool:
        if all(led.error is not None for led in self._led.values()):
            return self.force_complete()
        acquirable = self._acquirable()
        return bool(acquirable) and self._is_enough(acquirable) and self.force_complete()

    def _acquirable(self) -> dict[TopicIdPartition, LedSharePartition]:
        return {where: led for where, led in self._led.items() if led.acquirable is not None}

    def _is_enough(self, acquirable: Mapping[TopicIdPartition, LedSharePartition]) -> bool:
        """Whether there are enough bytes to read, or an error that the read reports."""
        available = 0
        most = self._params.max_bytes // len(acquirable)
        for led in acquirable.values():
            assert led.machine is not None
            try:
                partition = self._shares.partition(led)
                offset = led.machine.next_fetch_offset()
                end = end_of(partition, self._params.isolation)
                if offset < end:
                    available += min(partition.log.available_bytes(offset, end), most)
            except (KafkaError, OSError):
                return True
        return available >= self._params.min_bytes

    def on_complete(self) -> None:
        acquirable = self._acquirable()
        if not acquirable:
            self._respond(self._errors())
            return
        params = self._params
        limits = byte_limits(params.max_bytes, len(acquirable))
        entries = []
        for (where, led), limit in zip(acquirable.items(), limits, strict=True):
            assert led.machine is not None
            led.is_read = True
            offset = led.machine.next_fetch_offset()
            entries.append(FetchEntry(led.topic_partition, where.topic_id, offset, limit))
        wanted = FetchParams(CONSUMER_REPLICA_ID, 0, 0, params.max_bytes, params.isolation)

        def read(results: Sequence[ReadResult]) -> None:
            self._acquire(acquirable, entries, results)

        self._fetches.fetch(FetchOperation(wanted, entries, read))

    def on_expiration(self) -> None:
        """Nothing to do: ``on_complete`` has read what there is."""

    def _errors(self) -> dict[TopicIdPartition, SharedRecords]:
        return {
            where: SharedRecords(led.error)
            for where, led in self._led.items()
            if led.error is not None
        }

    def _acquire(
        self,
        acquirable: Mapping[TopicIdPartition, LedSharePartition],
        entries: Sequence[FetchEntry],
        results: Sequence[ReadResult],
    ) -> None:
        """Acquire records among those that were read, and respond."""
        left = self._params.max_records
        found: dict[TopicIdPartition, SharedRecords] = {}
        rows = zip(acquirable.items(), entries, results, strict=True)
        for (where, led), entry, result in rows:
            led.is_read = False
            if led.error is None:
                found[where] = shared = self._acquire_of(led, entry, result, left)
                left -= sum(row.last_offset - row.first_offset + 1 for row in shared.acquired)
        found |= self._errors()
        keys = [led.key for led in acquirable.values()]
        asyncio.get_running_loop().call_soon(self._shares.wake, keys)
        self._respond(found)

    def _acquire_of(
        self, led: LedSharePartition, entry: FetchEntry, result: ReadResult, left: int
    ) -> SharedRecords:
        machine, params = led.machine, self._params
        assert machine is not None
        if result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            partition = self._shares.hosted.get(led.topic_partition)
            if partition is not None and partition.is_leader:
                machine.log_start_moved(partition.log.log_start_offset)
            return SharedRecords()
        if result.error is not ErrorCode.NONE:
            return SharedRecords(result.error)
        if left <= 0 or not result.records:
            return SharedRecords()
        batches = list(iterate_batches(result.records))
        demand = Demand(
            params.member_id,
            params.mode,
            params.batch_size,
            left,
            self._shares.lock_until_ms(params.group_id),
        )
        acquired = machine.acquire(
            demand,
            entry.fetch_offset,
            [Span(batch.base_offset, batch.last_offset) for batch in batches],
            aborted_spans(batches, result.aborted) if result.aborted else (),
        )
        if not acquired:
            return SharedRecords()
        self._shares.watch_locks(led)
        records = _slice_of(result.records, batches, acquired)
        return SharedRecords(records=records, acquired=acquired)


def byte_limits(max_bytes: int, count: int) -> list[int]:
    """Divide the bytes of a fetch among its partitions; the first ones get the rest."""
    each, rest = divmod(max_bytes, count)
    return [each + (index < rest) for index in range(count)]


def aborted_spans(batches: Iterable[RecordBatch], aborted: Iterable[AbortedTxn]) -> list[Span]:
    """Return the offsets of record batches that belong to aborted transactions."""
    coming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    open_now: set[int] = set()
    spans: list[Span] = []
    for batch in batches:
        if batch.producer_id < 0:
            continue
        while coming and coming[-1].first_offset <= batch.last_offset:
            open_now.add(coming.pop().producer_id)
        if batch.is_control:
            record = control_record(batch)
            marker = None if record is None else decode_end_txn_marker(record)
            if marker is not None and marker.type is ControlRecordType.ABORT:
                open_now.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in open_now:
            spans.append(Span(batch.base_offset, batch.last_offset))
    return spans


def _slice_of(
    records: Buffer, batches: Sequence[RecordBatch], acquired: Sequence[Acquired]
) -> Buffer:
    """Return the record batches that have acquired records, and those between them."""
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    position = start = end = 0
    for batch in batches:
        size = batch.length + LOG_OVERHEAD
        if batch.last_offset < first:
            start = position + size
        elif batch.base_offset <= last:
            end = position + size
        position += size
    return records if (start, end) == (0, len(records)) else records[start:end]
