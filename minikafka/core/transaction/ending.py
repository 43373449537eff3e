"""EndTxn: whether a producer may end its transaction now, has ended it before, or is refused.

The result is the error code of the response, NONE for an end that is repeated, or None if the
transaction may end. Kafka: ``TransactionCoordinator.endTransaction``.
"""

from __future__ import annotations

from minikafka.core.transaction.transaction import (
    EPOCH_OF_EACH_TRANSACTION,
    MAX_EPOCH,
    Transaction,
    TransactionFacts,
    TransactionState,
    is_exhausted,
    prepared,
)
from minikafka.kernel.cluster import ProducerIdAndEpoch
from minikafka.kernel.errors import ErrorCode


def refusal_to_end(
    transaction: Transaction, producer: ProducerIdAndEpoch, committed: bool, client_version: int
) -> ErrorCode | None:
    """Return the error code of EndTxn, NONE if it is repeated, or None if it has to be carried
    out. ``client_version`` is the version of transactions that the producer uses."""
    if client_version >= EPOCH_OF_EACH_TRANSACTION:
        return _refusal_in_version_2(transaction, producer, committed)
    error = refusal_of(transaction, producer)
    if error is not None:
        return error
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.facts.state is TransactionState.ONGOING:
        return None
    return _repeated_end(transaction.facts.state, committed)


def ends_with_new_id(
    transaction: Transaction, producer: ProducerIdAndEpoch, committed: bool, client_version: int
) -> bool:
    """Whether the end needs a new producer id, because the producer's id has no epoch left."""
    return (
        client_version >= EPOCH_OF_EACH_TRANSACTION
        and is_exhausted(transaction.facts.producer_epoch)
        and refusal_to_end(transaction, producer, committed, client_version) is None
    )


def refusal_of(transaction: Transaction, producer: ProducerIdAndEpoch) -> ErrorCode | None:
    """Return the error code for a producer that may not continue the transaction, else None.

    The last epoch is reserved for fencing: no producer has it.
    """
    if transaction.facts.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.facts.producer_epoch != producer.epoch or producer.epoch == MAX_EPOCH:
        return ErrorCode.PRODUCER_FENCED
    return None


def _refusal_in_version_2(
    transaction: Transaction, producer: ProducerIdAndEpoch, committed: bool
) -> ErrorCode | None:
    """Tell a repeated end from the end of the next transaction by the epoch:

    ==============  ======================  =====================
    state           repeated                in the current epoch
    ==============  ======================  =====================
    Ongoing         PRODUCER_FENCED         may end
    Empty           PRODUCER_FENCED         may abort
    Prepare...      CONCURRENT_TRANSACTIONS PRODUCER_FENCED
    Complete...     NONE                    may abort
    ==============  ======================  =====================

    A repeated end for the other outcome, and a commit where only an abort is possible, are refused
    with INVALID_TXN_STATE.
    """
    facts = transaction.facts
    state, rotated = facts.state, _was_given_new_id(facts, producer)
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if producer.producer_id != facts.producer_id and not rotated:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    raised = facts.producer_epoch == producer.epoch + 1
    current = facts.producer_epoch == producer.epoch < MAX_EPOCH
    if state.is_prepared:
        allowed = raised
    elif state in (TransactionState.ONGOING, TransactionState.EMPTY):
        allowed = current
    else:  # the response would give the producer the epoch
        allowed = current or rotated or (raised and facts.producer_epoch < MAX_EPOCH)
    if not allowed:
        return ErrorCode.PRODUCER_FENCED
    if not current:
        return _repeated_end(state, committed)
    if committed and state is not TransactionState.ONGOING:
        return ErrorCode.INVALID_TXN_STATE
    return None


def _was_given_new_id(facts: TransactionFacts, producer: ProducerIdAndEpoch) -> bool:
    """Whether the producer has ended a transaction in the last epoch that its former id had."""
    return (
        producer.producer_id == facts.last_producer_id
        and producer.epoch == MAX_EPOCH - 1
        and facts.producer_epoch == 0
    )


def _repeated_end(state: TransactionState, committed: bool) -> ErrorCode:
    """Return the error code of EndTxn when no transaction is open."""
    complete = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
    if state is complete:
        return ErrorCode.NONE
    return (
        ErrorCode.CONCURRENT_TRANSACTIONS
        if state is prepared(committed)
        else ErrorCode.INVALID_TXN_STATE
    )
