"""AddOffsetsToTxn (key 25): add the offsets of a group to a transaction."""

from __future__ import annotations

from collections.abc import Callable

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, ProducerIdAndEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import Admitted, before
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.apis.transactions.transactional_id import as_known_to, may_write
from minikafka.server.broker.ports import TransactionCoordination
from minikafka.server.broker.quotas import Quota


class AddOffsetsToTxnHandler:
    """Serves AddOffsetsToTxn (an ``ImmediateHandler``).

    It adds the group's partition of ``__consumer_offsets`` to the transaction. ``partition_for``
    returns that partition for a group id."""

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
            0,  # clients of later versions of transactions do not send it
            lambda error: reply(AddOffsetsToTxnResponse(error_code=as_known_to(version, error))),
        )


async def _admit_offsets(
    authorization: Authorization, context: RequestContext, request: AddOffsetsToTxnRequest
) -> Admitted:
    error = ErrorCode.NONE
    if not may_write(authorization, context, request.transactional_id):
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not authorization.is_allowed(
        context, AclOperation.READ, AclResourceType.GROUP, request.group_id
    ):
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if error is ErrorCode.NONE:
        return Admitted(request)
    return Admitted(None, response=AddOffsetsToTxnResponse(error_code=error))


ADD_OFFSETS_TO_TXN = Api(
    key=ApiKey.ADD_OFFSETS_TO_TXN,
    handler=lambda broker: AddOffsetsToTxnHandler(broker.transactions, broker.groups.partition_for),
    task=False,
    authorization=before(_admit_offsets),
    quota=Quota.REQUESTS,
    changes_state=True,
)
