"""Producer ids out of blocks."""

import asyncio
from typing import Any, cast

import pytest

from minikafka.broker.producer_ids import ProducerIds
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import SessionExpired


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


async def test_ids_are_taken_one_by_one() -> None:
    blocks = Blocks(3)
    ids = ProducerIds(cast(Any, lambda: blocks), 1)
    assert [await ids.generate() for _ in range(7)] == list(range(7))
    assert blocks.given == 3


async def test_many_at_once_share_the_blocks() -> None:
    blocks = Blocks(3)
    ids = ProducerIds(cast(Any, lambda: blocks), 1)
    taken = await asyncio.gather(*(ids.generate() for _ in range(8)))
    assert sorted(taken) == list(range(8))
    assert blocks.given == 3


async def test_without_zookeeper_clients_come_again() -> None:
    blocks = Blocks(3)
    ids = ProducerIds(cast(Any, lambda: blocks), 1)
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
        await ProducerIds(cast(Any, lambda: blocks), 1).generate()
