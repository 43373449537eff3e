"""The simulated Network: listeners, dialling, and the connections between hosts."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
from collections.abc import Callable
from contextvars import Context

from minikafka.kernel.ports import Listener, ProtocolFactory
from minikafka.world.sim.links import Lane, Links
from minikafka.world.sim.process import Process
from minikafka.world.sim.transport import Address, Segment, Signal, SimTransport

ANYWHERE = ("", "0.0.0.0", "::")
HERE = ("localhost", "127.0.0.1", "::1")
FIRST_EPHEMERAL_PORT = 49152


MAX_PORT = 65535


def _check_port(port: int) -> None:
    if not 0 <= port <= MAX_PORT:
        raise OSError(errno.EINVAL, f"{port} is no port")


class SimListener:
    """A bound port. See ``kernel.ports.Listener``."""

    def __init__(
        self,
        factory: ProtocolFactory,
        process: Process,
        port: int,
        only_here: bool,
        close: Callable[[int], None],
    ) -> None:
        self.factory = factory
        self.process = process
        self.only_here = only_here
        self.context: Context = process.context()
        self._port = port
        self._close = close

    @property
    def port(self) -> int:
        return self._port

    def close(self) -> None:
        if self.process.alive:
            self._close(self._port)


class SimConnection:
    """A connection of two transports over two lanes."""

    def __init__(
        self, fabric: Fabric, process: Process, client: Address, server: Address, local: bool
    ) -> None:
        self.client: SimTransport | None = None
        self.server: SimTransport | None = None
        self.hosts = (client[0], server[0])
        self.dialled: asyncio.Future[SimTransport] = process.loop.create_future()
        self._fabric = fabric
        self._process = process
        self._addresses = (client, server)
        self._local = local
        self._client_gone = False
        self._server_gone = True  # until accepted
        links = fabric.links
        self._to_server: Lane[Segment] = Lane(
            links, client[0], server[0], self._at_server, self._client_gives_up
        )
        self._to_client: Lane[Segment] = Lane(
            links, server[0], client[0], self._at_client, self._server_gives_up
        )

    def dial(self) -> None:
        self._to_server.send(Signal.SYN)

    def hang_up(self) -> None:
        """Abort the client's end, or abandon the connection attempt."""
        if self.client is not None:
            self.client.abort()
        else:
            self._retire_client()

    # ------------------------------------------------------------------------------ on the wire

    def _at_server(self, segment: Segment) -> None:
        if segment is Signal.SYN:
            listener = self._fabric.listener(self._addresses[1])
            if listener is None or (listener.only_here and not self._local):
                self._to_client.send(Signal.REFUSED)
            else:
                self._server_gone = False
                self._fabric.links.loop.call_soon(self._accept, listener, context=listener.context)
        elif self.server is not None:
            self.server.on_wire(segment)

    def _accept(self, listener: SimListener) -> None:
        """Create the server's end, in the context of the listening process."""
        if not listener.process.alive or self._client_gone:
            self._to_client.send(Signal.REFUSED)
            self._retire_server()
            return
        addresses = (self._addresses[1], self._addresses[0])
        self.server = SimTransport(
            listener.process, self._fabric.links, self._to_client, addresses, self._retire_server
        )
        self._fabric.adopt(listener.process, self.server)
        self._to_client.send(Signal.ACCEPTED)
        self.server.start(listener.factory())

    def _at_client(self, segment: Segment) -> None:
        if self.client is not None:
            self.client.on_wire(segment)
        elif self._client_gone:
            self._to_server.send(Signal.RST)
        elif segment is Signal.ACCEPTED:
            self.client = SimTransport(
                self._process,
                self._fabric.links,
                self._to_server,
                self._addresses,
                self._retire_client,
            )
            self._fabric.adopt(self._process, self.client)
            assert self.server is not None
            self.client.peer, self.server.peer = self.server, self.client
            if not self.dialled.done():
                self.dialled.set_result(self.client)
        else:
            self._refuse()

    def _refuse(self) -> None:
        host, port = self._addresses[1]
        if not self.dialled.done():
            self.dialled.set_exception(
                ConnectionRefusedError(errno.ECONNREFUSED, f"Connection refused: {host}:{port}")
            )
        self._retire_client()

    def _client_gives_up(self) -> None:
        if self.client is not None:
            self.client.give_up()

    def _server_gives_up(self) -> None:
        if self.server is not None:
            self.server.give_up()

    # ------------------------------------------------------------------------------------- ends

    def reset(self) -> None:
        """Reset the connection at both ends; bytes under way are lost."""
        self._to_server.drop()
        self._to_client.drop()
        if self.client is None and not self._client_gone:
            self._refuse()
        for end in (self.client, self.server):
            if end is not None:
                end.on_wire(Signal.RST)

    def _retire_client(self) -> None:
        self._client_gone = True
        self._retire()

    def _retire_server(self) -> None:
        self._server_gone = True
        self._retire()

    def _retire(self) -> None:
        if self._client_gone and self._server_gone:
            self._to_server.close()
            self._to_client.close()
            self._fabric.forget(self)


