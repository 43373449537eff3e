"""The simulated world as one client sees it, made inside an async test.

``SimWorld`` runs its main program on the loop that it creates, and each host listens for itself.
Here a test decorated with ``jumping`` creates a world on the running loop, and listens as any host.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, cast

from minikafka.kernel.ports import (
    Coordination,
    Files,
    Listener,
    ProtocolFactory,
    TlsOfListener,
    World,
)
from minikafka.kernel.tls import TlsSettings
from minikafka.world.sim.clock import SimClock
from minikafka.world.sim.entropy import SimEntropy
from minikafka.world.sim.links import LinkProfile, Links
from minikafka.world.sim.loop import SimLoop
from minikafka.world.sim.network import Fabric, SimNetwork
from minikafka.world.sim.process import Process
from minikafka.world.sim.trace import Trace
from minikafka.world.sim.world import SimWorkers

CLIENT = "client"


class ClientNetwork(SimNetwork):
    """The network of a client. A host exists, with a process, from its first mention;
    ``connects`` counts the attempts."""

    def __init__(self, loop: SimLoop, entropy: SimEntropy) -> None:
        self.connects = 0
        self.links = Links(loop, entropy.fork("links"), Trace(loop), LinkProfile())
        self._hosts: dict[str, SimNetwork] = {}
        fabric = Fabric(self.links)
        fabric.add_host(CLIENT)
        self.process = Process(loop, CLIENT)
        super().__init__(self.process, fabric)

    def _host(self, name: str) -> SimNetwork:
        if name not in self._hosts:
            self._fabric.add_host(name)
            self._hosts[name] = SimNetwork(Process(self.links.loop, name), self._fabric)
        return self._hosts[name]

    async def listen(
        self,
        factory: ProtocolFactory,
        host: str,
        port: int,
        accept_failed: Callable[[OSError], object] = lambda error: None,
        tls: TlsOfListener | None = None,
    ) -> Listener:
        return await self._host(host).listen(factory, host, port, accept_failed, tls)

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: TlsSettings | None = None
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        self.connects += 1
        self._host(host)
        return await super().connect(factory, host, port, tls)

    async def resolves(self, host: str) -> bool:
        return True


def client_world() -> World:
    """All ports but Files and Coordination, which a client does not use, on the running loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    entropy = SimEntropy("client")
    network = ClientNetwork(loop, entropy)
    clock = SimClock(network.process)
    workers = SimWorkers(clock, entropy.fork("workers"))
    return World(clock, network, cast(Files, None), cast(Coordination, None), entropy, workers)


def jumping(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on the simulated loop: a minute's time-out takes no time."""

    @functools.wraps(test)
    def run(*args: Any, **keywords: Any) -> None:
        loop = SimLoop()
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(test(*args, **keywords))
        raised = [told["exception"] for told in loop.unhandled if "handle" in told]
        if raised:
            raise ExceptionGroup("raised by callbacks", raised)

    return run
