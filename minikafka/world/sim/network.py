"""The simulated Network: listeners, and the connections between hosts."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
from collections.abc import Callable, Sequence
from contextvars import Context

from minikafka.kernel.ports import Listener, OutgoingLogin, ProtocolFactory, TlsOfListener
from minikafka.kernel.tls import TlsSettings
from minikafka.world.sim.links import Address, Lane, Links
from minikafka.world.sim.process import Process
from minikafka.world.sim.tls import SimTlsEnd, check_handshake, check_settings, handshake
from minikafka.world.sim.transport import Segment, Signal, SimTransport, size_bytes

ANYWHERE = ("", "0.0.0.0", "::")
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
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
        loopback_only: bool,
        close: Callable[[int], None],
        tls: TlsOfListener | None,
    ) -> None:
        self.factory = factory
        self.tls = tls
        self.process = process
        self.loopback_only = loopback_only
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
    """A TCP connection: two lanes, and a transport at each end once it is accepted."""

    def __init__(
        self,
        fabric: Fabric,
        process: Process,
        client: Address,
        server: Address,
        local: bool,
        tls: TlsSettings | None,
    ) -> None:
        self.client: SimTransport | None = None
        self.server: SimTransport | None = None
        self.hosts = (client[0], server[0])
        self.established: asyncio.Future[SimTransport] = process.loop.create_future()
        self._fabric = fabric
        self._process = process
        self._addresses = (client, server)
        self._local = local
        self._tls = tls
        self._server_known: SimTlsEnd | None = None  # to the client
        self._handshake_error: OSError | None = None
        self._client_gone = False
        self._server_gone = True  # until accepted
        links = fabric.links
        self._to_server: Lane[Segment] = Lane(
            links,
            client[0],
            server[0],
            self._at_server,
            self._on_client_timeout,
            lambda passing: self._tell_stopped(client, server, passing),
        )
        self._to_client: Lane[Segment] = Lane(
            links,
            server[0],
            client[0],
            self._at_client,
            self._on_server_timeout,
            lambda passing: self._tell_stopped(server, client, passing),
        )

    def open(self) -> None:
        self._to_server.send(Signal.SYN)

    def abort(self) -> None:
        """Abort the client's end, or cancel the connection attempt if there is no end yet."""
        if self.client is not None:
            self.client.abort()
        else:
            self._retire_client()

    # ------------------------------------------------------------------------------ on the wire

    def _at_server(self, segment: Segment) -> None:
        if segment is Signal.SYN:
            listener = self._fabric.listener(self._addresses[1])
            refused = listener is not None and self._fabric.refuses(*self.hosts)
            if listener is None or refused or (listener.loopback_only and not self._local):
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
        tls = listener.tls
        try:
            client_known, self._server_known = handshake(
                None if tls is None else tls.settings, self._tls
            )
        except OSError as error:
            self._handshake_error = error
            if tls is not None:
                tls.handshake_failed(self._addresses[0][0], error)
            self._to_client.send(Signal.REFUSED)
            self._retire_server()
            return
        addresses = (self._addresses[1], self._addresses[0])
        self.server = SimTransport(
            listener.process,
            self._fabric.links,
            self._to_client,
            addresses,
            self._retire_server,
            client_known,
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
                self._server_known,
            )
            self._fabric.adopt(self._process, self.client)
            assert self.server is not None
            self.client.peer, self.server.peer = self.server, self.client
            if not self.established.done():
                self.established.set_result(self.client)
        else:
            self._refuse()

    def _refuse(self) -> None:
        host, port = self._addresses[1]
        if not self.established.done():
            self.established.set_exception(
                self._handshake_error
                or ConnectionRefusedError(errno.ECONNREFUSED, f"Connection refused: {host}:{port}")
            )
        self._retire_client()

    def _on_client_timeout(self) -> None:
        if self.client is not None:
            self.client.give_up()

    def _on_server_timeout(self) -> None:
        if self.server is not None:
            self.server.give_up()

    # ------------------------------------------------------------------------------------- ends

    def reset(self) -> None:
        """Reset the connection at both ends. Bytes in flight are lost."""
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

    def _tell_stopped(
        self, source: Address, target: Address, passing: Sequence[Segment] | None
    ) -> None:
        wiretap = self._fabric.links.wiretap
        if wiretap is not None:
            first = None if passing is None else sum(map(size_bytes, passing))
            wiretap.stopped(source, target, first)

    def lane_from(self, source: Address) -> Lane[Segment]:
        return self._to_server if source == self._addresses[0] else self._to_client

    def _retire(self) -> None:
        if self._client_gone and self._server_gone:
            self._to_server.close()
            self._to_client.close()
            self._fabric.forget(self._addresses)
            if self._fabric.links.wiretap is not None:
                self._fabric.links.wiretap.closed(*self._addresses)


