"""Ports on the simulated loop for tests of one client: a clock, and a network of one process.

``SimNetwork`` names hosts, each with a process of its own, and draws delays from a seed; here fake
brokers of any name listen in the test's own task and every segment takes the same time.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from minikafka.kernel.ports import Coordination, Files, ProtocolFactory, Workers, World
from minikafka.world.sim.entropy import SimEntropy
from minikafka.world.sim.loop import SimLoop

T = TypeVar("T")

WALL_START_MS = 1_700_000_000_000


class LoopClock:
    """The Clock port on the running loop's time."""

    def monotonic_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000)

    def wall_ms(self) -> int:
        return WALL_START_MS + self.monotonic_ms()

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)

    async def sleep(self, delay_ms: int) -> None:
        await asyncio.sleep(delay_ms / 1000)


class MemoryTransport(asyncio.Transport):
    """One end of a connection in memory. Bytes arrive a moment later, in order."""

    def __init__(self, delay_ms: int) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._delay = delay_ms / 1000
        self._gone = False
        self._arriving: deque[bytes] = deque()  # timers of one moment fire in no set order
        self.peer: MemoryTransport
        self.protocol: asyncio.BufferedProtocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._gone:
            self.peer._arriving.append(bytes(data))
            self._loop.call_later(self._delay, self.peer.receive)

    def receive(self) -> None:
        data = self._arriving.popleft()
        while data and not self._gone:
            buffer = self.protocol.get_buffer(-1)
            count = min(len(cast(memoryview, buffer)), len(data))
            cast(memoryview, buffer)[:count] = data[:count]
            data = data[count:]
            self.protocol.buffer_updated(count)

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._gone:
            self._gone = True
            self._loop.call_soon(self.protocol.connection_lost, None)
            self._loop.call_later(self._delay, self.peer.hang_up)

    def hang_up(self) -> None:
        if not self._gone:
            self._gone = True
            self.protocol.connection_lost(None)

    def is_closing(self) -> bool:
        return self._gone

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("memory", 0) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        raise NotImplementedError

    def resume_reading(self) -> None:
        raise NotImplementedError


class _Listener:
    def __init__(self, network: MemoryNetwork, address: tuple[str, int]) -> None:
        self._network = network
        self._address = address
        self.port = address[1]

    def close(self) -> None:
        self._network.listeners.pop(self._address, None)


class MemoryNetwork:
    """The Network port between protocols of one loop."""

    def __init__(self, delay_ms: int = 1) -> None:
        self.listeners: dict[tuple[str, int], ProtocolFactory] = {}
        self.connects = 0
        self._delay_ms = delay_ms

    async def listen(self, factory: ProtocolFactory, host: str, port: int) -> _Listener:
        self.listeners[(host, port)] = factory
        return _Listener(self, (host, port))

    def descriptor_limit(self) -> int:
        return 2**31 - 1

    async def resolves(self, host: str) -> bool:
        return True

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        self.connects += 1
        await asyncio.sleep(self._delay_ms / 1000)
        accept = self.listeners.get((host, port))
        if accept is None:
            raise ConnectionRefusedError(f"{host}:{port}")
        near, far = MemoryTransport(self._delay_ms), MemoryTransport(self._delay_ms)
        near.peer, far.peer = far, near
        near.protocol, far.protocol = factory(), accept()
        far.protocol.connection_made(far)
        near.protocol.connection_made(near)
        return near, near.protocol


def memory_world() -> World:
    """Clock, network and entropy; no files, no coordination."""
    return World(
        LoopClock(),
        MemoryNetwork(),
        cast(Files, None),
        cast(Coordination, None),
        SimEntropy("test"),
        cast(Workers, None),
    )


def run_jumping(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(main)


def jumping(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on the simulated loop: a minute's time-out takes no time."""

    @functools.wraps(test)
    def run(*args: Any, **keywords: Any) -> None:
        run_jumping(test(*args, **keywords))

    return run
