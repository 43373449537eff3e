"""AddPartitionsToTxn (key 24): add partitions to a transaction of a client.

Brokers add to several at once, or verify that partitions are in one (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.core.transaction.transaction import EPOCH_OF_EACH_TRANSACTION
from minikafka.kernel.cluster import INTERNAL_TOPICS, ProducerIdAndEpoch, TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.slices import in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from minikafka.server.broker.apis.api import Api, Senders
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import (
    Admitted,
    ApiGuard,
    TopicRows,
    before,
    knowing,
    split,
)
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.apis.services import Services
from minikafka.server.broker.apis.transactions.transactional_id import as_known_to, may_write
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.ports import TransactionCoordination
from minikafka.server.broker.quotas import Quota

FIRST_VERSION_WITH_MANY = 4  # also the first that brokers send, for transactions of version 2


class AddPartitionsToTxnHandler:
    """Serves AddPartitionsToTxn (an ``ImmediateHandler``).

    All partitions of a transaction are added, or none: if one does not exist the others have
    OPERATION_NOT_ATTEMPTED. As in Kafka, clients cannot add internal topics, whatever they may
    do otherwise."""

    def __init__(self, transactions: TransactionCoordination, cluster: MetadataCache) -> None:
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
        requested = request.transactions
        for place, transaction in enumerate(requested):

            def respond(result: AddPartitionsToTxnResult, place: int = place) -> None:
                results[place] = result
                if len(results) == len(requested):
                    in_order = [results[place] for place in range(len(requested))]
                    reply(AddPartitionsToTxnResponse(results_by_transaction=in_order))

            self._one(version, transaction, respond)
        if not requested:
            reply(AddPartitionsToTxnResponse())

    def _one(
        self,
        version: int,
        transaction: AddPartitionsToTxnTransaction,
        respond: Callable[[AddPartitionsToTxnResult], None],
    ) -> None:
        transactional_id = transaction.transactional_id
        producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
        partitions = list(_partitions(transaction.topics))
        unknown = [tp for tp in partitions if not self._cluster.contains(tp)]
        internal: list[TopicPartition] = []
        if version < FIRST_VERSION_WITH_MANY:
            internal = [tp for tp in partitions if tp.topic in INTERNAL_TOPICS]

        def respond_errors(errors: Mapping[TopicPartition, ErrorCode]) -> None:
            respond(_result(transactional_id, errors))

        if unknown or internal:
            respond_errors(
                {
                    **dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED),
                    **dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    **dict.fromkeys(internal, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
                }
            )
        elif transaction.verify_only:
            respond_errors(
                self._transactions.verify_partitions(transactional_id, producer, partitions)
            )
        else:
            self._transactions.add_partitions(
                transactional_id,
                producer,
                partitions,
                EPOCH_OF_EACH_TRANSACTION if version >= FIRST_VERSION_WITH_MANY else 0,
                lambda error: respond_errors(
                    dict.fromkeys(partitions, as_known_to(version, error))
                ),
            )


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> Iterable[TopicPartition]:
    return (TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)


def _result(
    transactional_id: str, errors: Mapping[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResult:
    rows = (
        (topic, AddPartitionsToTxnPartitionResult(index, error))
        for (topic, index), error in errors.items()
    )
    topics = [AddPartitionsToTxnTopicResult(*of_topic) for of_topic in grouped(rows).items()]
    return AddPartitionsToTxnResult(transactional_id, topics)


def _old_response(result: AddPartitionsToTxnResult) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)


FIRST_VERSION_OF_BROKERS = 4
_ADD = TopicRows(
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnPartitionResult,
    requested="v3_and_below_topics",
    responded="results_by_topic_v3_and_below",
)


def _guard(broker: Services) -> ApiGuard:
    """Return the guard of AddPartitionsToTxn. Version 4 is for brokers. Below, the transactional id
    and the topics need WRITE, and internal topics are refused to everybody. All partitions are
    added, or none."""

    async def admit(
        authorization: Authorization,
        context: RequestContext,
        request: AddPartitionsToTxnRequest,
    ) -> Admitted:
        if context.version >= FIRST_VERSION_OF_BROKERS:
            authorization.require_on_cluster(context, AclOperation.CLUSTER_ACTION)
            return Admitted(request)
        if not may_write(authorization, context, request.v3_and_below_transactional_id):
            return Admitted(
                None,
                response=await _ADD.refuse_all(
                    request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                ),
            )
        topics = request.v3_and_below_topics
        names = [t.name for t in topics for _ in t.partitions if t.name not in INTERNAL_TOPICS]
        allowed = await authorization.allowed(
            context, AclOperation.WRITE, AclResourceType.TOPIC, names
        )
        kept, refused = await split(topics, "name", allowed)
        if not any(topic.partitions for topic in refused):
            return Admitted(request)
        rows = await _ADD.refused(refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        async for topic in in_slices(kept):
            rows.append(_not_attempted(topic))
        response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)
        return Admitted(None, response=response)

    def _not_attempted(
        topic: AddPartitionsToTxnTopic,
    ) -> AddPartitionsToTxnTopicResult:
        return AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(
                    index,
                    ErrorCode.OPERATION_NOT_ATTEMPTED
                    if broker.cache.contains(TopicPartition(topic.name, index))
                    else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
                for index in topic.partitions
            ],
        )

    return before(admit)


ADD_PARTITIONS_TO_TXN = Api(
    key=ApiKey.ADD_PARTITIONS_TO_TXN,
    handler=lambda broker: AddPartitionsToTxnHandler(broker.transactions, broker.cache),
    task=False,
    authorization=knowing(_guard),
    quota=Quota.REQUESTS,
    changes_state=True,
    senders=Senders.CLIENTS_AND_BROKERS,
)
