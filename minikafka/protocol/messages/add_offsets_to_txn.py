"""AddOffsetsToTxn (key 25): a group whose offsets a transaction is about to commit."""

from __future__ import annotations

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Places
from minikafka.protocol.schema import (
    ORDINARY,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class AddOffsetsToTxnRequest(Message):
    """The transaction, and the group."""

    SPEC = request(
        ApiKey.ADD_OFFSETS_TO_TXN,
        Places(group="group_id", transactional_id="transactional_id"),
        max_elements=ORDINARY,
    )

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@dataclass(slots=True)
class AddOffsetsToTxnResponse(Message):
    """How it went."""

    SPEC = response(ApiKey.ADD_OFFSETS_TO_TXN)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
