"""The records of ``__transaction_state``: what the coordinator knows of a transactional id."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.schema import In, Int8, Int16, Int32, Int64, Message, String, data


@dataclass(slots=True)
class TransactionLogKey(Message):
    """The transactional id."""

    SPEC = data("0")

    transactional_id: String = ""


@dataclass(slots=True)
class TransactionPartitions:
    """Partitions of one topic that the transaction has written to."""

    topic: String = ""
    partition_ids: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class TransactionLogValue(Message):
    """Times are milliseconds. ``transaction_status`` numbers Kafka's states of a transaction, from
    0 (Empty) to 7 (PrepareEpochFence); an empty transaction has null for partitions.

    ``next_producer_id`` and ``previous_producer_id`` are set where the last epoch of an id ends
    (KIP-890)."""

    SPEC = data("0-1", flexible="1+")

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: list[TransactionPartitions] | None = field(default_factory=list)
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    previous_producer_id: Annotated[Int64, In("1+", tag=0)] = -1
    next_producer_id: Annotated[Int64, In("1+", tag=1)] = -1
    client_transaction_version: Annotated[Int16, In("1+", tag=2)] = 0
    next_producer_epoch: Annotated[Int16, In("1+", tag=3)] = -1
