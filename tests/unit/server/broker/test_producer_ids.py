"""Producer ids out of blocks."""

import asyncio
from typing import Any, cast

import pytest

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import SessionExpired
from minikafka.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from minikafka.server.broker.producer_ids import ControllerBlocks, ProducerIds, ZooKeeperBlocks


class Blocks:
    def __init__(self, size: int) -> None:
        self.size = size
        self.given = 0
        self.failing = False

    async def allocate_producer_ids(self, broker_id: int) -> range:
        await asyncio.sleep(0)
        if self.failing:
            raise SessionExpired
        self.given += 1
        return range((self.given - 1) * self.size, self.given * self.size)


def ids_of(blocks: Blocks) -> ProducerIds:
    return ProducerIds(ZooKeeperBlocks(cast(Any, lambda: blocks), 1).allocate, 1)


async def test_ids_are_taken_one_by_one() -> None:
    blocks = Blocks(3)
    ids = ids_of(blocks)
    assert [await ids.generate() for _ in range(7)] == list(range(7))
    assert blocks.given == 3


async def test_many_at_once_share_the_blocks() -> None:
    blocks = Blocks(3)
    ids = ids_of(blocks)
    taken = await asyncio.gather(*(ids.generate() for _ in range(8)))
    assert sorted(taken) == list(range(8))
    assert blocks.given == 3


async def test_without_zookeeper_clients_come_again() -> None:
    blocks = Blocks(3)
    ids = ids_of(blocks)
    blocks.failing = True
    results = await asyncio.gather(*(ids.generate() for _ in range(3)), return_exceptions=True)
    assert all(
        isinstance(r, KafkaError) and r.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        for r in results
    )
    blocks.failing = False
    assert await ids.generate() == 0


async def test_the_error_can_be_tried_again() -> None:
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.retriable
    blocks = Blocks(1)
    blocks.failing = True
    with pytest.raises(KafkaError):
        await ids_of(blocks).generate()


class Controller:
    """Responds with ``response``, or fails with it."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self.requests: list[Any] = []

    async def request_if_offered(self, message: Any, version: int, timeout_ms: int) -> Any:
        self.requests.append((message, version))
        if isinstance(self.response, Exception):
            raise self.response
        return self.response


@pytest.mark.mission("MIX-4")
async def test_a_block_comes_from_the_controller() -> None:
    controller, blocks = Controller(AllocateProducerIdsResponse(0, 0, 7000, 2)), Blocks(3)
    allocate = ControllerBlocks(
        cast(Any, controller), 1, lambda: 55, ZooKeeperBlocks(cast(Any, lambda: blocks), 1).allocate
    ).allocate
    ids = ProducerIds(allocate, 1)
    assert [await ids.generate() for _ in range(2)] == [7000, 7001]
    assert controller.requests == [(AllocateProducerIdsRequest(1, 55), 0)]
    controller.response = None  # a controller without this API
    assert [await ids.generate() for _ in range(2)] == [0, 1]


@pytest.mark.mission("MIX-4")
@pytest.mark.parametrize(
    "response",
    [
        TimeoutError("mute"),
        ConnectionError("away"),
        AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER),
        AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
    ],
)
async def test_without_a_controller_clients_come_again(response: Any) -> None:
    blocks = Blocks(3)
    allocate = ControllerBlocks(
        cast(Any, Controller(response)),
        1,
        lambda: 55,
        ZooKeeperBlocks(cast(Any, lambda: blocks), 1).allocate,
    ).allocate
    with pytest.raises(KafkaError) as raised:
        await ProducerIds(allocate, 1).generate()
    assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert blocks.given == 0
