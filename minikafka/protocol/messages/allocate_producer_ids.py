"""AllocateProducerIds (key 67): a broker requests a block of producer ids (KIP-730)."""

from __future__ import annotations

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import WHOLE
from minikafka.protocol.schema import ORDINARY, Int16, Int32, Int64, Message, request, response


@dataclass(slots=True)
class AllocateProducerIdsRequest(Message):
    """The broker that wants a block."""

    SPEC = request(ApiKey.ALLOCATE_PRODUCER_IDS, WHOLE, max_elements=ORDINARY)

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


@dataclass(slots=True)
class AllocateProducerIdsResponse(Message):
    """The first id of the block, and how many there are."""

    SPEC = response(ApiKey.ALLOCATE_PRODUCER_IDS)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0
