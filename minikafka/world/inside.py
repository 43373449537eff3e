"""The World inside a process: this machine's clock and network, files and ZooKeeper in memory."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from minikafka.kernel.ports import CoordinationSession, ProtocolFactory, World
from minikafka.kernel.tls import TlsSettings
from minikafka.kernel.zookeeper_security import UNSECURED, CoordinationSecurity
from minikafka.world.memory.coordination import MemoryZookeeper
from minikafka.world.memory.file_tree import FileTree
from minikafka.world.memory.files import MemoryFiles
from minikafka.world.real.clock import RealClock
from minikafka.world.real.entropy import RealEntropy
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.workers import RealWorkers


class InsideNetwork(RealNetwork):
    """Knows the connections that it has made, since no kernel closes them if a broker is killed."""

    def __init__(self) -> None:
        self._transports: list[asyncio.Transport] = []

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: TlsSettings | None = None
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        transport, protocol = await super().connect(factory, host, port, tls)
        self._transports = [each for each in self._transports if not each.is_closing()]
        self._transports.append(transport)
        return transport, protocol

    def abort_all(self) -> None:
        for transport in self._transports:
            transport.abort()


class InsideCoordination:
    """Knows the sessions that it has opened."""

    def __init__(self, zookeeper: MemoryZookeeper) -> None:
        self._zookeeper = zookeeper
        self._sessions: list[CoordinationSession] = []

    async def open(
        self,
        connect: str,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        security: CoordinationSecurity = UNSECURED,
    ) -> CoordinationSession:
        session = await self._zookeeper.open(
            connect, session_timeout_ms, connection_timeout_ms, security
        )
        self._sessions.append(session)
        return session

    def expire_all(self) -> None:
        for session in self._sessions:
            self._zookeeper.expire(session.session_id)


class InsideProcess(NamedTuple):
    """What one broker has of this process."""

    network: InsideNetwork
    files: MemoryFiles
    coordination: InsideCoordination
    world: World

    def end(self) -> None:
        """End what the broker has left open, as the kernel does when a process ends. Its sessions
        expire at once."""
        self.network.abort_all()
        self.files.close_all()
        self.coordination.expire_all()


def inside_process(zookeeper: MemoryZookeeper, tree: FileTree) -> InsideProcess:
    """``zookeeper`` is shared by the brokers of a cluster; ``tree`` outlives the broker, as a disk
    does."""
    network, files = InsideNetwork(), MemoryFiles(tree)
    coordination = InsideCoordination(zookeeper)
    world = World(RealClock(), network, files, coordination, RealEntropy(), RealWorkers())
    return InsideProcess(network, files, coordination, world)
