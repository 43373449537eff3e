"""ListTransactions (key 66): the transactional ids that this broker coordinates (KIP-664)."""

from __future__ import annotations

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import Serve, around
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.ports import TransactionCoordination
from minikafka.server.broker.quotas import Quota


class ListTransactionsHandler:
    """Serves ListTransactions (an ``ImmediateHandler``)."""

    def __init__(self, transactions: TransactionCoordination) -> None:
        self._transactions = transactions

    def __call__(
        self, context: RequestContext, request: ListTransactionsRequest, reply: Reply
    ) -> None:
        reply(
            self._transactions.list_transactions(
                request.state_filters,
                request.producer_id_filters,
                request.duration_filter,
                request.transactional_id_pattern,
            )
        )


async def _filter_listing(
    authorization: Authorization,
    context: RequestContext,
    request: ListTransactionsRequest,
    serve: Serve,
) -> ListTransactionsResponse:
    response: ListTransactionsResponse = await serve(request)
    names = [state.transactional_id for state in response.transaction_states]
    allowed = await authorization.allowed(
        context, AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, names
    )
    response.transaction_states = [
        state for state in response.transaction_states if state.transactional_id in allowed
    ]
    return response


LIST_TRANSACTIONS = Api(
    key=ApiKey.LIST_TRANSACTIONS,
    handler=lambda broker: ListTransactionsHandler(broker.transactions),
    task=False,
    authorization=around(_filter_listing),
    quota=Quota.REQUESTS,
    changes_state=False,
)
