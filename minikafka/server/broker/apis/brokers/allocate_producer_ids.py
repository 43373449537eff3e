"""AllocateProducerIds (key 67): a broker gets a block of producer ids (KIP-730)."""

from __future__ import annotations

from minikafka.core.security.acls import AclOperation
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from minikafka.server.broker.apis.api import Api, Senders
from minikafka.server.broker.apis.guards import needs
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.ports import Controller
from minikafka.server.broker.quotas import Quota


class AllocateProducerIdsHandler:
    """Serves AllocateProducerIds (a ``TaskHandler``).

    It waits for the event in the controller's queue."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def __call__(
        self, context: RequestContext, request: AllocateProducerIdsRequest
    ) -> AllocateProducerIdsResponse:
        try:
            block = await self._controller.allocate_producer_ids(
                request.broker_id, request.broker_epoch
            )
        except KafkaError as error:
            return AllocateProducerIdsResponse(error_code=error.code)
        return AllocateProducerIdsResponse(
            producer_id_start=block.start, producer_id_len=len(block)
        )


ALLOCATE_PRODUCER_IDS = Api(
    key=ApiKey.ALLOCATE_PRODUCER_IDS,
    handler=lambda broker: AllocateProducerIdsHandler(broker.controller),
    task=True,
    authorization=needs(AclOperation.CLUSTER_ACTION),
    quota=Quota.REQUESTS,
    changes_state=False,
    senders=Senders.BROKERS,
)
