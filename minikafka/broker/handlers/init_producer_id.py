"""InitProducerId (key 22): a producer begins, with an id, or with the next epoch of one."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.transaction_coordination import TransactionCoordination, as_known_to
from minikafka.core.transaction.facts import NO_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

FIRST_VERSION_WITH_PRODUCER_FENCED = 4


class InitProducerIdHandler:
    """A TaskHandler."""

    def __init__(self, transactions: TransactionCoordination) -> None:
        self._transactions = transactions

    async def __call__(
        self, context: RequestContext, request: InitProducerIdRequest
    ) -> InitProducerIdResponse:
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        expected = None
        if request.producer_id != NO_PRODUCER_ID:
            expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        begun = await self._transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, expected
        )
        return InitProducerIdResponse(
            error_code=as_known_to(
                context.version, begun.error, FIRST_VERSION_WITH_PRODUCER_FENCED
            ),
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
        )
