"""Producer ids, generated from blocks that this broker reserves in ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import CoordinationError
from minikafka.zookeeper.errors import MalformedZnode
from minikafka.zookeeper.store import ZkStore


class ProducerIds:
    """Generates producer ids (Kafka's ``ZkProducerIdManager``).

    As in Kafka, the unused rest of a block is lost at shutdown."""

    def __init__(
        self,
        store: Callable[[], ZkStore],
        broker_id: int,
        log: EventLog | None = None,
    ) -> None:
        self._store = store
        self._broker_id = broker_id
        self._log = log or event_log("producer-ids", broker=broker_id)
        self._next = 0
        self._end = 0
        self._allocation: asyncio.Event | None = None  # set when the current allocation ends

    async def generate(self) -> int:
        """Return an id that no other producer has. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS),
        which clients retry, if no block can be reserved in ZooKeeper."""
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
            block = await self._store().allocate_producer_ids(self._broker_id)
        except (CoordinationError, MalformedZnode) as error:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, repr(error)) from error
        except OverflowError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        finally:
            self._allocation = None
            allocation.set()
        self._next, self._end = block.start, block.stop
        self._log.info("producer_id_block_allocated", first=block.start, last=block.stop - 1)
