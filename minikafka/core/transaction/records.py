"""The records of ``__transaction_state``, encoded and decoded."""

from __future__ import annotations

from typing import Final

from minikafka.core.transaction.transaction import (
    STATES_BY_NUMBER,
    TransactionFacts,
    TransactionState,
)
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.buffer import DecodeError
from minikafka.protocol.messages.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from minikafka.protocol.versioned import decode_versioned, encode_versioned, version_of

_KEY_VERSION: Final = 0
_VALUE_VERSION: Final = 0  # as Kafka 3.9 writes it
_STORED_STATES: Final = frozenset(TransactionState) - {
    TransactionState.DEAD,
    TransactionState.PREPARE_EPOCH_FENCE,
}


@dataclass(frozen=True, slots=True)
class TransactionStored:
    """The record of a transactional id; ``facts`` None is its tombstone."""

    transactional_id: str
    facts: TransactionFacts | None


def encode_record(record: TransactionStored) -> tuple[bytes, bytes | None]:
    """Encode a record as key and value. Raises EncodeError for a text over 32 KB."""
    key = encode_versioned(TransactionLogKey(record.transactional_id), _KEY_VERSION)
    facts = record.facts
    if facts is None:
        return key, None
    empty = facts.state is TransactionState.EMPTY
    value = TransactionLogValue(
        facts.producer_id,
        facts.producer_epoch,
        facts.timeout_ms,
        facts.state,
        None if empty else _by_topic(facts.partitions),
        facts.last_update_ms,
        facts.start_ms,
    )
    return key, encode_versioned(value, _VALUE_VERSION)


def decode_record(key: bytes, value: bytes | None) -> TransactionStored | None:
    """Decode a record; None for a key type of a later Kafka.

    Raises DecodeError for malformed bytes and for impossible values.
    """
    if version_of(key) != _KEY_VERSION:
        return None
    transactional_id = decode_versioned(TransactionLogKey, key)[0].transactional_id
    if value is None:
        return TransactionStored(transactional_id, None)
    read, _ = decode_versioned(TransactionLogValue, value)
    state = STATES_BY_NUMBER.get(read.transaction_status)
    if state is None:
        raise DecodeError(f"transaction state {read.transaction_status}")
    facts = TransactionFacts(
        read.producer_id,
        read.producer_epoch,
        read.transaction_timeout_ms,
        state,
        frozenset(
            TopicPartition(of_topic.topic, index)
            for of_topic in read.transaction_partitions or ()
            for index in of_topic.partition_ids
        ),
        read.transaction_last_update_timestamp_ms,
        read.transaction_start_timestamp_ms,
    )
    problem = facts_problem(facts)
    if problem is not None:
        raise DecodeError(problem)
    return TransactionStored(transactional_id, facts)


def facts_problem(facts: TransactionFacts) -> str | None:
    """Return why a record cannot contain these facts, or None.

    Checked before a record is appended, and when one is read.
    """
    if facts.state not in _STORED_STATES:
        return f"transaction state {facts.state.title}"
    if facts.producer_id < 0 or facts.producer_epoch < 0:
        return f"producer {facts.producer_id}, epoch {facts.producer_epoch}"
    return None


def _by_topic(partitions: frozenset[TopicPartition]) -> list[TransactionPartitions]:
    return [TransactionPartitions(*of_topic) for of_topic in grouped(sorted(partitions)).items()]
