"""``BrokerWatch``: notices within milliseconds that the process of another broker is gone.

ZooKeeper notices a death when the session ends, after seconds. But the kernel of a dead process
closes its connections, and refuses new ones, at once. Kafka does not use that. It can be used since
every write is fenced by an epoch: a broker that is taken for dead and is alive loses its
leaderships, and nothing else.

Each broker holds a connection without requests to every other live broker. When one ends, these
have to hold before the other broker counts as gone:

1. the broker is still registered as it was when the connection was opened (the czxid and the
   version are the same);
2. each of its listeners refuses a new connection (ECONNREFUSED) at each of its addresses, and does
   so again ``AGAIN_MS`` later.

A time-out, a host that does not respond, and a connection that opens (a stopped process, a cut
link) are no evidence: the session decides, as in Kafka.

The registration of a broker that is gone is deleted, together with its ``/controller``. What
follows is what follows the end of a session: watches fire, brokers stand for election, partitions
get leaders. When the session ends later, nothing is left to delete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from minikafka.kernel.cluster import Broker, Endpoint
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import Clock, CoordinationError, Network
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.store import RegisteredBroker, ZkStore

AGAIN_MS: Final = 20
PROBE_LIMIT_S: Final = 1.0
FIRST_PAUSE_MS: Final = 20  # before a connection is opened again
MAX_PAUSE_MS: Final = 5_000
# The controller removes the registration. The others do if it has not: it may be gone as well.
OTHERS_LATER_MS: Final = 100


class BrokerWatch:
    """The connections of one broker to all others, over the listener ``inter_broker``.

    ``network`` connects to that listener, with its TLS. ``plain`` connects without."""

    def __init__(
        self,
        network: Network,
        plain: Network,
        clock: Clock,
        cache: MetadataCache,
        store: Callable[[], ZkStore],
        broker_id: int,
        inter_broker: str,
        log: EventLog | None = None,
    ) -> None:
        self._network = network
        self._plain = plain
        self._clock = clock
        self._cache = cache
        self._store = store
        self._broker_id = broker_id
        self._inter_broker = inter_broker
        self._log = log or event_log("broker-watch", broker=broker_id)
        self._tasks: asyncio.TaskGroup | None = None
        self._watching: dict[int, tuple[Broker, asyncio.Task[None]]] = {}
        cache.on_new_brokers(self._follow)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._follow()

    def stop(self) -> None:
        self._tasks = None
        for _, task in self._watching.values():
            task.cancel()
        self._watching.clear()

    def _follow(self) -> None:
        """Watch the live brokers of the metadata, and no others. One that registers other endpoints
        is watched from the beginning: the evidence has to concern these."""
        if self._tasks is None:
            return
        found = {broker.id: broker for broker in self._cache.live_brokers()}
        found.pop(self._broker_id, None)
        for broker_id, (broker, task) in list(self._watching.items()):
            if broker_id not in found or found[broker_id].endpoints != broker.endpoints:
                task.cancel()
                del self._watching[broker_id]
        for broker_id, broker in found.items():
            endpoint = broker.endpoint(self._inter_broker)
            if broker_id not in self._watching and endpoint is not None:
                name = f"broker-watch-{broker_id}"
                task = self._tasks.create_task(self._watch(broker_id, endpoint), name=name)
                self._watching[broker_id] = broker, task

    async def _watch(self, broker_id: int, endpoint: Endpoint) -> None:
        registration: RegisteredBroker | None = None  # as of the last connection that was opened
        pause_ms = FIRST_PAUSE_MS
        while True:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            try:
                transport, _ = await self._network.connect(
                    partial(_Watched, partial(self._suspect, broker_id, ended)),
                    endpoint.host,
                    endpoint.port,
                )
                opened_ms = self._clock.monotonic_ms()
                try:
                    registration = await self._store().registration(broker_id)
                    await asyncio.wait([ended], timeout=AGAIN_MS / 1000)
                    if not ended.done():
                        self._cache.suspects.discard(broker_id)
                    await ended
                finally:
                    ended.cancel()
                    transport.abort()
                if self._clock.monotonic_ms() - opened_ms > MAX_PAUSE_MS:
                    pause_ms = FIRST_PAUSE_MS
            except (OSError, CoordinationError, MalformedZnode):
                pass  # what cannot be read or reached is no evidence, and is tried again
            if registration is not None and await self._remove_if_gone(registration):
                registration = None
            await self._clock.sleep(pause_ms)
            pause_ms = min(2 * pause_ms, MAX_PAUSE_MS)

    def _suspect(self, broker_id: int, ended: asyncio.Future[None]) -> None:
        """Called when a connection has ended, perhaps twice."""
        if not ended.done():
            ended.set_result(None)
            self._cache.suspects.add(broker_id)

    async def _remove_if_gone(self, registration: RegisteredBroker) -> bool:
        """Delete the registration of a broker that is gone; return whether it was deleted here."""
        broker = registration.broker
        if not await are_refused(self._plain, self._clock, broker.endpoints):
            return False  # it may be about to end: Linux closes its listening sockets last
        if self._cache.controller_id not in (self._broker_id, broker.id):
            await self._clock.sleep(OTHERS_LATER_MS)
        try:
            removed = await self._store().remove_registration(registration)
        except (CoordinationError, MalformedZnode) as error:
            self._log.warning("broker_not_removed", gone_broker=broker.id, error=str(error))
            return False
        if removed:
            self._log.warning(
                "broker_found_gone",
                gone_broker=broker.id,
                epoch=broker.epoch,
                session=f"0x{registration.session:x}",
                refused=[f"{each.host}:{each.port}" for each in broker.endpoints],
            )
        return removed


async def are_refused(network: Network, clock: Clock, endpoints: Iterable[Endpoint]) -> bool:
    """Return whether each of these endpoints, at least one, refuses a connection twice."""
    known = list(endpoints)
    for pause_ms in (AGAIN_MS, 0):
        for endpoint in known:
            if not await _is_refused(network, endpoint):
                return False
        await clock.sleep(pause_ms)
    return bool(known)


async def _is_refused(network: Network, endpoint: Endpoint) -> bool:
    """Return whether every address of an endpoint refuses a connection. They are tried one by one:
    the error of an attempt to connect to several of them does not say what each one did."""
    try:
        async with asyncio.timeout(PROBE_LIMIT_S):
            addresses = await network.addresses(endpoint.host)
            for address in addresses:
                if not await _refuses(network, address, endpoint.port):
                    return False
    except OSError:  # TimeoutError is one
        return False
    return bool(addresses)


async def _refuses(network: Network, address: str, port: int) -> bool:
    """Raises OSError for what is no answer."""
    try:
        transport, _ = await network.connect(lambda: _Watched(lambda: None), address, port)
    except ConnectionRefusedError:
        return True
    transport.abort()
    return False


class _Watched(asyncio.BufferedProtocol):
    """A connection on which nothing is sent, and nothing is expected."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._ignored = bytearray(64)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._ignored

    def buffer_updated(self, nbytes: int) -> None:
        """Nothing is read."""

    def eof_received(self) -> None:
        self._ended()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended()
