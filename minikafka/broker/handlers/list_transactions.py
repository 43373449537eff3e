"""ListTransactions (key 66)."""

from __future__ import annotations

from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.transaction_coordination import TransactionCoordination
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest


class ListTransactionsHandler:
    """An ImmediateHandler."""

    def __init__(self, transactions: TransactionCoordination) -> None:
        self._transactions = transactions

    def __call__(
        self, context: RequestContext, request: ListTransactionsRequest, reply: Reply
    ) -> None:
        reply(
            self._transactions.list_transactions(
                request.state_filters, request.producer_id_filters, request.duration_filter
            )
        )
