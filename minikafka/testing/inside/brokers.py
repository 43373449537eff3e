"""The state of one broker inside the process, and the wait for a state of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from minikafka.server.node.broker import BrokerNode
from minikafka.world.inside import InsideProcess
from minikafka.world.memory.file_tree import FileTree

T = TypeVar("T")

POLL_S = 0.001
WAIT_LIMIT_S = 30


class BrokerState:
    """One broker: its disk, and the process that it runs as, if it runs."""

    def __init__(self, broker_id: int, port: int = 0, debug_port: int | None = None) -> None:
        self.broker_id = broker_id
        self.tree = FileTree()
        self.port = port  # 0: the system chooses one at the first start
        self.debug_port = debug_port  # of its debug listener; 0 as above, None: it has none
        self.process: InsideProcess | None = None
        self.node: BrokerNode | None = None
        self.running: asyncio.Task[None] | None = None


async def until(found: Callable[[], T | None], what: str) -> T:
    """Wait until ``found`` returns something other than None or False, and return that. Raises
    TimeoutError, which names ``what``, after ``WAIT_LIMIT_S``."""
    try:
        async with asyncio.timeout(WAIT_LIMIT_S):
            while (result := found()) is None or result is False:  # noqa: ASYNC110 - no event
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise TimeoutError(f"not within {WAIT_LIMIT_S} s: {what}") from None
    return result
