"""EndTxn (key 26): commit or abort a transaction."""

from __future__ import annotations

from minikafka.core.transaction.result import ProducerResult
from minikafka.core.transaction.transaction import EPOCH_OF_EACH_TRANSACTION
from minikafka.kernel.cluster import ProducerIdAndEpoch
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import Admitted, before
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.apis.transactions.transactional_id import as_known_to, may_write
from minikafka.server.broker.ports import TransactionCoordination
from minikafka.server.broker.quotas import Quota

FIRST_VERSION_WITH_EPOCHS = 5


class EndTxnHandler:
    """Serves EndTxn (an ``ImmediateHandler``).

    From version 5 on the producer uses transactions of version 2 (KIP-890)."""

    def __init__(self, transactions: TransactionCoordination) -> None:
        self._transactions = transactions

    def __call__(self, context: RequestContext, request: EndTxnRequest, reply: Reply) -> None:
        version = context.version

        def respond(ended: ProducerResult) -> None:
            error = as_known_to(version, ended.error)
            reply(EndTxnResponse(0, error, ended.producer_id, ended.producer_epoch))

        self._transactions.end(
            request.transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            request.committed,
            EPOCH_OF_EACH_TRANSACTION if version >= FIRST_VERSION_WITH_EPOCHS else 0,
            respond,
        )


async def _admit_end(
    authorization: Authorization, context: RequestContext, request: EndTxnRequest
) -> Admitted:
    if may_write(authorization, context, request.transactional_id):
        return Admitted(request)
    return Admitted(
        None, response=EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    )


END_TXN = Api(
    key=ApiKey.END_TXN,
    handler=lambda broker: EndTxnHandler(broker.transactions),
    task=False,
    authorization=before(_admit_end),
    quota=Quota.REQUESTS,
    changes_state=True,
)
