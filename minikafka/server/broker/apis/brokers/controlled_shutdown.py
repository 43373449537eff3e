"""ControlledShutdown (key 7): the controller moves the leaderships of a broker that stops."""

from __future__ import annotations

from minikafka.core.security.acls import AclOperation
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from minikafka.server.broker.apis.api import Api, Senders
from minikafka.server.broker.apis.guards import needs
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.ports import Controller
from minikafka.server.broker.quotas import Quota


class ControlledShutdownHandler:
    """Serves ControlledShutdown (a ``TaskHandler``).

    It waits for the event in the controller's queue."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def __call__(
        self, context: RequestContext, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        try:
            remaining = await self._controller.controlled_shutdown(
                request.broker_id, request.broker_epoch
            )
        except KafkaError as error:
            return ControlledShutdownResponse(error_code=error.code)
        return ControlledShutdownResponse(
            remaining_partitions=[
                RemainingPartition(topic_name=tp.topic, partition_index=tp.partition)
                for tp in remaining
            ]
        )


CONTROLLED_SHUTDOWN = Api(
    key=ApiKey.CONTROLLED_SHUTDOWN,
    handler=lambda broker: ControlledShutdownHandler(broker.controller),
    task=True,
    authorization=needs(AclOperation.CLUSTER_ACTION),
    quota=Quota.EXEMPT,
    changes_state=False,
    senders=Senders.BROKERS,
)
