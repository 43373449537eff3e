"""DescribeTransactions (key 65): the state of transactional ids (KIP-664)."""

from __future__ import annotations

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import Serve, around
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.ports import TransactionCoordination
from minikafka.server.broker.quotas import Quota


class DescribeTransactionsHandler:
    """Serves DescribeTransactions (an ``ImmediateHandler``)."""

    def __init__(self, transactions: TransactionCoordination) -> None:
        self._transactions = transactions

    def __call__(
        self, context: RequestContext, request: DescribeTransactionsRequest, reply: Reply
    ) -> None:
        states = [self._transactions.describe(name) for name in request.transactional_ids]
        reply(DescribeTransactionsResponse(transaction_states=states))


async def _filter_description(
    authorization: Authorization,
    context: RequestContext,
    request: DescribeTransactionsRequest,
    serve: Serve,
) -> DescribeTransactionsResponse:
    """Topics that the principal may not describe are left out of a transaction."""
    names = request.transactional_ids
    allowed = await authorization.allowed(
        context, AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, names
    )
    request.transactional_ids = [name for name in names if name in allowed]
    response: DescribeTransactionsResponse = await serve(request)
    topics = [topic.topic for state in response.transaction_states for topic in state.topics]
    visible = await authorization.allowed(
        context, AclOperation.DESCRIBE, AclResourceType.TOPIC, topics
    )
    for state in response.transaction_states:
        state.topics = [topic for topic in state.topics if topic.topic in visible]
    served = iter(response.transaction_states)
    response.transaction_states = [
        next(served)
        if name in allowed
        else TransactionState(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, name)
        for name in names
    ]
    return response


DESCRIBE_TRANSACTIONS = Api(
    key=ApiKey.DESCRIBE_TRANSACTIONS,
    handler=lambda broker: DescribeTransactionsHandler(broker.transactions),
    task=False,
    authorization=around(_filter_description),
    quota=Quota.REQUESTS,
    changes_state=False,
)