class Fabric:
    """The listening ports and connections of all hosts."""

    def __init__(self, links: Links) -> None:
        self.links = links
        self._hosts: dict[str, int] = {}  # name -> next ephemeral port
        self._listeners: dict[Address, SimListener] = {}
        self._connections: dict[SimConnection, None] = {}
        self._ends: dict[Process, list[SimTransport]] = {}

    def add_host(self, name: str) -> None:
        self._hosts[name] = FIRST_EPHEMERAL_PORT

    def add_process(self, process: Process) -> None:
        self._ends[process] = []
        process.at_death(lambda: self._cut(process))

    def adopt(self, process: Process, end: SimTransport) -> None:
        ends = self._ends[process]
        ends.append(end)
        if len(ends) % 1000 == 0:
            self._ends[process] = [end for end in ends if not end.is_closing()]

    def forget(self, connection: SimConnection) -> None:
        self._connections.pop(connection, None)

    def listener(self, address: Address) -> SimListener | None:
        return self._listeners.get(address)

    def ephemeral_port(self, host: str) -> int:
        port = self._hosts[host]
        self._hosts[host] = port + 1
        return port

    def resolve(self, process: Process, host: str) -> str:
        """Raises ``OSError`` for a name that no host has."""
        name = process.host if host in HERE else host
        if name not in self._hosts:
            raise OSError(-2, f"Name or service not known: {host}")
        return name

    def is_host(self, host: str) -> bool:
        return host in HERE or host in self._hosts

    def bind(self, process: Process, factory: ProtocolFactory, host: str, port: int) -> SimListener:
        if host not in (*ANYWHERE, *HERE, process.host):
            raise OSError(errno.EADDRNOTAVAIL, f"Cannot assign requested address: {host}")
        _check_port(port)
        port = port or self.ephemeral_port(process.host)
        if (process.host, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, f"Address already in use: {host}:{port}")
        listener = SimListener(
            factory, process, port, host in HERE, lambda port: self._unbind(process.host, port)
        )
        self._listeners[process.host, port] = listener
        return listener

    def _unbind(self, host: str, port: int) -> None:
        self._listeners.pop((host, port), None)

    def connect(self, process: Process, host: str, port: int) -> SimConnection:
        _check_port(port)
        target = self.resolve(process, host)
        local = target == process.host
        client = (process.host, self.ephemeral_port(process.host))
        connection = SimConnection(self, process, client, (target, port), local)
        self._connections[connection] = None
        connection.dial()
        return connection

    def reset(self, one: str, other: str) -> None:
        """Reset every connection between two hosts."""
        for connection in list(self._connections):
            if connection.hosts in ((one, other), (other, one)):
                connection.reset()

    def _cut(self, process: Process) -> None:
        """Close the sockets of a dead process as its kernel does, at random with FIN or RST.

        A host without power sends nothing.
        """
        for address in [a for a, owner in self._listeners.items() if owner.process is process]:
            del self._listeners[address]
        for end in self._ends.pop(process):
            last_words = None
            if not self.links.is_dark(process.host):
                last_words = (Signal.FIN, Signal.RST)[self.links.entropy.between(0, 1)]
            end.vanish(last_words)


class SimNetwork:
    """The Network of one process. See ``kernel.ports.Network``.

    Host names are the simulation's; ``localhost`` is the host itself.
    """

    def __init__(self, process: Process, fabric: Fabric) -> None:
        self._process = process
        self._fabric = fabric
        fabric.add_process(process)

    async def listen(self, factory: ProtocolFactory, host: str, port: int) -> Listener:
        self._process.check()
        listener = self._fabric.bind(self._process, factory, host, port)
        self._fabric.links.trace.add("listen", host=self._process.host, port=listener.port)
        return listener

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        self._process.check()
        links = self._fabric.links
        connection = self._fabric.connect(self._process, host, port)
        try:
            async with asyncio.timeout(links.profile.connect_timeout_us / 1_000_000):
                transport = await connection.dialled
            self._process.check()
        except TimeoutError:
            connection.hang_up()
            raise TimeoutError(errno.ETIMEDOUT, f"Connect timed out: {host}:{port}") from None
        except asyncio.CancelledError:
            connection.hang_up()
            raise
        links.trace.add("connected", host=self._process.host, to=f"{host}:{port}")
        protocol = factory()
        transport.start(protocol)
        return transport, protocol

    def descriptor_limit(self) -> int:
        return 2**31 - 1

    async def resolves(self, host: str) -> bool:
        self._process.check()
        return self._fabric.is_host(host) or _is_ipv4(host)


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True
