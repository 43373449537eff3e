"""The records of ``__transaction_state``, encoded and decoded."""

from __future__ import annotations

from typing import Final

from minikafka.core.transaction.transaction import (
    FLEXIBLE_RECORDS,
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
_STORED_STATES: Final = frozenset(TransactionState) - {
    TransactionState.DEAD,
    TransactionState.PREPARE_EPOCH_FENCE,
}


@dataclass(frozen=True, slots=True)
class TransactionStored:
    """The record of a transactional id; ``facts`` None is its tombstone."""

    transactional_id: str
    facts: TransactionFacts | None


def encode_record(
    record: TransactionStored, transaction_version: int = 0
) -> tuple[bytes, bytes | None]:
    """Encode a record as key and value, as a cluster with this ``transaction.version`` has it.
    Raises EncodeError for a text over 32 KB.

    A producer's next id, and its previous one, are written where they differ. Kafka forgets them
    when another broker becomes the coordinator."""
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
    if transaction_version < FLEXIBLE_RECORDS:
        return key, encode_versioned(value, 0)
    if facts.last_producer_id != facts.producer_id:
        value.previous_producer_id = facts.last_producer_id
    value.next_producer_id = facts.next_producer_id
    value.client_transaction_version = facts.client_version
    return key, encode_versioned(value, 1)


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
        last_producer_id=read.previous_producer_id,
        next_producer_id=read.next_producer_id,
        client_version=read.client_transaction_version,
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
