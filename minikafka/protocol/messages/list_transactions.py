"""ListTransactions (key 66): the transactional ids that a broker coordinates."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import (
    LOOK_UPS,
    In,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class ListTransactionsRequest(Message):
    """Empty filters take everything. ``duration_filter``: open for longer than so many
    milliseconds; -1 for all. ``transactional_id_pattern``: a regular expression of RE2, which must
    match the whole id; None or empty for all (KIP-1152)."""

    SPEC = request(ApiKey.LIST_TRANSACTIONS, WHOLE, max_elements=LOOK_UPS)

    state_filters: list[String] = field(default_factory=list)
    producer_id_filters: list[Int64] = field(default_factory=list)
    duration_filter: Annotated[Int64, In("1+")] = -1
    transactional_id_pattern: Annotated[String | None, In("2+")] = None


@dataclass(slots=True)
class ListedTransaction:
    """One transactional id. Kafka: ``TransactionState``."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


@dataclass(slots=True)
class ListTransactionsResponse(Message):
    """``unknown_state_filters``: of those asked for, the ones that are no states."""

    SPEC = response(ApiKey.LIST_TRANSACTIONS)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = field(default_factory=list)
    transaction_states: list[ListedTransaction] = field(default_factory=list)
