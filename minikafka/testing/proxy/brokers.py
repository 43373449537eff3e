"""The brokers behind the proxy: one listener for each, and the clients of these listeners.

The first listener passes requests on to the address that the user gave. When a response names a
broker with the same address, the listener is this broker's; every other broker gets a listener
when it is first named, before the client receives the response.
"""

from __future__ import annotations

import asyncio
import errno
import traceback
from typing import Any, Final
from uuid import UUID

from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock, Listener, Network
from minikafka.network.channel import Channel
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.server.faults.injected import FaultSeam, InjectedFaults
from minikafka.testing.proxy.connection import MAX_REQUEST_BYTES, ProxiedConnection
from minikafka.testing.proxy.frame_stream import FrameStream
from minikafka.testing.proxy.messages import NodeAddress, addresses

NO_NODE: Final = -1
CLIENT_ID: Final = "minikafka-faults"
TIMEOUT_MS: Final = 10_000  # of the proxy's own requests
MAX_PORTS_TRIED: Final = 100  # above the one of the first listener
MAX_TOPIC_IDS: Final = 100_000


class ProxiedBroker:
    """A broker behind the proxy, and its listener."""

    def __init__(self, address: NodeAddress, proxy: ProxiedBrokers) -> None:
        self._proxy = proxy
        self.listener: Listener | None = None
        self.move(address)

    def move(self, address: NodeAddress) -> None:
        """Connect to this address from now on."""
        self.node_id, self.host, self.port = address
        self.seam = self._proxy.seam(self.node_id)

    async def learn(self, found: list[NodeAddress]) -> None:
        await self._proxy.learn(found)

    def learn_topics(self, response: Any) -> None:
        self._proxy.learn_topics(response)

    def advertised_port(self, node_id: int) -> int:
        return self._proxy.brokers[node_id].listening_port

    @property
    def listening_port(self) -> int:
        assert self.listener is not None, "a broker that is known has a listener"
        return self.listener.port


