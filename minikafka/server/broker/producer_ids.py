"""Producer ids, generated from blocks that the controller or ZooKeeper allocates to this broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import CoordinationError
from minikafka.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from minikafka.server.broker.node_to_controller import NodeToController
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.store import ZkStore

# Allocates the next block. Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, which clients retry, or
# UNKNOWN_SERVER_ERROR if no ids are left.
AllocateBlock: TypeAlias = Callable[[], Awaitable[range]]

# The client sends InitProducerId again after this time, which is enough for a controller in office.
CONTROLLER_TIMEOUT_MS: Final = 5_000


class ProducerIds:
    """Generates producer ids (Kafka's ``ProducerIdManager``).

    As in Kafka, the unused rest of a block is lost at shutdown."""

    def __init__(
        self, allocate: AllocateBlock, broker_id: int, log: EventLog | None = None
    ) -> None:
        self._allocate_block = allocate
        self._log = log or event_log("producer-ids", broker=broker_id)
        self._next = 0
        self._end = 0
        self._allocation: asyncio.Event | None = None  # set when the current allocation ends

    async def generate(self) -> int:
        """Return an id that no other producer has. Raises as ``AllocateBlock``."""
        while self._next == self._end:
            if self._allocation is None:
                await self._allocate()
            else:
                await self._allocation.wait()
        taken = self._next
        self._next += 1
        return taken

    async def _allocate(self) -> None:
        allocation = self._allocation = asyncio.Event()
        try:
            block = await self._allocate_block()
        finally:
            self._allocation = None
            allocation.set()
        self._next, self._end = block.start, block.stop
        self._log.info("producer_id_block_allocated", first=block.start, last=block.stop - 1)


class ZooKeeperBlocks:
    """Allocates blocks in ZooKeeper (Kafka's ``ZkProducerIdManager``). ``store`` returns the store
    of the current session."""

    def __init__(self, store: Callable[[], ZkStore], broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id

    async def allocate(self) -> range:
        """Allocate the next block (an ``AllocateBlock``)."""
        try:
            return await self._store().allocate_producer_ids(self._broker_id)
        except (CoordinationError, MalformedZnode) as error:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, repr(error)) from error
        except OverflowError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error


class ControllerBlocks:
    """Requests blocks from the controller (Kafka's ``RPCProducerIdManager``), or allocates them
    ``otherwise`` if the controller does not serve AllocateProducerIds."""

    def __init__(
        self,
        controller: NodeToController,
        broker_id: int,
        broker_epoch: Callable[[], int],
        otherwise: AllocateBlock,
    ) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._otherwise = otherwise

    async def allocate(self) -> range:
        """Allocate the next block (an ``AllocateBlock``)."""
        request = AllocateProducerIdsRequest(self._broker_id, self._broker_epoch())
        try:
            response: (
                AllocateProducerIdsResponse | None
            ) = await self._controller.request_if_offered(request, 0, CONTROLLER_TIMEOUT_MS)
        except (ConnectionError, TimeoutError) as error:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
        if response is None:
            return await self._otherwise()
        if response.error_code != ErrorCode.NONE:
            refusal = f"the controller refused: {ErrorCode(response.error_code).name}"
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, refusal)
        first = response.producer_id_start
        return range(first, first + response.producer_id_len)
