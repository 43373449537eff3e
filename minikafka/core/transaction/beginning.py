"""Which producer may begin with a transactional id, and in which epoch (KIP-360)."""

from __future__ import annotations

from minikafka.core.transaction.facts import (
    NO_EPOCH,
    ProducerIdAndEpoch,
    TransactionFacts,
    is_exhausted,
)
from minikafka.core.transaction.states import TransactionState
from minikafka.core.transaction.transaction import Transaction
from minikafka.kernel.errors import ErrorCode


def rotates(facts: TransactionFacts, expected: ProducerIdAndEpoch | None) -> bool:
    """The epochs of its producer id are used up: the next epoch is the first of another id."""
    return is_exhausted(facts.producer_epoch) and (
        expected is None or expected.epoch == facts.producer_epoch
    )


def refusal_to_begin(
    transaction: Transaction, expected: ProducerIdAndEpoch | None
) -> ErrorCode | None:
    """``expected`` has to be the producer that is known, or the one that it took over from: A. with
    its id. B. with an id whose epochs were used up: its question for a new one is repeated.

    While a transaction is open only its own producer may end it so. (In Kafka one of an earlier
    epoch may, and has its successor's transaction aborted before it is told that it is fenced.)
    """
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    facts = transaction.facts
    if expected is not None and not transaction.is_new:
        is_it = expected.producer_id == facts.producer_id  # A
        was_it = expected.producer_id == facts.last_producer_id
        if not is_it and not (was_it and is_exhausted(expected.epoch)):  # B
            return ErrorCode.PRODUCER_FENCED
        if facts.state is TransactionState.ONGOING and expected.epoch != facts.producer_epoch:
            return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if facts.state.is_prepared else None


def begun(
    facts: TransactionFacts,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    fresh_id: int | None,
    now_ms: int,
) -> TransactionFacts | None:
    """Kafka's ``prepareIncrementProducerEpoch`` and ``prepareProducerIdRotation``. None: fenced."""
    if rotates(facts, expected):
        assert fresh_id is not None
        return facts.with_producer_id(fresh_id, timeout_ms, now_ms, expected)
    new = facts.producer_epoch == NO_EPOCH
    if expected is None or new or expected.epoch == facts.producer_epoch:
        return facts.with_next_epoch(timeout_ms, now_ms, expected)
    if expected.epoch == facts.last_epoch:
        return facts.repeated(timeout_ms, now_ms)
    return None
