"""The transactions of one log that hold back the last stable offset.

Kafka: ``ongoingTxns`` and ``unreplicatedTxns`` of ``ProducerStateManager``.

An aborted transaction is an entry of its segment's transaction index (Kafka's ``AbortedTxn``):

    version i16 | producerId i64 | firstOffset i64 | lastOffset i64 | lastStableOffset i64
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple


class EndedTransaction(NamedTuple):
    """The offsets of the first batch and of the marker of an ended transaction."""

    first_offset: int
    marker_offset: int


class OpenTransactions:
    """Consumers with ``read_committed`` may not read from a transaction's first offset on,

    A. while the transaction is ongoing: its marker has not been appended;
    B. while its marker is not below the high watermark, because a new leader may not have it.

    ``first_unstable_offset`` is the lowest first offset of these transactions, None if there are
    none. ``unreplicated`` are the transactions in state B by increasing marker offset. One is left
    out if another one began before it and ended after it, because that one holds back the same
    offsets. So the first offsets increase, too, and the first entry has the lowest one.
    """

    __slots__ = ("_ongoing", "first_unstable_offset", "unreplicated")

    def __init__(self) -> None:
        self.first_unstable_offset: int | None = None
        self.unreplicated: deque[EndedTransaction] = deque()
        self._ongoing: list[int] = []  # first offsets in increasing order

    @property
    def ongoing(self) -> tuple[int, ...]:
        """The first offsets of the transactions in state A, in increasing order."""
        return tuple(self._ongoing)

    @property
    def first_ongoing(self) -> int | None:
        """The lowest first offset of the transactions in state A, None if there are none."""
        return self._ongoing[0] if self._ongoing else None

    def begin(self, first_offset: int) -> None:
        insort(self._ongoing, first_offset)
        self._look()

    def end(self, first_offset: int, marker_offset: int) -> None:
        """Note that a marker was appended for the transaction that began at ``first_offset``."""
        index = bisect_left(self._ongoing, first_offset)
        assert self._ongoing[index : index + 1] == [first_offset], (
            "no transaction is open at this first offset"
        )
        del self._ongoing[index]
        unreplicated = self.unreplicated
        while unreplicated and unreplicated[-1].first_offset > first_offset:
            unreplicated.pop()
        unreplicated.append(EndedTransaction(first_offset, marker_offset))

    def committed_up_to(self, high_watermark: int) -> None:
        """Remove the transactions whose markers are below ``high_watermark``."""
        unreplicated = self.unreplicated
        while unreplicated and unreplicated[0].marker_offset < high_watermark:
            unreplicated.popleft()
            self._look()

    def load(self, first_offsets: Iterable[int]) -> None:
        """Replace all transactions by the ongoing ones of a snapshot, given by first offset."""
        self._ongoing = sorted(first_offsets)
        self.unreplicated.clear()
        self._look()

    def take_over(self, other: OpenTransactions) -> None:
        """Take over the transactions of ``other``, which is discarded."""
        self._ongoing = other._ongoing
        self.unreplicated = other.unreplicated
        self._look()

    def _look(self) -> None:
        ongoing, unreplicated = self._ongoing, self.unreplicated
        first = ongoing[0] if ongoing else None
        if unreplicated and (first is None or unreplicated[0].first_offset < first):
            first = unreplicated[0].first_offset
        self.first_unstable_offset = first


VERSION: Final = 0
ENTRY: Final = Struct(">hqqqq")
ENTRY_BYTES: Final = 34
assert ENTRY.size == ENTRY_BYTES


class AbortedTxn(NamedTuple):
    """An aborted transaction: its records from ``first_offset`` to its marker at ``last_offset``.

    ``last_stable_offset`` is the log's last stable offset after the marker was appended. No earlier
    entry of the index covers an offset from there on, which ends a search.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