class ProxiedBrokers:
    """All listeners of a proxy. They listen on ``host``, on ``port`` and the next free ones; with 0
    the system chooses them."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        faults: InjectedFaults,
        host: str,
        port: int,
        log: EventLog,
    ) -> None:
        self._network = network
        self._clock = clock
        self._faults = faults
        self._host = host
        self._port = port
        self._log = log
        self._first: ProxiedBroker | None = None
        self._first_hosts: frozenset[str] = frozenset()
        self.brokers: dict[int, ProxiedBroker] = {}
        self._opening: dict[int, asyncio.Task[None]] = {}
        self._topics: dict[UUID, str] = {}  # bound: MAX_TOPIC_IDS
        self._clients: dict[asyncio.Task[None], FrameStream] = {}

    async def start(self, host: str, port: int) -> None:
        """Connect to a broker to learn the others, and listen. Raises ConnectionError and
        TimeoutError if it sends no response as Kafka does, and OSError (address in use)."""
        known = await self._cluster(host, port)
        self._first_hosts = await self._hosts(host)
        first = ProxiedBroker(NodeAddress(NO_NODE, host, port), self)
        first.listener = await self._listen(first, [self._port])
        self._first = first
        if known is not None:
            self.learn_topics(known)
            await self.learn(addresses(ApiKey.METADATA, known))

    async def close(self) -> None:
        """Close all listeners and connections. What faults hold is dropped."""
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for broker in self.listening:
            if broker.listener is not None:
                broker.listener.close()
        clients = dict(self._clients)
        for task, stream in clients.items():
            stream.abort()
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    @property
    def listening(self) -> list[ProxiedBroker]:
        """The first listener and those of all brokers that are known, each once."""
        first = () if self._first is None else (self._first,)
        return list(dict.fromkeys((*first, *self.brokers.values())))

    def seam(self, node_id: int) -> FaultSeam:
        return FaultSeam(self._faults, node_id, self._clock, self._topics.get)

    async def learn(self, found: list[NodeAddress]) -> None:
        """Give every broker a listener. Raises OSError."""
        for address in found:
            node_id = address.node_id
            known = self.brokers.get(node_id)
            if known is None:
                task = self._opening.get(node_id)
                if task is None:
                    task = self._opening[node_id] = asyncio.create_task(self._open(address))
                await asyncio.shield(task)
            elif (known.host, known.port) != address[1:]:
                self._log.info("broker_moved", node=node_id, host=address.host, port=address.port)
                known.move(address)

    def learn_topics(self, response: MetadataResponse) -> None:
        for topic in response.topics:
            if topic.name:
                self._topics.pop(topic.topic_id, None)
                self._topics[topic.topic_id] = topic.name
        while len(self._topics) > MAX_TOPIC_IDS:
            del self._topics[next(iter(self._topics))]

    async def _open(self, address: NodeAddress) -> None:
        try:
            broker = await self._first_if(address)
            if broker is None:
                broker = ProxiedBroker(address, self)
                above = range(self._port + 1, self._port + 1 + MAX_PORTS_TRIED)
                broker.listener = await self._listen(broker, above if self._port else [0])
            self.brokers[address.node_id] = broker
            self._log.info(
                "broker_found", node=address.node_id, host=address.host, port=address.port,
                listener=broker.listening_port,
            )  # fmt: skip
        finally:
            del self._opening[address.node_id]

    async def _first_if(self, address: NodeAddress) -> ProxiedBroker | None:
        """Return the first listener, as that of a broker, if it has the broker's address."""
        hosts = await self._hosts(address.host)
        first = self._first
        if first is None or first.node_id != NO_NODE or first.port != address.port:
            return None
        if not hosts & self._first_hosts:
            return None
        first.move(address)
        return first

    async def _listen(self, broker: ProxiedBroker, ports: range | list[int]) -> Listener:
        """Listen on the first port that is free. Raises OSError."""

        def accepted() -> FrameStream:
            return FrameStream(MAX_REQUEST_BYTES, lambda stream: self._serve(broker, stream))

        for port in ports:
            try:
                return await self._network.listen(accepted, self._host, port)
            except OSError as error:
                if error.errno != errno.EADDRINUSE or port == ports[-1]:
                    raise
        raise AssertionError("there is a last port")

    async def _hosts(self, host: str) -> frozenset[str]:
        """Return a host with its addresses, as far as they are known here."""
        try:
            return frozenset((host, *await self._network.addresses(host)))
        except OSError:
            return frozenset((host,))

    def _serve(self, broker: ProxiedBroker, stream: FrameStream) -> None:
        connection = ProxiedConnection(stream, broker, self._network, self._clock, self._log)
        task = asyncio.get_running_loop().create_task(self._contained(connection))
        self._clients[task] = stream
        task.add_done_callback(lambda done: self._clients.pop(done))

    async def _contained(self, connection: ProxiedConnection) -> None:
        """Serve a client. A bug ends its connection, and no other."""
        try:
            await connection.run()
        except Exception as bug:
            trace = "".join(traceback.format_exception(bug))
            self._log.error("connection_failed", error=repr(bug), trace=trace)

    async def _cluster(self, host: str, port: int) -> MetadataResponse | None:
        """Return the brokers and topics; None if a login is needed to read them. Raises
        ConnectionError and TimeoutError."""
        channel = await Channel.open(
            self._network, self._clock, host, port, CLIENT_ID, log=self._log
        )
        try:
            try:
                listed: ApiVersionsResponse = await channel.request(
                    ApiVersionsRequest(), 0, TIMEOUT_MS
                )
            except ConnectionError as error:
                raise ConnectionError(
                    f"no Kafka without TLS responds at {host}:{port}: {error}"
                ) from error
            last = {row.api_key: row.max_version for row in listed.api_keys}
            version = min(last.get(ApiKey.METADATA, 0), ApiKey.METADATA.max_version)
            try:
                request = MetadataRequest(topics=None if version else [])
                request.allow_auto_topic_creation = version < 4
                response: MetadataResponse = await channel.request(request, version, TIMEOUT_MS)
            except ConnectionError:
                self._log.info("login_needed", host=host, port=port)
                return None
            return response
        finally:
            channel.close()