class Fabric:
    """The listening ports and connections of all hosts."""

    def __init__(self, links: Links) -> None:
        self.links = links
        self._hosts: dict[str, int] = {}  # name -> next ephemeral port
        self._listeners: dict[Address, SimListener] = {}
        self._connections: dict[tuple[Address, Address], SimConnection] = {}
        self._ends: dict[Process, list[SimTransport]] = {}
        self._refusing: set[str] = set()

    def add_host(self, name: str) -> None:
        self._hosts[name] = FIRST_EPHEMERAL_PORT

    def add_process(self, process: Process) -> None:
        self._ends[process] = []
        process.at_death(lambda: self._close_sockets(process))

    def adopt(self, process: Process, end: SimTransport) -> None:
        ends = self._ends[process]
        ends.append(end)
        if len(ends) % 1000 == 0:
            self._ends[process] = [end for end in ends if not end.is_closing()]

    def forget(self, addresses: tuple[Address, Address]) -> None:
        self._connections.pop(addresses, None)

    def lane(self, source: Address, target: Address) -> Lane[Segment] | None:
        """Return one direction of an open connection."""
        found = self._connections.get((source, target)) or self._connections.get((target, source))
        return None if found is None else found.lane_from(source)

    def listener(self, address: Address) -> SimListener | None:
        return self._listeners.get(address)

    def ephemeral_port(self, host: str) -> int:
        port = self._hosts[host]
        self._hosts[host] = port + 1
        return port

    def resolve(self, process: Process, host: str) -> str:
        """Return the host with this name. Raises ``OSError`` if there is none."""
        name = process.host if host in LOCAL_NAMES else host
        if name not in self._hosts:
            raise OSError(-2, f"Name or service not known: {host}")
        return name

    def is_host(self, host: str) -> bool:
        return host in LOCAL_NAMES or host in self._hosts

    def bind(
        self,
        process: Process,
        factory: ProtocolFactory,
        host: str,
        port: int,
        tls: TlsOfListener | None,
    ) -> SimListener:
        if host not in (*ANYWHERE, *LOCAL_NAMES, process.host):
            raise OSError(errno.EADDRNOTAVAIL, f"Cannot assign requested address: {host}")
        _check_port(port)
        port = port or self.ephemeral_port(process.host)
        if (process.host, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, f"Address already in use: {host}:{port}")
        listener = SimListener(
            factory,
            process,
            port,
            host in LOCAL_NAMES,
            lambda port: self._unbind(process.host, port),
            tls,
        )
        self._listeners[process.host, port] = listener
        return listener

    def _unbind(self, host: str, port: int) -> None:
        self._listeners.pop((host, port), None)

    def connect(
        self, process: Process, host: str, port: int, tls: TlsSettings | None
    ) -> SimConnection:
        _check_port(port)
        target = self.resolve(process, host)
        local = target == process.host
        client = (process.host, self.ephemeral_port(process.host))
        connection = SimConnection(self, process, client, (target, port), local, tls)
        self._connections[client, (target, port)] = connection
        connection.open()
        return connection

    def reset(self, one: str, other: str) -> None:
        """Reset every connection between two hosts."""
        for connection in list(self._connections.values()):
            if connection.hosts in ((one, other), (other, one)):
                connection.reset()

    def refuse(self, host: str, refuses: bool) -> None:
        """Refuse new connections to a host from others, or accept them again: something on the way,
        such as a firewall, answers for its listeners."""
        (self._refusing.add if refuses else self._refusing.discard)(host)

    def refuses(self, client: str, server: str) -> bool:
        return server in self._refusing and client != server

    def _close_sockets(self, process: Process) -> None:
        """Close the sockets of a dead process, as its kernel does, with FIN or RST at random.

        A host without power sends neither.
        """
        for address in [a for a, owner in self._listeners.items() if owner.process is process]:
            del self._listeners[address]
        for end in self._ends.pop(process):
            farewell = None
            if not self.links.is_dark(process.host):
                farewell = (Signal.FIN, Signal.RST)[self.links.entropy.between(0, 1)]
            end.end_with_process(farewell)


class SimNetwork:
    """The Network of one process. See ``kernel.ports.Network``.

    Host names are those of ``SimWorld.host``; ``localhost`` is the host itself.
    """

    def __init__(self, process: Process, fabric: Fabric) -> None:
        self._process = process
        self._fabric = fabric
        fabric.add_process(process)

    async def listen(
        self,
        factory: ProtocolFactory,
        host: str,
        port: int,
        accept_failed: Callable[[OSError], object] = lambda error: None,
        tls: TlsOfListener | None = None,
    ) -> Listener:
        self._process.check()
        listener = self._fabric.bind(self._process, factory, host, port, tls)
        self._fabric.links.trace.add("listen", host=self._process.host, port=listener.port)
        return listener

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: TlsSettings | None = None
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        self._process.check()
        links = self._fabric.links
        connection = self._fabric.connect(self._process, host, port, tls)
        try:
            async with asyncio.timeout(links.profile.connect_timeout_us / 1_000_000):
                transport = await connection.established
            self._process.check()
        except TimeoutError:
            connection.abort()
            raise TimeoutError(errno.ETIMEDOUT, f"Connect timed out: {host}:{port}") from None
        except asyncio.CancelledError:
            connection.abort()
            raise
        links.trace.add("connected", host=self._process.host, to=f"{host}:{port}")
        protocol = factory()
        transport.start(protocol)
        return transport, protocol

    def new_login(self) -> OutgoingLogin | None:
        return None

    def check_tls(self, settings: TlsSettings, of_listener: bool) -> None:
        check_settings(settings, of_listener)

    def check_handshake(self, server: TlsSettings, client: TlsSettings) -> None:
        check_handshake(server, client)

    def descriptor_limit(self) -> int:
        return 2**31 - 1

    async def addresses(self, host: str) -> list[str]:
        """A host of the simulator has no address; its name stands for one."""
        if not await self.resolves(host):
            raise OSError(-2, f"Name or service not known: {host}")
        return [host]

    async def resolves(self, host: str) -> bool:
        self._process.check()
        return self._fabric.is_host(host) or _is_ipv4(host)


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True
