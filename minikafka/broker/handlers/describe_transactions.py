"""DescribeTransactions (key 65)."""

from __future__ import annotations

from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.transaction_coordination import TransactionCoordination
from minikafka.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)


class DescribeTransactionsHandler:
    """An ImmediateHandler."""

    def __init__(self, transactions: TransactionCoordination) -> None:
        self._transactions = transactions

    def __call__(
        self, context: RequestContext, request: DescribeTransactionsRequest, reply: Reply
    ) -> None:
        wanted = request.transactional_ids
        states = [self._transactions.describe(transactional_id) for transactional_id in wanted]
        reply(DescribeTransactionsResponse(transaction_states=states))
