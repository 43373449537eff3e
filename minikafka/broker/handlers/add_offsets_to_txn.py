"""AddOffsetsToTxn (key 25): the offsets of a group are going to be committed in a transaction."""

from __future__ import annotations

from collections.abc import Callable

from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.transaction_coordination import TransactionCoordination, as_known_to
from minikafka.core.transaction.facts import ProducerIdAndEpoch
from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, TopicPartition
from minikafka.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)


class AddOffsetsToTxnHandler:
    """An ImmediateHandler: what is added is the group's partition of ``__consumer_offsets``, which
    ``partition_for`` tells."""

    def __init__(
        self, transactions: TransactionCoordination, partition_for: Callable[[str], int]
    ) -> None:
        self._transactions = transactions
        self._partition_for = partition_for

    def __call__(
        self, context: RequestContext, request: AddOffsetsToTxnRequest, reply: Reply
    ) -> None:
        version = context.version
        where = TopicPartition(GROUP_METADATA_TOPIC, self._partition_for(request.group_id))
        self._transactions.add_partitions(
            request.transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            [where],
            lambda error: reply(AddOffsetsToTxnResponse(error_code=as_known_to(version, error))),
        )
