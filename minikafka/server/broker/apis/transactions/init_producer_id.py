"""InitProducerId (key 22): the producer id and epoch of a producer."""

from __future__ import annotations

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.core.transaction.transaction import NO_EPOCH, NO_PRODUCER_ID
from minikafka.kernel.cluster import ProducerIdAndEpoch
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import Admitted, before
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.transactions.transactional_id import (
    FIRST_VERSION_WITH_PRODUCER_FENCED,
    NO_PRODUCER,
    as_known_to,
    may_write,
)
from minikafka.server.broker.ports import TransactionCoordination
from minikafka.server.broker.quotas import Quota


class InitProducerIdHandler:
    """Serves InitProducerId (a ``TaskHandler``)."""

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


async def _admit_init(
    authorization: Authorization, context: RequestContext, request: InitProducerIdRequest
) -> Admitted:
    """An idempotent producer needs IDEMPOTENT_WRITE on the cluster, or WRITE on any topic
    (KIP-679)."""
    error = ErrorCode.NONE
    if request.transactional_id is not None:
        if not may_write(authorization, context, request.transactional_id):
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not authorization.on_cluster(
        context, AclOperation.IDEMPOTENT_WRITE, log_if_denied=False
    ) and not authorization.on_any(context, AclOperation.WRITE, AclResourceType.TOPIC):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if error is ErrorCode.NONE:
        return Admitted(request)
    refusal = InitProducerIdResponse(0, error, NO_PRODUCER, NO_PRODUCER)
    return Admitted(None, response=refusal)


INIT_PRODUCER_ID = Api(
    key=ApiKey.INIT_PRODUCER_ID,
    handler=lambda broker: InitProducerIdHandler(broker.transactions),
    task=True,
    authorization=before(_admit_init),
    quota=Quota.REQUESTS,
    changes_state=True,
)
