"""The evidence of a finding: what happened to a transaction and its records, in order of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from minikafka.testing.verify.transactions.history import (
    NEVER,
    ObservedTransaction,
    TransactionHistory,
)


def evidence(history: TransactionHistory, numbers: Iterable[int]) -> Iterator[str]:
    """Yield lines about these transactions, of all of them in the order of time."""
    events: list[tuple[int, str]] = []
    for number in numbers:
        transaction = history.transactions[number]
        events.extend(_of_producer(history, transaction))
        events.extend(_of_readers(history, transaction))
    for at_ms, text in sorted(events, key=lambda event: event[0]):
        yield f"{at_ms / 1000:.3f} s  {text}"


def _of_producer(
    history: TransactionHistory, transaction: ObservedTransaction
) -> Iterator[tuple[int, str]]:
    own = transaction.incarnation
    name = f"transaction {transaction.number}"
    offsets: dict[int, list[int]] = defaultdict(list)
    for _, partition, offset in transaction.records:
        offsets[partition].append(offset)
    places = "; ".join(f"partition {p}: {_span(each)}" for p, each in sorted(offsets.items()))
    yield (
        transaction.begun_ms,
        f"{name} begun by producer {own.number} ({own.transactional_id}); {places or 'no records'}",
    )
    if transaction.commit_ms != NEVER:
        yield transaction.commit_ms, f"{name}: its commit is requested"
    if transaction.committed_ms != NEVER:
        yield transaction.committed_ms, f"{name}: its commit is acknowledged"
    elif transaction.ended_ms != NEVER:
        yield transaction.ended_ms, f"{name} is given up, {transaction.outcome.value}"
    for other in history.incarnations:
        if other.fences(own) and transaction.begun_ms <= other.ready_ms <= transaction.ended_ms:
            yield other.ready_ms, f"producer {other.number} has taken over {own.transactional_id}"


def _of_readers(
    history: TransactionHistory, transaction: ObservedTransaction
) -> Iterator[tuple[int, str]]:
    for reading in history.readings:
        for partition in sorted(set(transaction.partitions)):
            sightings = [
                seen
                for seen in reading.seen(partition)
                if seen.id is not None and seen.id.producer == transaction.number
            ]
            if sightings:
                where = f"partition {partition}: {_span([seen.offset for seen in sightings])}"
                text = f"transaction {transaction.number}: {reading.name} reads {where}"
                yield sightings[0].at_ms, text


def _span(offsets: Sequence[int]) -> str:
    """Return e.g. "3 at offsets 5 to 9, 1 at no known offset"."""
    known = [offset for offset in offsets if offset >= 0]
    text = f"{len(known)} at offsets {min(known)} to {max(known)}" if known else ""
    unknown = f"{len(offsets) - len(known)} at no known offset" if len(known) < len(offsets) else ""
    return ", ".join(filter(None, (text, unknown)))
