"""The state machine of one share-partition: the delivery state of each of its records.

The leader of a partition has one for each share group that reads it. It covers the offsets from
``start_offset``, before which nothing is left to do, to ``end_offset``, the last one that was ever
acquired. Each record between them is available, acquired by a member until its lock is over,
acknowledged, or archived: rejected, delivered too often, or deleted.

A change is written to the share coordinator before it counts. ``acknowledge`` and
``release_member`` change the records and return a ``Transition``, whose ``batches`` are written;
``complete`` is called with the outcome, and makes the change final or undoes it. What has never
been written is delivered again by the next leader: a record is accepted once, or delivered again.
Kafka: ``SharePartition``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from minikafka.core.share.in_flight import (
    UNLOCKED,
    Delivery,
    InFlightBatch,
    RecordState,
)
from minikafka.core.share.persister import StateBatch
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass

MIN_THROTTLED_COUNT: Final = 2
# Of a lower limit each delivery may be the last one, and none gets special care.
LOWEST_CAREFUL_LIMIT: Final = 3


class AcknowledgeType(IntEnum):
    """What a consumer decides about a record: it is processed, is to be delivered again (RELEASE)
    or never again (REJECT), or needs a longer lock. A gap is an offset without a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_STATES: Final = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}


class AcquireMode(IntEnum):
    """How many records a fetch acquires: whole record batches, or no more than it may have."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class Span(NamedTuple):
    """Offsets from ``first`` to ``last``, both inclusive: those of a record batch."""

    first: int
    last: int


class Acquired(NamedTuple):
    """Records that a member has acquired, for the ``delivery_count``-th time."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """The acknowledgement of the records of a batch: one type for all, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """The limits of a group's share-partitions: deliveries of a record, records in flight."""

    delivery_count: int = 5
    in_flight_records: int = 2000


@dataclass(frozen=True, slots=True)
class Demand:
    """The limits of a fetch. ``batch_size`` is the preferred number of records that are
    acknowledged together."""

    member_id: str
    mode: AcquireMode
    batch_size: int
    max_records: int
    locked_until_ms: int


