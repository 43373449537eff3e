"""The transactions of one log that readers of committed records have to wait for.

Kafka: ``ongoingTxns`` and ``unreplicatedTxns`` of ``ProducerStateManager``.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class EndedTransaction(NamedTuple):
    """From its first batch to its marker, both inclusive."""

    first_offset: int
    marker_offset: int


class OpenTransactions:
    """A transaction holds readers back from its first offset on, A: while it is ongoing; B: until
    its marker is committed, that is, below the high watermark: before that, a new leader may not
    have the marker.

    ``first_unstable_offset``: the first offset held back; None when there is none.
    ``unreplicated``: transactions in state B, in the order of their markers, without those that
    began later and end sooner than another: that one holds readers back in their place. So the
    first offsets rise too, the first of them is the lowest, and nothing here looks at all of them.
    """

    __slots__ = ("_ongoing", "first_unstable_offset", "unreplicated")

    def __init__(self) -> None:
        self.first_unstable_offset: int | None = None
        self.unreplicated: deque[EndedTransaction] = deque()
        self._ongoing: list[int] = []  # first offsets, rising

    @property
    def ongoing(self) -> tuple[int, ...]:
        """The first offsets of transactions in state A, rising."""
        return tuple(self._ongoing)

    @property
    def first_ongoing(self) -> int | None:
        """The offset where the first transaction in state A begins."""
        return self._ongoing[0] if self._ongoing else None

    def begin(self, first_offset: int) -> None:
        insort(self._ongoing, first_offset)
        self._look()

    def end(self, first_offset: int, marker_offset: int) -> None:
        """A marker was appended for the transaction that began at ``first_offset``."""
        index = bisect_left(self._ongoing, first_offset)
        assert self._ongoing[index : index + 1] == [first_offset], "a transaction that never began"
        del self._ongoing[index]
        unreplicated = self.unreplicated
        while unreplicated and unreplicated[-1].first_offset > first_offset:
            unreplicated.pop()
        unreplicated.append(EndedTransaction(first_offset, marker_offset))

    def committed_up_to(self, high_watermark: int) -> None:
        """All below ``high_watermark`` is committed."""
        unreplicated = self.unreplicated
        while unreplicated and unreplicated[0].marker_offset < high_watermark:
            unreplicated.popleft()
            self._look()

    def load(self, first_offsets: Iterable[int]) -> None:
        """Take over the ongoing transactions of a snapshot."""
        self._ongoing = sorted(first_offsets)
        self.unreplicated.clear()
        self._look()

    def take_over(self, other: OpenTransactions) -> None:
        """Be what ``other``, which is used no more, is."""
        self._ongoing = other._ongoing
        self.unreplicated = other.unreplicated
        self._look()

    def _look(self) -> None:
        ongoing, unreplicated = self._ongoing, self.unreplicated
        first = ongoing[0] if ongoing else None
        if unreplicated and (first is None or unreplicated[0].first_offset < first):
            first = unreplicated[0].first_offset
        self.first_unstable_offset = first
