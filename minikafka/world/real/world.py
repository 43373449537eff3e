"""The real World: this machine's clock, network, files, ZooKeeper and randomness, and threads for
work that takes longer than the event loop may stand still.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import Any, TypeVar

from minikafka.kernel.ports import CoordinationSession, TimerHandle, World
from minikafka.kernel.zookeeper_security import UNSECURED, CoordinationSecurity
from minikafka.world.real.files import RealFiles
from minikafka.world.real.kerberos import RealKerberos
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.wall_clock import WallClock


class RealClock(WallClock):
    """See ``kernel.ports.Clock``. Timers run on the loop that is running when they are set, in an
    empty context: a timer is not part of the request that happens to set it."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle:
        loop = asyncio.get_running_loop()
        return loop.call_later(delay_ms / 1000, callback, context=Context())

    async def sleep(self, delay_ms: int) -> None:
        await asyncio.sleep(delay_ms / 1000)


class RealEntropy:
    """See ``kernel.ports.Entropy``."""

    def __init__(self) -> None:
        self._dice = random.Random(os.urandom(16))

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def randrange(self, stop: int) -> int:
        return self._dice.randrange(stop)

    def random(self) -> float:
        return self._dice.random()


T = TypeVar("T")

MAX_THREADS = 2  # they share the interpreter with the event loop: more would only slow it down


class RealWorkers:
    """See ``kernel.ports.Workers``. A thread starts with the first work."""

    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        self._threads = ThreadPoolExecutor(max_threads, thread_name_prefix="minikafka-worker")

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)


class Zookeeper:
    """Opens ZooKeeper sessions (``RealCoordination``). The first one imports kazoo, which clients
    do not need."""

    async def open(
        self,
        connect: str,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        security: CoordinationSecurity = UNSECURED,
    ) -> CoordinationSession:
        from minikafka.world.real.zookeeper import RealCoordination

        open_session = RealCoordination().open
        return await open_session(connect, session_timeout_ms, connection_timeout_ms, security)


def real_world() -> World:
    """The ports of this machine."""
    return World(
        RealClock(),
        RealNetwork(),
        RealFiles(),
        Zookeeper(),
        RealEntropy(),
        RealWorkers(),
        RealKerberos(),
    )
