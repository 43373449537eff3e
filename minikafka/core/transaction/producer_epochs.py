"""InitProducerId: which producer may begin, and its producer id and epoch (KIP-360)."""

from __future__ import annotations

from minikafka.core.transaction.transaction import (
    NO_EPOCH,
    Transaction,
    TransactionFacts,
    TransactionState,
    is_exhausted,
)
from minikafka.kernel.cluster import ProducerIdAndEpoch
from minikafka.kernel.errors import ErrorCode


def rotates(facts: TransactionFacts, expected: ProducerIdAndEpoch | None) -> bool:
    """Whether the epochs of the producer id are used up, so that the next producer gets a new
    id."""
    return is_exhausted(facts.producer_epoch) and (
        expected is None or expected.epoch == facts.producer_epoch
    )


def refusal_to_begin(
    transaction: Transaction, expected: ProducerIdAndEpoch | None
) -> ErrorCode | None:
    """None if the producer may begin. ``expected`` is the id and epoch that it names, if any:

    A. The current producer id.
    B. The id before it, whose epochs are used up: a repeated request for a new id.

    While a transaction is open only its own producer may abort it so. (In Kafka a producer of an
    earlier epoch may too: its successor's transaction is aborted before it is fenced.)
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
    """The facts of the new producer, or None if it is fenced. Kafka:
    ``prepareIncrementProducerEpoch``, ``prepareProducerIdRotation``."""
    if rotates(facts, expected):
        assert fresh_id is not None
        return facts.with_producer_id(fresh_id, timeout_ms, now_ms, expected)
    new = facts.producer_epoch == NO_EPOCH
    if expected is None or new or expected.epoch == facts.producer_epoch:
        return facts.with_next_epoch(timeout_ms, now_ms, expected)
    if expected.epoch == facts.last_epoch:
        return facts.repeated(timeout_ms, now_ms)
    return None
