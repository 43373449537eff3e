"""EndTxn (key 26): a producer commits or aborts its transaction."""

from __future__ import annotations

from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.transaction_coordination import TransactionCoordination, as_known_to
from minikafka.core.transaction.facts import ProducerIdAndEpoch
from minikafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse


class EndTxnHandler:
    """An ImmediateHandler."""

    def __init__(self, transactions: TransactionCoordination) -> None:
        self._transactions = transactions

    def __call__(self, context: RequestContext, request: EndTxnRequest, reply: Reply) -> None:
        version = context.version
        self._transactions.end(
            request.transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            request.committed,
            lambda error: reply(EndTxnResponse(error_code=as_known_to(version, error))),
        )
