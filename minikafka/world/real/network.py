"""The real Network: TCP through the running loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket

from minikafka.kernel.ports import Listener, ProtocolFactory
from minikafka.world.real.errors import LIBRARY_ERRORS, as_os_error

BACKLOG = 1024
MAX_PORT = 65535
UNLIMITED = 2**31 - 1


def raise_descriptor_limit() -> None:
    """Raise the soft limit of descriptors to the hard one, as a JVM does when it starts. The soft
    one is small for programs that use select, which we do not."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS has a lower one that is not shown
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class RealListener:
    """A bound server socket of asyncio."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self._port = int(server.sockets[0].getsockname()[1])

    @property
    def port(self) -> int:
        return self._port

    def close(self) -> None:
        self._server.close()


class RealNetwork:
    """See ``kernel.ports.Network``. An empty host listens on every interface.

    Connections have TCP_NODELAY, which asyncio and uvloop always set, and SO_KEEPALIVE, as in
    Kafka: it detects a peer that disappeared without closing, even if no data are to be sent.
    """

    async def listen(self, factory: ProtocolFactory, host: str, port: int) -> Listener:
        _check_port(port)
        try:
            return await self._listen(factory, host, port)
        except LIBRARY_ERRORS as error:
            raise as_os_error(error, host) from error

    async def _listen(self, factory: ProtocolFactory, host: str, port: int) -> Listener:
        loop = asyncio.get_running_loop()
        if port == 0:
            # For a name with several addresses the system would choose a different port on each.
            found = await loop.getaddrinfo(
                host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            host = str(found[0][4][0])
        server = await loop.create_server(
            factory, host or None, port, backlog=BACKLOG, reuse_address=True
        )
        for listening in server.sockets:  # accepted sockets inherit the option
            _keep_alive(listening)
        return RealListener(server)

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        _check_port(port)
        try:
            transport, protocol = await asyncio.get_running_loop().create_connection(
                factory, host, port
            )
        except LIBRARY_ERRORS as error:
            raise as_os_error(error, host) from error
        _keep_alive(transport.get_extra_info("socket"))
        return transport, protocol

    def descriptor_limit(self) -> int:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return UNLIMITED if soft == resource.RLIM_INFINITY else soft

    async def resolves(self, host: str) -> bool:
        try:
            await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, *LIBRARY_ERRORS):
            return False
        return True


def _check_port(port: int) -> None:
    """Raise OSError for a number that is no port. The event loop would use its last 16 bits."""
    if not 0 <= port <= MAX_PORT:
        raise OSError(errno.EINVAL, f"{port} is no port")


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
