"""What only real sockets have."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import uvloop

from minikafka.kernel.tls import TlsSettings
from minikafka.testing.processes import free_ports
from minikafka.world.real.network import HANDSHAKES_AT_ONCE, RealNetwork
from tests.support.security.certificates import Authority


class End(asyncio.BufferedProtocol):
    def __init__(self, made: asyncio.Future[asyncio.BaseTransport]) -> None:
        self._made = made
        self._buffer = bytearray(1024)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.set_result(transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None: ...


def test_both_ends_notice_a_peer_that_is_gone_without_a_word() -> None:
    async def play() -> list[int]:
        loop, network = asyncio.get_running_loop(), RealNetwork()
        accepted, connected = loop.create_future(), loop.create_future()
        listener = await network.listen(lambda: End(accepted), "127.0.0.1", 0)
        await network.connect(lambda: End(connected), "127.0.0.1", listener.port)
        transports = [await accepted, await connected]
        options = [
            transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            for transport in transports
        ]
        for transport in transports:
            transport.close()
        listener.close()
        return options

    for run in (asyncio.run, uvloop.run):
        assert all(run(play()))


class WithItself:
    """An event loop whose connections end at themselves, which is rare with Linux's choice."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def create_connection(
        self, factory: Callable[[], End], host: str, port: int
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        connection = socket.socket()
        connection.bind((host, port))
        connection.connect((host, port))
        return await self._loop.create_connection(factory, sock=connection)


def can_listen(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def test_a_connection_with_itself_is_a_port_where_nobody_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play() -> None:
        loop = asyncio.get_running_loop()
        fake = SimpleNamespace(get_running_loop=lambda: WithItself(loop))
        monkeypatch.setattr("minikafka.world.real.network.asyncio", fake)
        port = free_ports(1).first
        with pytest.raises(ConnectionRefusedError, match=str(port)):
            await RealNetwork().connect(lambda: End(loop.create_future()), "127.0.0.1", port)
        async with asyncio.timeout(30):
            while not can_listen(port):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    for run in (asyncio.run, uvloop.run):
        run(play())


def sockets() -> list[str]:
    """The sockets of this process. Threads of earlier tests may open and close files."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return [target for target in found if target.startswith("socket:")]


@dataclass
class Tls:
    settings: TlsSettings
    failures: list[OSError] = field(default_factory=list)

    def handshake_failed(self, host: str, error: OSError) -> None:
        self.failures.append(error)


@pytest.mark.mission("SEC-127")
def test_others_connect_beside_clients_that_never_begin_a_handshake() -> None:
    authority = Authority()
    broker = authority.issue("broker", ("127.0.0.1",))
    settings = TlsSettings(broker.key_pem(), broker.chain_pem)

    async def play() -> tuple[int, int]:
        loop, network, tls = asyncio.get_running_loop(), RealNetwork(), Tls(settings)
        accepted, connected = loop.create_future(), loop.create_future()
        listener = await network.listen(lambda: End(accepted), "127.0.0.1", 0, tls=tls)
        before = len(sockets())
        silent = []
        for _ in range(HANDSHAKES_AT_ONCE):
            connection = socket.create_connection(("127.0.0.1", listener.port))
            silent.append(connection)
        await network.connect(
            lambda: End(connected), "127.0.0.1", listener.port, TlsSettings(trusted=authority.pem)
        )
        (await accepted).close()
        dropped = len(tls.failures)
        for connection in silent:
            connection.close()
        while len(tls.failures) < HANDSHAKES_AT_ONCE:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        (await connected).close()
        async with asyncio.timeout(30):
            while len(sockets()) > before:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        listener.close()
        return dropped, len(tls.failures)

    assert uvloop.run(play()) == (1, HANDSHAKES_AT_ONCE)
