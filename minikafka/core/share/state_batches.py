"""``combined``: merges the stored state batches of a share-partition with those of a change."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from minikafka.core.share.persister import UNINITIALIZED_START_OFFSET, StateBatch

# First and last offset, delivery count, delivery state: batches are compared in this order.
_Ordered: TypeAlias = tuple[int, int, int, int]


def combined(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Return the batches from ``start_offset`` on without overlaps, in the order of their offsets.

    Of two batches that overlap, the one with the higher delivery count wins, and with equal counts
    the one with the higher state. Equal neighbours are merged, except into a batch that was
    complete before its neighbour was split: stored states are Kafka's byte for byte. A
    ``start_offset`` of -1 drops nothing. Kafka: ``PersisterStateBatchCombiner``.
    """
    kept = [_from(batch, start_offset) for batch in batches if batch.last_offset >= start_offset]
    if len(kept) < 2:
        return tuple(kept)
    heap: list[_Ordered] = [_ordered(batch) for batch in kept]
    heapify(heap)
    done: list[_Ordered] = []
    while heap:
        earlier = heappop(heap)
        if not heap or not _meet(earlier, heap[0]):
            done.append(earlier)
            continue
        for piece in _resolved(earlier, heappop(heap)):
            heappush(heap, piece)
    return tuple(StateBatch(first, last, state, count) for first, last, count, state in done)


def _from(batch: StateBatch, start_offset: int) -> StateBatch:
    if start_offset == UNINITIALIZED_START_OFFSET or batch.first_offset >= start_offset:
        return batch
    return batch._replace(first_offset=start_offset)


def _ordered(batch: StateBatch) -> _Ordered:
    return batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state


def _meet(earlier: _Ordered, later: _Ordered) -> bool:
    """Whether two batches overlap, or are equal neighbours."""
    gap = later[0] - earlier[1]
    return gap <= 0 or (gap == 1 and earlier[2:] == later[2:])


def _resolved(earlier: _Ordered, later: _Ordered) -> list[_Ordered]:
    """Return the batches that replace two that meet, of which ``earlier`` is the smaller one."""
    first, last, *_ = earlier
    later_first, later_last, *_ = later
    if earlier[2:] == later[2:]:
        return [(first, max(last, later_last), *earlier[2:])]
    pieces: list[_Ordered] = []
    if later[2:] < earlier[2:]:
        pieces.append(earlier)
        if later_last > last:
            pieces.append((last + 1, later_last, *later[2:]))
        return pieces
    if first < later_first:
        pieces.append((first, later_first - 1, *earlier[2:]))
    pieces.append(later)
    if last > later_last:
        pieces.append((later_last + 1, last, *earlier[2:]))
    return pieces
