"""InitProducerId (key 22), as far as idempotent producers need it."""

from __future__ import annotations

from typing import Protocol

from minikafka.broker.context import RequestContext
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

NONE = -1


class ProducerIdManager(Protocol):
    async def generate(self) -> int:
        """Raises KafkaError."""
        ...


class InitProducerIdHandler:
    """A TaskHandler. Without a transactional id every request gets a fresh id with epoch 0, also
    one that names the id it had. Transactional ids need a coordinator, which is not there."""

    def __init__(self, producer_ids: ProducerIdManager) -> None:
        self._producer_ids = producer_ids

    async def __call__(
        self, context: RequestContext, request: InitProducerIdRequest
    ) -> InitProducerIdResponse:
        if (request.producer_id == NONE) != (request.producer_epoch == NONE):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if request.transactional_id == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if request.transactional_id is not None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return InitProducerIdResponse(
            producer_id=await self._producer_ids.generate(), producer_epoch=0
        )
