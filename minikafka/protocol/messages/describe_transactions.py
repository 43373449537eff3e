"""DescribeTransactions (key 65): what a coordinator knows of transactional ids."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Level, Places
from minikafka.protocol.schema import (
    LOOK_UPS,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class DescribeTransactionsRequest(Message):
    """Transactional ids that the receiver coordinates."""

    SPEC = request(
        ApiKey.DESCRIBE_TRANSACTIONS,
        Places(
            (Level("transactional_ids", "", "transactional_id"),),
            (Level("transaction_states", "transactional_id", "transactional_id"),),
        ),
        max_elements=LOOK_UPS,
    )

    transactional_ids: list[String] = field(default_factory=list)


@dataclass(slots=True)
class TopicData:
    """Partitions of one topic that are in the transaction and have no marker yet."""

    topic: String = ""
    partitions: list[Int32] = field(default_factory=list)


@dataclass(slots=True)
class TransactionState:
    """One transactional id. ``transaction_start_time_ms`` -1: no transaction is open."""

    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = field(default_factory=list)


@dataclass(slots=True)
class DescribeTransactionsResponse(Message):
    """One result per transactional id."""

    SPEC = response(ApiKey.DESCRIBE_TRANSACTIONS)

    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = field(default_factory=list)
