"""AddPartitionsToTxn (key 24): producers add partitions, brokers ask whether they were added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minikafka.broker.cluster_view import ClusterView
from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.transaction_coordination import TransactionCoordination, as_known_to
from minikafka.core.transaction.facts import ProducerIdAndEpoch
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FIRST_VERSION_WITH_MANY = 4


class AddPartitionsToTxnHandler:
    """An ImmediateHandler. All partitions of a transaction are added, or none: with one that does
    not exist the others are OPERATION_NOT_ATTEMPTED."""

    def __init__(self, transactions: TransactionCoordination, cluster: ClusterView) -> None:
        self._transactions = transactions
        self._cluster = cluster

    def __call__(
        self, context: RequestContext, request: AddPartitionsToTxnRequest, reply: Reply
    ) -> None:
        version = context.version
        if version < FIRST_VERSION_WITH_MANY:
            transaction = AddPartitionsToTxnTransaction(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
            self._one(version, transaction, lambda result: reply(_old_response(result)))
            return
        results: dict[int, AddPartitionsToTxnResult] = {}
        wanted = request.transactions
        for place, transaction in enumerate(wanted):

            def answer(result: AddPartitionsToTxnResult, place: int = place) -> None:
                results[place] = result
                if len(results) == len(wanted):
                    in_order = [results[place] for place in range(len(wanted))]
                    reply(AddPartitionsToTxnResponse(results_by_transaction=in_order))

            self._one(version, transaction, answer)
        if not wanted:
            reply(AddPartitionsToTxnResponse())

    def _one(self, version: int, transaction: AddPartitionsToTxnTransaction, answer: Reply) -> None:
        transactional_id = transaction.transactional_id
        producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
        partitions = list(_partitions(transaction.topics))
        unknown = [tp for tp in partitions if not self._cluster.contains(tp)]

        def told(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            answer(_result(transactional_id, errors))

        if unknown:
            told(
                {
                    **dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED),
                    **dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                }
            )
        elif transaction.verify_only:
            told(self._transactions.verify_partitions(transactional_id, producer, partitions))
        else:
            self._transactions.add_partitions(
                transactional_id,
                producer,
                partitions,
                lambda error: told(dict.fromkeys(partitions, as_known_to(version, error))),
            )


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> Iterable[TopicPartition]:
    return (TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)


def _result(
    transactional_id: str, errors: Mapping[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResult:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (name, index), error in errors.items():
        topic = topics.setdefault(name, AddPartitionsToTxnTopicResult(name))
        topic.results_by_partition.append(AddPartitionsToTxnPartitionResult(index, error))
    return AddPartitionsToTxnResult(transactional_id, list(topics.values()))


def _old_response(result: AddPartitionsToTxnResult) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)
