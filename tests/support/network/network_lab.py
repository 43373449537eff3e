"""Servers on loopback sockets, and clients that speak raw frames to them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable

import pytest

from minikafka.server.listeners.connection_quotas import ConnectionQuotas
from minikafka.server.listeners.listener_resources import ServerConfig
from minikafka.server.listeners.listener_sasl import ListenerSasl
from minikafka.server.listeners.listener_tls import ListenerTls
from minikafka.server.listeners.memory_budget import MemoryBudget
from minikafka.server.listeners.server import Server
from minikafka.server.listeners.server_connection import ServerConnection
from minikafka.world.real.network import RealNetwork
from tests.support.world.manual_clock import ManualClock
from tests.support.world.recording_log import RecordingLog


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Peer:
    """A client that speaks raw frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *bodies: bytes) -> None:
        self.writer.write(b"".join(struct.pack(">i", len(b)) + b for b in bodies))

    async def receive(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        """Wait until the server closes the connection, or sends something. Raises TimeoutError if
        it does neither."""
        try:
            async with asyncio.timeout(10):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.close()


class Lab:
    """Servers on loopback, and peers of theirs."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.network = RealNetwork()
        self.log = RecordingLog()
        self.servers: list[Server] = []
        self.peers: list[Peer] = []

    async def serve(
        self,
        on_frame: Callable[[ServerConnection, memoryview], bool | None],
        config: ServerConfig | None = None,
        holding: bool = False,
        quotas: ConnectionQuotas | None = None,
        listener: str = "PLAINTEXT",
        budget: MemoryBudget | None = None,
        sasl: ListenerSasl | None = None,
        tls: ListenerTls | None = None,
    ) -> Server:
        server = Server(
            self.network,
            self.clock,
            config or ServerConfig(),
            on_frame,
            listener,
            self.log,
            quotas=quotas,
            budget=budget,
            sasl=sasl,
            tls=tls,
        )
        await server.start("127.0.0.1", 0, holding)
        self.servers.append(server)
        return server

    async def connect(self, server: Server) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", server.port))
        self.peers.append(peer)
        return peer

    async def until(self, condition: Callable[[], bool]) -> None:
        """Run the loop until a condition holds."""
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0)

    async def stop(self) -> None:
        for peer in self.peers:
            peer.close()
        for server in self.servers:
            await server.close()


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """A network lab for each test of a folder whose conftest imports this."""
    lab = Lab()
    yield lab
    await lab.stop()
