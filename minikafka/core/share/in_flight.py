"""The records of a share-partition that are in flight: the state of each delivery.

Records that were acquired together share one ``Delivery``, until something happens to some of them
alone; then each has its own. Kafka: ``InFlightBatch``, ``InFlightState``.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

NOBODY: Final = ""  # the member of records that are not acquired
UNLOCKED: Final = -1


class RecordState(IntEnum):
    """The states of a record, by their numbers in ``__share_group_state``. Acquired is never
    written."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        return self >= RecordState.ACKNOWLEDGED


class Delivery:
    """The state of records that are delivered together.

    ``count`` is how often they were acquired. ``locked_until_ms`` is when the member loses them.
    While a change is being written, ``before`` is the state and the member to return to if the
    write fails. ``is_archived`` records stay archived whatever becomes of the write.
    """

    __slots__ = ("before", "count", "is_archived", "locked_until_ms", "member_id", "state")

    def __init__(
        self,
        state: RecordState,
        count: int,
        member_id: str = NOBODY,
        locked_until_ms: int = UNLOCKED,
    ) -> None:
        self.state = state
        self.count = count
        self.member_id = member_id
        self.locked_until_ms = locked_until_ms
        self.before: tuple[RecordState, str] | None = None
        self.is_archived = False

    def copy(self) -> Delivery:
        assert self.before is None, "records whose change is being written stay together"
        return Delivery(self.state, self.count, self.member_id, self.locked_until_ms)

    @property
    def is_available(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.before is None

    @property
    def is_settled(self) -> bool:
        """Whether the records need no delivery any more, and that is written."""
        return self.state.is_terminal and self.before is None

    def acquire(self, member_id: str, locked_until_ms: int) -> None:
        assert self.is_available, self.state
        self.state = RecordState.ACQUIRED
        self.count += 1
        self.member_id = member_id
        self.locked_until_ms = locked_until_ms

    def release(self, to: RecordState, limit: int) -> None:
        """End an acquisition. Records that were delivered ``limit`` times become archived instead
        of available."""
        assert self.state is RecordState.ACQUIRED, self.state
        exhausted = to is RecordState.AVAILABLE and self.count >= limit
        self.state = RecordState.ARCHIVED if exhausted else to
        self.member_id = NOBODY

    def begin(self, to: RecordState, limit: int) -> None:
        """Release the records, and remember their state until that is written."""
        assert self.before is None, "one change is written at a time"
        before = self.state, self.member_id
        self.release(to, limit)
        self.before = before

    def complete(self, written: bool, limit: int, now_ms: int) -> None:
        """End the change that ``begin`` has begun. If it is not written, the records are acquired
        as before, unless their lock is over by now."""
        before, self.before = self.before, None
        if written or self.is_archived:
            self.locked_until_ms = UNLOCKED
            return
        assert before is not None
        self.state, self.member_id = before
        if 0 <= self.locked_until_ms <= now_ms:
            self.release(RecordState.AVAILABLE, limit)
            self.locked_until_ms = UNLOCKED

    def archive(self) -> None:
        self.is_archived = True
        self.state = RecordState.ARCHIVED
        self.member_id = NOBODY
        self.locked_until_ms = UNLOCKED


class InFlightBatch:
    """Records from ``first`` to ``last``, both inclusive: all in one ``delivery``, or each in its
    own."""

    __slots__ = ("_delivery", "_of_offsets", "first", "last")

    def __init__(self, first: int, last: int, delivery: Delivery) -> None:
        assert first <= last, (first, last)
        self.first = first
        self.last = last
        self._delivery: Delivery | None = delivery
        self._of_offsets: list[Delivery] = []

    @property
    def delivery(self) -> Delivery | None:
        """The delivery of all records; None if each has its own."""
        return self._delivery

    def __len__(self) -> int:
        return self.last - self.first + 1

    def split(self) -> None:
        """Give each record its own delivery."""
        delivery = self._delivery
        if delivery is not None:
            self._of_offsets = [delivery.copy() for _ in range(len(self))]
            self._delivery = None

    def at(self, offset: int) -> Delivery:
        return self._delivery or self._of_offsets[offset - self.first]

    def between(self, first: int, last: int) -> Iterator[tuple[int, Delivery]]:
        """Iterate over the offsets from ``first`` to ``last`` of a batch that is split."""
        assert self._delivery is None
        start = max(first, self.first)
        rows = self._of_offsets[start - self.first : max(0, last - self.first + 1)]
        yield from enumerate(rows, start)

    def is_within(self, first: int, last: int) -> bool:
        return first <= self.first and self.last <= last

    def parts(self) -> Iterator[tuple[int, int, Delivery]]:
        """Iterate over deliveries, with the first and the last offset of each."""
        if self._delivery is not None:
            yield self.first, self.last, self._delivery
        else:
            for offset, delivery in enumerate(self._of_offsets, self.first):
                yield offset, offset, delivery
