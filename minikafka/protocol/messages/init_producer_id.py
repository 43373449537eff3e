"""InitProducerId (key 22): a producer id and epoch for an idempotent producer."""

from __future__ import annotations

from typing import Annotated

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Places
from minikafka.protocol.schema import (
    ORDINARY,
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
class InitProducerIdRequest(Message):
    """Without a transactional id just a fresh producer id."""

    SPEC = request(
        ApiKey.INIT_PRODUCER_ID,
        Places(
            transactional_id="transactional_id", values={"producer_id": -1, "producer_epoch": -1}
        ),
        max_elements=ORDINARY,
    )

    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, In("3+")] = -1
    producer_epoch: Annotated[Int16, In("3+")] = -1


@dataclass(slots=True)
class InitProducerIdResponse(Message):
    """The producer id and its epoch."""

    SPEC = response(ApiKey.INIT_PRODUCER_ID)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
