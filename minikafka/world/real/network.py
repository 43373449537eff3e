"""The real Network: TCP through the running loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

from minikafka.kernel.ports import Listener, OutgoingLogin, ProtocolFactory, TlsOfListener
from minikafka.kernel.tls import TlsSettings
from minikafka.world.real.errors import LIBRARY_ERRORS, as_os_error
from minikafka.world.real.tls import (
    HANDSHAKE_TIMEOUT_S,
    SHUTDOWN_TIMEOUT_S,
    check_handshake,
    client_context,
    server_context,
)

BACKLOG = 1024
ACCEPTS_AT_ONCE = 64  # then other connections are served
ACCEPT_RETRY_S = 1  # as in asyncio
# TLS handshakes under way. Beyond it the oldest one is given up: a client with silent connections
# cannot keep others out for long.
HANDSHAKES_AT_ONCE = 128
MAX_PORT = 65535
RESET = struct.pack("ii", 1, 0)  # linger for 0 s: a close sends RST, and leaves nothing behind
UNLIMITED = 2**31 - 1


def raise_descriptor_limit() -> None:
    """Raise the soft limit of descriptors to the hard one, as a JVM does when it starts. The soft
    one is small for programs that use select, which we do not."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS has a lower one that is not shown
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Acceptor:
    """Accepts the connections of one listening socket.

    A connection that cannot be accepted for lack of descriptors would stay in the backlog, and the
    socket would stay readable. Therefore one descriptor is kept in reserve: it is closed, the
    connection is accepted with it and closed, and it is opened again. If another thread has taken
    it meanwhile, the acceptor pauses for ``ACCEPT_RETRY_S``. ``failed`` is called in both cases.

    uvloop's own server calls nobody when it closes such connections, and closes the listening
    socket for ever where it cannot.

    With ``tls`` the protocol is made before the handshake, and ``connection_made`` called after it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        factory: ProtocolFactory,
        failed: Callable[[OSError], object],
        tls: TlsOfListener | None,
    ) -> None:
        self.listening = listening
        self._tls = tls
        self._loop = loop
        self._factory = factory
        self._failed = failed
        self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._opening: dict[asyncio.Task[None], None] = {}  # from the oldest
        self._retry: asyncio.TimerHandle | None = None
        loop.add_reader(listening, self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self.listening)
        if self._retry is not None:
            self._retry.cancel()
        self.listening.close()
        self._close_reserve()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                connection, address = self.listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue  # the client has gone
            except OSError as error:
                if not self._refuse():
                    self._loop.remove_reader(self.listening)
                    self._retry = self._loop.call_later(ACCEPT_RETRY_S, self._resume)
                self._failed(error)
                return
            tls = self._tls
            if tls is None:
                task = self._loop.create_task(self._open(connection))
            else:
                if len(self._opening) >= HANDSHAKES_AT_ONCE:
                    next(iter(self._opening)).cancel()
                task = self._loop.create_task(self._open_tls(connection, tls, str(address[0])))
            self._opening[task] = None
            task.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[None]) -> None:
        del self._opening[task]

    async def _open(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(self._factory, connection)
        except OSError:
            connection.close()  # the client has gone

    async def _open_tls(self, connection: socket.socket, tls: TlsOfListener, host: str) -> None:
        connection.setblocking(False)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(
                self._factory,
                connection,
                ssl=server_context(tls.settings),
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
                ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
            )
        except OSError as error:  # also of the handshake
            connection.close()
            tls.handshake_failed(host, error)
        except asyncio.CancelledError:
            connection.close()
            tls.handshake_failed(host, TimeoutError("too many handshakes are under way"))
            raise

    def _refuse(self) -> bool:
        """Accept one connection with the descriptor in reserve, and close it. False without one."""
        self._close_reserve()
        try:
            self.listening.accept()[0].close()
        except (BlockingIOError, ConnectionAbortedError):
            pass
        except OSError:
            return False
        return self._open_reserve()

    def _resume(self) -> None:
        self._retry = None
        self._open_reserve()
        self._loop.add_reader(self.listening, self._accept)

    def _open_reserve(self) -> bool:
        if self._reserve < 0:
            with contextlib.suppress(OSError):
                self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return self._reserve >= 0

    def _close_reserve(self) -> None:
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1


class RealListener:
    """The listening sockets of one host and port: one for each of its addresses."""

    def __init__(self, acceptors: Sequence[Acceptor]) -> None:
        self._acceptors = acceptors
        self._port = int(acceptors[0].listening.getsockname()[1])

    @property
    def port(self) -> int:
        return self._port

    def close(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()


class RealNetwork:
    """See ``kernel.ports.Network``. An empty host listens on every interface.

    Connections have TCP_NODELAY, which asyncio and uvloop always set, and SO_KEEPALIVE, as in
    Kafka: it detects a peer that disappeared without closing, even if no data are to be sent.
    """

    async def listen(
        self,
        factory: ProtocolFactory,
        host: str,
        port: int,
        accept_failed: Callable[[OSError], object] = lambda error: None,
        tls: TlsOfListener | None = None,
    ) -> Listener:
        _check_port(port)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            if port == 0:
                # The system would choose a different port for each address.
                found = found[:1]
            addresses = dict.fromkeys((family, address) for family, _, _, _, address in found)
        except LIBRARY_ERRORS as error:
            raise as_os_error(error, host) from error
        with contextlib.ExitStack() as opened:
            acceptors = []
            for family, address in addresses:
                try:
                    listening = opened.enter_context(_listening_socket(family, address))
                except OSError as error:
                    if error.errno == errno.EAFNOSUPPORT and len(addresses) > 1:
                        continue  # a system without IPv6
                    raise
                acceptors.append(Acceptor(loop, listening, factory, accept_failed, tls))
                opened.callback(acceptors[-1].close)
            opened.pop_all()
        return RealListener(acceptors)

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: TlsSettings | None = None
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        _check_port(port)
        loop = asyncio.get_running_loop()
        try:
            if tls is None:
                transport, protocol = await loop.create_connection(factory, host, port)
            else:
                transport, protocol = await loop.create_connection(
                    factory,
                    host,
                    port,
                    ssl=client_context(tls),
                    ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
                    ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
                )
        except OSError:
            raise  # a certificate that is not valid is a ValueError, too
        except LIBRARY_ERRORS as error:
            raise as_os_error(error, host) from error
        connection = transport.get_extra_info("socket")
        if transport.get_extra_info("sockname") == transport.get_extra_info("peername"):
            # Linux connects a socket with itself if it happens to choose the far port as the near.
            # Without RESET it would hold the port for another minute.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            transport.abort()
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {host}:{port}")
        _keep_alive(connection)
        return transport, protocol

    def new_login(self) -> OutgoingLogin | None:
        return None

    def check_tls(self, settings: TlsSettings, of_listener: bool) -> None:
        (server_context if of_listener else client_context)(settings)

    def check_handshake(self, server: TlsSettings, client: TlsSettings) -> None:
        check_handshake(server, client)

    def descriptor_limit(self) -> int:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return UNLIMITED if soft == resource.RLIM_INFINITY else soft

    async def addresses(self, host: str) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except LIBRARY_ERRORS as error:
            raise as_os_error(error, host) from error
        return list(dict.fromkeys(str(address[0]) for _, _, _, _, address in found))

    async def resolves(self, host: str) -> bool:
        try:
            await self.addresses(host)
        except OSError:
            return False
        return True


def _listening_socket(family: int, address: Any) -> socket.socket:
    """Raises OSError."""
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        _keep_alive(listening)  # accepted sockets inherit the option
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        text = f"cannot listen on {address[0]}:{address[1]}: {error.strerror}"
        raise OSError(error.errno, text) from error
    return listening


def _check_port(port: int) -> None:
    """Raise OSError for a number that is no port. The event loop would use its last 16 bits."""
    if not 0 <= port <= MAX_PORT:
        raise OSError(errno.EINVAL, f"{port} is no port")


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
