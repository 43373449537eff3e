"""ControlledShutdown (key 7), answered by the controller."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from minikafka.broker.context import RequestContext
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)


class ShutdownController(Protocol):
    def controlled_shutdown(
        self, broker_id: int, broker_epoch: int
    ) -> Awaitable[list[TopicPartition]]:
        """The replicated partitions that the broker still leads. Raises ``KafkaError``."""
        ...


class ControlledShutdownHandler:
    """A TaskHandler: it waits for the controller's event queue. Broker epoch -1 means unknown."""

    def __init__(self, controller: ShutdownController) -> None:
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
