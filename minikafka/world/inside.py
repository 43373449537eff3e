"""The World inside a process: this machine's clock and network, files and ZooKeeper in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from minikafka.kernel.ports import (
    ConnectionLost,
    CoordinationSession,
    Listener,
    ProtocolFactory,
    TlsOfListener,
    World,
)
from minikafka.kernel.tls import TlsSettings
from minikafka.kernel.zookeeper_security import UNSECURED, CoordinationSecurity
from minikafka.world.memory.coordination import MemoryZookeeper
from minikafka.world.memory.file_tree import FileTree
from minikafka.world.memory.files import MemoryFiles
from minikafka.world.memory.links import ClusterLinks, LinkEnd
from minikafka.world.memory.pausable_clock import PausableClock
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.world import RealClock, RealEntropy, RealWorkers


class InsideNetwork(RealNetwork):
    """Knows the connections that it has made, since no kernel closes them if a broker is killed."""

    def __init__(self) -> None:
        self._transports: list[asyncio.Transport] = []

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: TlsSettings | None = None
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        transport, protocol = await super().connect(factory, host, port, tls)
        self._keep(transport)
        return transport, protocol

    def _keep(self, transport: asyncio.Transport) -> None:
        self._transports = [each for each in self._transports if not each.is_closing()]
        self._transports.append(transport)

    def abort_all(self) -> None:
        for transport in self._transports:
            transport.abort()


class LinkedNetwork(InsideNetwork):
    """The network of a broker, whose ``links`` a test may cut or slow."""

    def __init__(self, links: ClusterLinks, broker: int) -> None:
        super().__init__()
        self._links = links
        self._broker = broker

    async def listen(
        self,
        factory: ProtocolFactory,
        host: str,
        port: int,
        accept_failed: Callable[[OSError], object] = lambda error: None,
        tls: TlsOfListener | None = None,
    ) -> Listener:
        def accepted() -> LinkEnd:
            return LinkEnd(self._links, self._broker, 0, factory)

        listener = await super().listen(accepted, host, port, accept_failed, tls)
        self._links.listens(listener.port, self._broker)
        return listener

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: TlsSettings | None = None
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        await self._links.until_open(self._broker, port)
        protocol = factory()
        end = LinkEnd(self._links, self._broker, port, lambda: protocol)
        await RealNetwork.connect(self, lambda: end, host, port, tls)
        self._keep(end)
        return end, protocol


class InsideCoordination:
    """Knows the sessions that it has opened."""

    def __init__(self, zookeeper: MemoryZookeeper) -> None:
        self._zookeeper = zookeeper
        self._sessions: list[tuple[CoordinationSession, int]] = []  # with their time-outs (ms)
        self._connected = asyncio.Event()
        self._connected.set()
        self._expirations: list[asyncio.TimerHandle] = []

    async def open(
        self,
        connect: str,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        security: CoordinationSecurity = UNSECURED,
    ) -> CoordinationSession:
        """Raises ConnectionLost while the broker is cut off."""
        try:
            async with asyncio.timeout(connection_timeout_ms / 1000):
                await self._connected.wait()
        except TimeoutError:
            raise ConnectionLost(
                f"no ZooKeeper server responded within {connection_timeout_ms} ms"
            ) from None
        session = await self._zookeeper.open(
            connect, session_timeout_ms, connection_timeout_ms, security
        )
        self._sessions.append((session, session_timeout_ms))
        if not self._connected.is_set():  # cut off meanwhile
            self._cut_off(session, session_timeout_ms)
        return session

    def expire_all(self) -> None:
        self.connect_again()
        for session, _ in self._sessions:
            self._zookeeper.expire(session.session_id)

    def cut_off(self) -> None:
        """Let nothing pass between the broker and ZooKeeper, which ends its sessions after their
        time-outs."""
        if not self._connected.is_set():
            return
        self._connected.clear()
        for session, timeout_ms in self._sessions:
            self._cut_off(session, timeout_ms)

    def _cut_off(self, session: CoordinationSession, timeout_ms: int) -> None:
        self._zookeeper.suspend(session.session_id)
        expire = partial(self._zookeeper.lose, session.session_id)
        loop = asyncio.get_running_loop()
        self._expirations.append(loop.call_later(timeout_ms / 1000, expire))

    def connect_again(self) -> None:
        """Undo ``cut_off``: a broker whose session has ended learns it now."""
        if self._connected.is_set():
            return
        self._connected.set()
        for expiration in self._expirations:
            expiration.cancel()
        self._expirations = []
        # A session that has ended is known to have: another one follows it.
        self._sessions = [each for each in self._sessions if self._zookeeper.resume(each[0])]


class InsideProcess(NamedTuple):
    """What one broker has of this process."""

    clock: PausableClock
    network: InsideNetwork
    files: MemoryFiles
    coordination: InsideCoordination
    world: World

    def end(self) -> None:
        """End what the broker has left open, as the kernel does when a process ends. Its sessions
        expire at once."""
        self.clock.end()
        self.network.abort_all()
        self.files.close_all()
        self.coordination.expire_all()


def inside_process(
    zookeeper: MemoryZookeeper, tree: FileTree, network: InsideNetwork | None = None
) -> InsideProcess:
    """``zookeeper`` is shared by the brokers of a cluster; ``tree`` outlives the broker, as a disk
    does."""
    network, files = network or InsideNetwork(), MemoryFiles(tree)
    coordination = InsideCoordination(zookeeper)
    clock = PausableClock(RealClock())
    world = World(clock, network, files, coordination, RealEntropy(), RealWorkers())
    return InsideProcess(clock, network, files, coordination, world)
