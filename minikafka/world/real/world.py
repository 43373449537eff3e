"""The real World: this machine's clock, network, files, ZooKeeper and randomness, on uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

from minikafka.kernel.ports import World
from minikafka.world.real.clock import RealClock
from minikafka.world.real.entropy import RealEntropy
from minikafka.world.real.files import RealFiles
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.zookeeper import RealCoordination

T = TypeVar("T")


def real_world() -> World:
    """The ports of this machine."""
    return World(RealClock(), RealNetwork(), RealFiles(), RealCoordination(), RealEntropy())


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` to its end on a new uvloop event loop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
