"""ControlledShutdown: the responses of the controller, on the wire."""

from typing import Any, cast

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from minikafka.server.broker.apis.brokers.controlled_shutdown import ControlledShutdownHandler


class Controller:
    def __init__(self, result: Any) -> None:
        self.result = result
        self.asked: list[Any] = []

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> Any:
        self.asked.append((broker_id, broker_epoch))
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.mark.mission("CSH-11")
async def test_partitions_that_the_broker_still_leads_are_returned() -> None:
    controller = Controller([TopicPartition("t", 3)])
    handler = ControlledShutdownHandler(cast(Any, controller))
    response = await handler(
        cast(Any, None), ControlledShutdownRequest(broker_id=2, broker_epoch=77)
    )
    assert controller.asked == [(2, 77)]
    assert response == ControlledShutdownResponse(remaining_partitions=[RemainingPartition("t", 3)])


async def test_a_refusal() -> None:
    handler = ControlledShutdownHandler(
        cast(Any, Controller(KafkaError(ErrorCode.STALE_BROKER_EPOCH)))
    )
    response = await handler(
        cast(Any, None), ControlledShutdownRequest(broker_id=2, broker_epoch=1)
    )
    assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert response.remaining_partitions == []
