"""EndTxn (key 26): a producer commits or aborts its transaction."""

from __future__ import annotations

from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import IN_TRANSACTION
from minikafka.protocol.schema import (
    ORDINARY,
    Bool,
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
class EndTxnRequest(Message):
    """``committed`` False: aborted."""

    SPEC = request(ApiKey.END_TXN, IN_TRANSACTION, max_elements=ORDINARY)

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


@dataclass(slots=True)
class EndTxnResponse(Message):
    """How it went, and from version 5 on the producer's id and epoch in the next transaction."""

    SPEC = response(ApiKey.END_TXN)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, In("5+", ignorable=True)] = -1
    producer_epoch: Annotated[Int16, In("5+", ignorable=True)] = -1