@dataclass(slots=True)
class Transition:
    """A change that is to be written: ``batches`` as they are stored, and the ``deliveries`` that
    have changed."""

    deliveries: list[Delivery]
    batches: list[StateBatch]

    def add(self, first: int, last: int, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        self.batches.append(StateBatch(first, last, delivery.state, delivery.count))


def record_state_error(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD_STATE, message)


class SharePartition:
    """The state machine; see the module. ``start_offset`` and ``stored`` are what the share
    coordinator has, or where the group's settings begin.

    Raises ValueError for stored batches that are no state."""

    def __init__(
        self, start_offset: int, limits: ShareLimits, stored: Sequence[StateBatch] = ()
    ) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self._limits = limits
        self._throttled_count = max(MIN_THROTTLED_COUNT, (limits.delivery_count + 1) // 2)
        self._firsts: list[int] = []  # of the batches, sorted
        self._batches: dict[int, InFlightBatch] = {}
        # Whether records may be available before the end offset.
        self._has_available = bool(stored)
        # The stored batches of an earlier leader may leave out records that were acquired and not
        # acknowledged: the first offset of those that were not looked at yet, while the end offset
        # is as it was.
        self._gap_start: int | None = None
        self._gap_end = -1
        if stored:
            self._load(stored)

    def _load(self, stored: Sequence[StateBatch]) -> None:
        previous = self.start_offset - 1
        for row in stored:
            if row.first_offset <= previous or row.last_offset < row.first_offset:
                raise ValueError(f"the stored batch {row} after offset {previous}")
            if self._gap_start is None and row.first_offset > previous + 1:
                self._gap_start = previous + 1
            delivery = Delivery(RecordState(row.delivery_state), row.delivery_count)
            self._add(InFlightBatch(row.first_offset, row.last_offset, delivery))
            previous = row.last_offset
        self.end_offset = self._gap_end = previous
        self.advance()

    # -- reading

    @property
    def in_flight_records(self) -> int:
        return self.end_offset - self.start_offset + 1 if self._firsts else 0

    @property
    def delivery_complete_count(self) -> int:
        """The number of records from the start offset on that need no delivery any more, those
        whose change is being written included (KIP-1226)."""
        return sum(
            last - max(first, self.start_offset) + 1
            for batch in self._in_order()
            for first, last, delivery in batch.parts()
            if delivery.state.is_terminal and last >= self.start_offset
        )

    @property
    def next_lock_ms(self) -> int | None:
        """When the next lock is over; None without locks."""
        locks = (
            delivery.locked_until_ms
            for batch in self._in_order()
            for _, _, delivery in batch.parts()
            if delivery.state is RecordState.ACQUIRED and delivery.locked_until_ms != UNLOCKED
        )
        return min(locks, default=None)

    def next_fetch_offset(self) -> int:
        """Return the first offset whose record is available, or was never acquired."""
        if not self._firsts or self.start_offset > self._last_offset:
            self._has_available = False
            return self.end_offset
        if self._has_available:
            gap = self._active_gap
            for batch in self._in_order():
                if gap is not None:
                    if batch.first > gap:
                        return gap
                    gap = max(batch.last + 1, gap)
                for first, last, delivery in batch.parts():
                    if delivery.is_available and last >= self.start_offset:
                        return max(first, self.start_offset)
            self._has_available = False
        return self.end_offset + 1

    def can_acquire(self) -> bool:
        """Whether a fetch might acquire records: of those in flight, or further ones within the
        limit."""
        if self.next_fetch_offset() != self.end_offset + 1:
            return True
        return self.in_flight_records < self._limits.in_flight_records

    def states(self) -> Iterator[tuple[int, int, Delivery]]:
        """Iterate over the deliveries in flight, with first and last offset."""
        for batch in self._in_order():
            yield from batch.parts()

    # -- acquiring

    def acquire(
        self,
        demand: Demand,
        fetch_offset: int,
        fetched: Sequence[Span],
        aborted: Sequence[Span] = (),
    ) -> list[Acquired]:
        """Acquire records among the ``fetched`` record batches, which were read from
        ``fetch_offset`` on. Those of ``aborted`` batches are archived instead."""
        if not fetched or fetched[-1].last < self.start_offset:
            return []
        last, max_records = self._bounds(demand, fetch_offset, fetched[-1].last)
        if max_records <= 0:
            return []
        base = fetched[0].first
        self._archive_between(fetch_offset, base)
        first = base = max(base, self.start_offset)
        floor = self._floor(base)
        if floor is not None and floor.last >= base:
            base = floor.first
        acquisition = _Acquisition(demand, fetched, first, base, last, max_records)
        known = self._between(base, last)
        if not known:
            self._acquire_new(acquisition, base, last)
        else:
            self._acquire_among(acquisition, known)
        if not aborted:
            return acquisition.acquired
        for span in aborted:
            self._archive(span.first, span.last, RecordState.ACQUIRED)
        self.advance()
        return without_spans(acquisition.acquired, aborted)

    def _bounds(self, demand: Demand, fetch_offset: int, last: int) -> tuple[int, int]:
        """Return the last offset to acquire, and the number of records. At the limit of records in
        flight, available ones between them may still be acquired."""
        free = self._limits.in_flight_records - self.in_flight_records
        count = min(demand.max_records, free)
        if count <= 0 and fetch_offset <= self.end_offset:
            count = min(demand.max_records, self.end_offset - fetch_offset + 1)
            last = min(last, self.end_offset)
        return last, count

    def _acquire_among(self, acquisition: _Acquisition, known: Sequence[InFlightBatch]) -> None:
        """Acquire what is available in ``known`` batches, then in gaps between and behind them."""
        gap_start = acquisition.base
        for batch in known:
            if acquisition.left <= 0:
                break
            if self._active_gap is not None:
                if gap_start < batch.first:
                    self._acquire_new(acquisition, gap_start, batch.first - 1)
                gap_start = batch.last + 1
                if acquisition.left <= 0:
                    break
            if not self._acquire_of(acquisition, batch):
                break
        if acquisition.left > 0 and known[-1].last < acquisition.last:
            self._acquire_new(acquisition, known[-1].last + 1, acquisition.last)
        if acquisition.acquired:
            self._move_gap(acquisition.acquired[-1].last_offset + 1)

    def _acquire_of(self, acquisition: _Acquisition, batch: InFlightBatch) -> bool:
        """Acquire the available records of a batch. Return False if nothing else may be acquired
        beside: records that have failed often are delivered with few others (KIP-1206)."""
        first, last = acquisition.first, acquisition.last
        is_careful = self._is_throttled(batch, first, last)
        if is_careful and acquisition.count > 0:
            acquisition.max_records = 0
            return False
        whole = batch.delivery
        if (
            whole is not None
            and batch.is_within(first, last)
            and not is_careful
            and not (acquisition.is_limited and len(batch) > acquisition.left)
        ):
            if whole.is_available:
                demand = acquisition.demand
                whole.acquire(demand.member_id, demand.locked_until_ms)
                acquisition.add([Acquired(batch.first, batch.last, whole.count)], len(batch))
            return True
        if whole is not None:
            if not whole.is_available:
                return True
            batch.split()
        count = self._acquire_offsets(acquisition, batch, first, last)
        if is_careful and count > 0:
            acquisition.max_records = 0
            return False
        return True

    def _is_throttled(self, batch: InFlightBatch, first: int, last: int) -> bool:
        """Whether available records of the batch were delivered so often that one of them may make
        consumers fail."""
        return any(
            delivery.is_available and delivery.count >= self._throttled_count
            for start, end, delivery in batch.parts()
            if start <= last and end >= first
        )

    def _acquire_offsets(
        self, acquisition: _Acquisition, batch: InFlightBatch, first: int, last: int
    ) -> int:
        """Acquire available records of a batch that is split: the fewer, the more often one of them
        has failed, and alone before the last delivery. Return their number."""
        limit, demand = self._limits.delivery_count, acquisition.demand
        is_careful = limit >= LOWEST_CAREFUL_LIMIT
        most: int | None = None
        singles: list[Acquired] = []
        for offset, delivery in batch.between(first, last):
            if not delivery.is_available:
                continue
            if is_careful and delivery.count == limit - 1 and singles:
                break
            if delivery.count >= self._throttled_count and most is None:
                most = max(1, len(batch) >> (delivery.count - self._throttled_count + 1))
            delivery.acquire(demand.member_id, demand.locked_until_ms)
            singles.append(Acquired(offset, offset, delivery.count))
            if is_careful and delivery.count == limit:
                break
            if acquisition.is_limited and len(singles) == acquisition.left:
                break
            if most is not None and len(singles) == most:
                break
        acquisition.add(_joined(singles), len(singles))
        return len(singles)

    def _acquire_new(self, acquisition: _Acquisition, first: int, last: int) -> None:
        """Acquire records that are not in flight, from ``first`` to ``last`` or to the end of the
        record batch in which the limit is reached."""
        if not self._firsts:
            first = max(first, self.end_offset)
        left = acquisition.left
        if left < last - first + 1:
            end = _end_of_batch(acquisition.fetched, first + left - 1)
            last = min(end, last) if self._active_gap is not None else end
        if first > last:
            return
        demand = acquisition.demand
        if acquisition.is_limited and last - first + 1 > left:
            self._add_limited(demand, first, last, left)
            acquired = [Acquired(first, first + left - 1, 1)]
        else:
            acquired = [
                Acquired(span.first, span.last, 1)
                for span in _cut(acquisition.fetched, first, last, acquisition)
            ]
            for row in acquired:
                self._add(InFlightBatch(row.first_offset, row.last_offset, _locked(demand)))
        if self._firsts[0] == first:
            self.start_offset = first
        self.end_offset = max(self.end_offset, last)
        acquired_last = acquired[-1].last_offset
        self._move_gap(acquired_last + 1)
        acquisition.add(acquired, acquired_last - first + 1)

    def _add_limited(self, demand: Demand, first: int, last: int, count: int) -> None:
        """Add a batch of which ``count`` records are acquired, and the others available."""
        batch = InFlightBatch(first, last, Delivery(RecordState.AVAILABLE, 0))
        batch.split()
        for _, delivery in batch.between(first, first + count - 1):
            delivery.acquire(demand.member_id, demand.locked_until_ms)
        self._add(batch)
        self._has_available = True

    # -- changes that are written

    def acknowledge(
        self,
        member_id: str,
        acknowledgements: Iterable[Acknowledgement],
        locked_until_ms: int,
        now_ms: int,
    ) -> Transition:
        """Change the acknowledged records, all of them or none. Renewed ones are locked until
        ``locked_until_ms``.

        Raises KafkaError: INVALID_REQUEST for types and offsets that cannot be, and
        INVALID_RECORD_STATE for records that the member has not acquired."""
        transition = Transition([], [])
        try:
            for row in acknowledgements:
                if any(not 0 <= kind <= AcknowledgeType.RENEW for kind in row.types):
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {list(row.types)}"
                    )
                if row.last_offset >= self.start_offset:
                    for batch in self._acknowledged(row):
                        if batch.last >= self.start_offset:
                            self._acknowledge(member_id, row, batch, locked_until_ms, transition)
        except KafkaError:
            self._complete(transition, False, now_ms)
            raise
        return transition

    def _acknowledged(self, row: Acknowledgement) -> Sequence[InFlightBatch]:
        """Return the batches that an acknowledgement is about."""
        first, last = row.first_offset, row.last_offset
        floor = self._floor(first)
        if floor is None and first < self.start_offset <= last:
            floor = self._floor(self.start_offset)
        if floor is None:
            raise record_state_error(
                "Batch record not found. The request batch offsets are not found in the cache."
            )
        found = self._between(floor.first, last)
        for what, offset in (("first", first), ("last", last)):
            if found[-1].last < offset:
                message = f"The {what} offset in request is past acquired records."
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Batch record not found. {message}")
        return found

    def _acknowledge(
        self,
        member_id: str,
        row: Acknowledgement,
        batch: InFlightBatch,
        locked_until_ms: int,
        transition: Transition,
    ) -> None:
        whole = batch.delivery
        if whole is not None:
            _require_owner(whole, member_id)
            if (
                batch.is_within(row.first_offset, row.last_offset)
                and len(row.types) == 1
                and batch.first >= self.start_offset
            ):
                if whole.state is not RecordState.ACQUIRED:
                    raise record_state_error(
                        "The batch cannot be acknowledged. The batch is not in the acquired state."
                    )
                kind = row.types[0]
                self._change(batch.first, batch.last, whole, kind, locked_until_ms, transition)
                return
            if whole.state is not RecordState.ACQUIRED:
                raise record_state_error(
                    "The batch cannot be acknowledged. The subset batch is not in the acquired "
                    "state."
                )
            batch.split()
        first = max(row.first_offset, self.start_offset)
        for offset, delivery in batch.between(first, row.last_offset):
            if delivery.state is not RecordState.ACQUIRED:
                raise record_state_error(
                    "The offset cannot be acknowledged. The offset is not acquired."
                )
            if delivery.member_id != member_id:
                raise record_state_error("Member is not the owner of offset")
            several = len(row.types) > 1
            kind = row.types[offset - row.first_offset] if several else row.types[0]
            self._change(offset, offset, delivery, kind, locked_until_ms, transition)

    def _change(
        self,
        first: int,
        last: int,
        delivery: Delivery,
        kind: int,
        locked_until_ms: int,
        transition: Transition,
    ) -> None:
        if kind == AcknowledgeType.RENEW:
            delivery.locked_until_ms = locked_until_ms
        else:
            delivery.begin(_STATES[AcknowledgeType(kind)], self._limits.delivery_count)
            transition.add(first, last, delivery)

    def release_member(self, member_id: str) -> Transition:
        """Release all records that a member has acquired. Those before the start offset are
        archived."""
        transition = Transition([], [])
        for first, last, delivery in self._acquired():
            if delivery.member_id == member_id:
                gone = last < self.start_offset
                to = RecordState.ARCHIVED if gone else RecordState.AVAILABLE
                delivery.begin(to, self._limits.delivery_count)
                transition.add(first, last, delivery)
        return transition

    def complete(self, transition: Transition, written: bool, now_ms: int) -> bool:
        """End a change. Return whether a fetch might acquire records now that it could not
        before."""
        was_available = self._has_available
        self._complete(transition, written, now_ms)
        moved = written and self.advance()
        return moved or (self._has_available and not was_available)

    def _complete(self, transition: Transition, written: bool, now_ms: int) -> None:
        for delivery in transition.deliveries:
            delivery.complete(written, self._limits.delivery_count, now_ms)
            self._has_available |= delivery.is_available
        if self._firsts and self._firsts[0] < self.start_offset:
            self._archive(self._firsts[0], self.start_offset - 1, RecordState.AVAILABLE)

    def expire_locks(self, now_ms: int) -> list[StateBatch]:
        """Release the records whose locks are over. Return what is to be written; after that
        ``advance`` is called, whether it is written or not."""
        changed: list[StateBatch] = []
        for first, last, delivery in self._acquired():
            if delivery.locked_until_ms <= now_ms:
                gone = last < self.start_offset
                to = RecordState.ARCHIVED if gone else RecordState.AVAILABLE
                delivery.release(to, self._limits.delivery_count)
                delivery.locked_until_ms = UNLOCKED
                changed.append(StateBatch(first, last, delivery.state, delivery.count))
                self._has_available |= delivery.is_available
        return changed

    def _acquired(self) -> Iterator[tuple[int, int, Delivery]]:
        """Iterate over acquired deliveries. A batch that the start offset divides is split."""
        for batch in list(self._in_order()):
            whole = batch.delivery
            if (
                whole is not None
                and whole.state is RecordState.ACQUIRED
                and batch.first < self.start_offset <= batch.last
            ):
                batch.split()
            for first, last, delivery in batch.parts():
                if delivery.state is RecordState.ACQUIRED:
                    yield first, last, delivery

    # -- the log and the start offset

    def log_start_moved(self, log_start_offset: int) -> None:
        """Archive the available records before ``log_start_offset``, which the log has deleted."""
        if log_start_offset <= self.start_offset:
            return
        if self._firsts:
            self._archive(self.start_offset, log_start_offset - 1, RecordState.AVAILABLE)
            self._has_available = True  # further records may be acquired
        self.start_offset = log_start_offset
        if self._gap_start is not None:
            self._move_gap(max(self._gap_start, log_start_offset))
        if not self._firsts or self.end_offset < log_start_offset:
            self.end_offset = log_start_offset
        self.advance()

    def advance(self) -> bool:
        """Move the start offset behind the records that need no delivery any more. Return whether
        it moved."""
        floor = self._floor(self.start_offset)
        if floor is None or not floor.at(min(self.start_offset, floor.last)).is_settled:
            return False
        settled = self._last_settled()
        if settled is None:
            return False
        if settled == self._last_offset:
            self.start_offset = self.end_offset = settled + 1
            self._firsts.clear()
            self._batches.clear()
            return True
        floor = self._floor(settled)
        assert floor is not None
        kept = bisect_left(self._firsts, floor.first)
        if settled == floor.last:
            kept += 1
            self.start_offset = max(self.start_offset, self._firsts[kept])
            if self._active_gap is not None:
                self.start_offset = min(self.start_offset, self._active_gap)
        else:
            self.start_offset = max(self.start_offset, settled + 1)
        for first in self._firsts[:kept]:
            del self._batches[first]
        del self._firsts[:kept]
        return True

    def _last_settled(self) -> int | None:
        """Return the last offset up to which all records in flight are settled."""
        settled: int | None = None
        gap = self._active_gap
        for batch in self._in_order():
            if gap is not None and batch.last >= gap:
                return settled
            for _, last, delivery in batch.parts():
                if not delivery.is_settled:
                    return settled
                settled = last
        return settled

    def _archive_between(self, first: int, end: int) -> None:
        """Archive available records that a fetch from ``first`` on has not found before ``end``:
        the log has been compacted."""
        if first < end and self._firsts:
            floor = self._floor(first)
            start = floor.first if floor is not None and floor.last >= first else first
            if self._between(start, end - 1):
                self._archive(first, end - 1, RecordState.AVAILABLE)

    def _archive(self, first: int, last: int, state: RecordState) -> None:
        """Archive the records in ``state`` from ``first`` to ``last``."""
        floor = self._floor(first)
        start = first if floor is None else floor.first
        for batch in self._between(start, last):
            whole = batch.delivery
            if whole is not None and batch.is_within(first, last):
                if whole.state is state:
                    whole.archive()
                    self._has_available = True
                continue
            if whole is not None:
                if whole.state is not state or whole.before is not None:
                    continue
                batch.split()
            for _, delivery in batch.between(first, last):
                if delivery.state is state:
                    delivery.archive()
                    self._has_available = True

    # -- the batches

    @property
    def _last_offset(self) -> int:
        return self._batches[self._firsts[-1]].last

    @property
    def _active_gap(self) -> int | None:
        return self._gap_start if self._gap_end == self.end_offset else None

    def _move_gap(self, offset: int) -> None:
        """Look for gaps from ``offset`` on: it is acquired up to there."""
        if self._gap_start is not None:
            floor = self._floor(offset)
            while floor is not None and floor.last >= offset:
                offset = floor.last + 1
                floor = self._floor(offset)
            active = self._gap_end == self.end_offset and offset <= self._gap_end
            self._gap_start = offset if active else None

    def _in_order(self) -> Iterator[InFlightBatch]:
        return (self._batches[first] for first in self._firsts)

    def _add(self, batch: InFlightBatch) -> None:
        assert batch.first not in self._batches, batch.first
        if self._firsts and batch.first < self._firsts[-1]:
            insort(self._firsts, batch.first)
        else:
            self._firsts.append(batch.first)
        self._batches[batch.first] = batch

    def _floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at ``offset`` or before."""
        index = bisect_right(self._firsts, offset)
        return self._batches[self._firsts[index - 1]] if index else None

    def _between(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches that begin from ``first`` to ``last``."""
        start, end = bisect_left(self._firsts, first), bisect_right(self._firsts, last)
        return [self._batches[each] for each in self._firsts[start:end]]


class _Acquisition:
    """What one fetch has acquired so far, and may still acquire."""

    __slots__ = ("acquired", "base", "count", "demand", "fetched", "first", "last", "max_records")

    def __init__(
        self,
        demand: Demand,
        fetched: Sequence[Span],
        first: int,
        base: int,
        last: int,
        max_records: int,
    ) -> None:
        self.demand = demand
        self.fetched = fetched
        self.first = first
        self.base = base
        self.last = last
        self.max_records = max_records
        self.acquired: list[Acquired] = []
        self.count = 0

    @property
    def is_limited(self) -> bool:
        return self.demand.mode is AcquireMode.RECORD_LIMIT

    @property
    def left(self) -> int:
        return self.max_records - self.count

    def add(self, acquired: Iterable[Acquired], count: int) -> None:
        self.acquired += acquired
        self.count += count


def _locked(demand: Demand) -> Delivery:
    return Delivery(RecordState.ACQUIRED, 1, demand.member_id, demand.locked_until_ms)


def _require_owner(delivery: Delivery, member_id: str) -> None:
    """Raise KafkaError unless the member has acquired the records of a batch, and no change of them
    is being written."""
    if not delivery.member_id:
        raise record_state_error(
            "The batch cannot be acknowledged. The batch is not in the acquired state."
        )
    if delivery.member_id != member_id:
        raise record_state_error("Member is not the owner of batch record")


def _end_of_batch(fetched: Sequence[Span], offset: int) -> int:
    """Return the last offset of the record batch with ``offset``, or ``offset`` without one."""
    for span in fetched:
        if span.first <= offset <= span.last:
            return span.last
    return offset


def _cut(
    fetched: Sequence[Span], first: int, last: int, acquisition: _Acquisition
) -> Iterator[Span]:
    """Cut offsets at the ends of record batches, into spans of about ``batch_size`` or more."""
    size = acquisition.demand.batch_size
    if not acquisition.is_limited and last - first + 1 > size:
        for span in fetched:
            if span.first > last:
                break
            if span.first - first >= size:
                yield Span(first, span.first - 1)
                first = span.first
    yield Span(first, last)


def _joined(singles: Sequence[Acquired]) -> list[Acquired]:
    """Join records that follow each other and have the same delivery count."""
    joined: list[Acquired] = []
    for row in singles:
        if joined:
            before = joined[-1]
            if (
                before.last_offset + 1 == row.first_offset
                and before.delivery_count == row.delivery_count
            ):
                joined[-1] = before._replace(last_offset=row.last_offset)
                continue
        joined.append(row)
    return joined


def without_spans(acquired: Sequence[Acquired], spans: Sequence[Span]) -> list[Acquired]:
    """Return the acquired records without those of ``spans``, which are sorted."""
    rest: list[Acquired] = []
    for row in acquired:
        first = row.first_offset
        for span in spans:
            if span.last < first or span.first > row.last_offset:
                continue
            if span.first > first:
                rest.append(row._replace(first_offset=first, last_offset=span.first - 1))
            first = span.last + 1
        if first <= row.last_offset:
            rest.append(row._replace(first_offset=first))
    return rest
