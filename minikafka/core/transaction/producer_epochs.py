"""InitProducerId: whether a producer may begin, and its producer id and epoch (KIP-360)."""

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
    """Whether the next producer needs a new producer id, because the id has no epoch left."""
    return is_exhausted(facts.producer_epoch) and (
        expected is None or expected.epoch == facts.producer_epoch
    )


def refusal_to_begin(
    transaction: Transaction, expected: ProducerIdAndEpoch | None
) -> ErrorCode | None:
    """Return the error code for a producer that may not begin, else None.

    ``expected`` is the producer id and epoch that the producer names, if any. The id must be one
    of:

    A. The current producer id.
    B. The id before it, if that had no epochs left: the producer repeats its request.

    While a transaction is open, a producer that names another epoch may not abort it. (In Kafka
    it may: the transaction of its successor is aborted before it is fenced.)
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
    """Return the facts of the new producer, or None if it is fenced.

    Kafka: ``prepareIncrementProducerEpoch``, ``prepareProducerIdRotation``.
    """
    if rotates(facts, expected):
        assert fresh_id is not None
        return facts.with_producer_id(fresh_id, timeout_ms, now_ms, expected)
    new = facts.producer_epoch == NO_EPOCH
    if expected is None or new or expected.epoch == facts.producer_epoch:
        return facts.with_next_epoch(timeout_ms, now_ms, expected)
    if expected.epoch == facts.last_epoch:
        return facts.repeated(timeout_ms, now_ms)
    return None
