"""The evidence of a finding: what happened to a transaction and its records, in order of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
    places = ", ".join(
        f"{record.number} to partition {partition}" + (f" offset {offset}" if offset >= 0 else "")
        for record, partition, offset in transaction.records
    )
    yield (
        transaction.begun_ms,
        f"{name} begun by producer {own.number} ({own.transactional_id}); records {places}",
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
            for seen in reading.seen(partition):
                if seen.id is not None and seen.id.producer == transaction.number:
                    where = f"partition {partition} offset {seen.offset}"
                    text = f"{reading.name} sees record {seen.id.number} at {where}"
                    yield seen.at_ms, f"transaction {transaction.number}: {text}"
