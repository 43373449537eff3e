"""The records of a share-partition that are in flight, as an operator sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from minikafka.core.share.in_flight import Delivery, RecordState


class InFlightRun(NamedTuple):
    """Offsets from ``first`` to ``last``, both inclusive, whose deliveries are alike. Those that
    are not ``is_written`` return to the member if the share coordinator does not store the change.
    ``locked_until_ms`` is -1 without a lock."""

    first: int
    last: int
    state: RecordState
    member_id: str
    delivery_count: int
    locked_until_ms: int
    is_written: bool


class InFlightSummary(NamedTuple):
    """``records`` are numbers of records by state; ``attempts`` by how often they were acquired,
    without those that need no delivery any more. ``runs`` are the first ones of ``num_runs``."""

    records: Mapping[RecordState, int]
    attempts: Mapping[int, int]
    num_runs: int
    runs: tuple[InFlightRun, ...]
    num_deliveries: int


def in_flight_summary(
    deliveries: Iterable[tuple[int, int, Delivery]], start_offset: int, max_runs: int
) -> InFlightSummary:
    """Summarise the deliveries from ``start_offset`` on, which are given with first and last
    offset."""
    records: Counter[RecordState] = Counter()
    attempts: Counter[int] = Counter()
    runs: list[InFlightRun] = []
    num_runs = num_deliveries = 0
    current: InFlightRun | None = None
    for given_first, last, delivery in deliveries:
        num_deliveries += 1
        if last < start_offset:
            continue
        first = max(given_first, start_offset)
        records[delivery.state] += last - first + 1
        if not delivery.state.is_terminal:
            attempts[delivery.count] += last - first + 1
        run = _run(first, last, delivery)
        if current is not None and run == current._replace(first=current.last + 1, last=last):
            current = current._replace(last=last)
            if num_runs <= max_runs:
                runs[-1] = current
            continue
        current = run
        num_runs += 1
        if num_runs <= max_runs:
            runs.append(run)
    return InFlightSummary(records, attempts, num_runs, tuple(runs), num_deliveries)


def _run(first: int, last: int, delivery: Delivery) -> InFlightRun:
    return InFlightRun(
        first,
        last,
        delivery.state,
        delivery.member_id,
        delivery.count,
        delivery.locked_until_ms,
        delivery.before is None,
    )
