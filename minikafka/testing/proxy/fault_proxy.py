"""A proxy for tests: faults in the requests of any client to any Kafka.

    with FaultProxy("kafka.example:9092") as proxy:
        proxy.request_faults.answer("NOT_LEADER_OR_FOLLOWER", api="produce", times=3)
        producer = confluent_kafka.Producer({"bootstrap.servers": proxy.bootstrap})

The proxy runs on an event loop in another thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from minikafka.kernel.events import EventLog, event_log, kept
from minikafka.server.faults.injected import InjectedFaults
from minikafka.testing.proxy.brokers import ProxiedBrokers
from minikafka.testing.request_faults import RequestFaults
from minikafka.world.real.loop_thread import LoopThread
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.world import RealClock

T = TypeVar("T")

ANY_PORT = "127.0.0.1:0"
MAX_EVENTS = 1_000
MAX_PORT = 65535


class ProxyEvent(NamedTuple):
    """Something that has happened at a proxy, at ``monotonic_ms``."""

    monotonic_ms: int
    level: str
    name: str
    facts: Mapping[str, Any]


class FaultProxy:
    """A proxy as a context. ``upstream`` is ``host:port`` of one broker of a cluster; the others
    are learnt. ``listen`` is ``host:port`` for clients, and each further broker has the next free
    port; with 0 the system chooses all of them. Clients are sent to the host by whose address they
    have connected. Faults may be added before the start. Without a ``log`` nothing is printed; see
    ``events``. Raises ValueError for an address that is none.

    All methods may be called from any thread but the proxy's own.
    """

    def __init__(self, upstream: str, listen: str = ANY_PORT, log: EventLog | None = None) -> None:
        self._upstream = address(upstream)
        self._host, self._port = address(listen)
        self._clock = RealClock()
        self._faults = InjectedFaults(self._clock.monotonic_ms)
        self.request_faults = RequestFaults(self.call, self._faults)
        self._events: deque[ProxyEvent] = deque(maxlen=MAX_EVENTS)
        with kept(self._keep):
            self._log = log or event_log("proxy")
        self._brokers: ProxiedBrokers | None = None
        self._thread = LoopThread("faults")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """The addresses of all listeners."""
        return ",".join(_joined(self._host, port) for port in self.ports)

    @property
    def ports(self) -> list[int]:
        """The ports of all listeners; the first one is that for ``upstream``."""
        return self.call(self._read(self._ports))

    @property
    def brokers(self) -> Mapping[int, tuple[str, str]]:
        """The brokers that are known, by their ids: the listener of each, and its address."""
        return self.call(self._read(self._addresses))

    def events(self, name: str | None = None) -> list[ProxyEvent]:
        """Return the last events, or those of one name, from the oldest: brokers that were found,
        and why connections were closed."""
        return [event for event in list(self._events) if name in (None, event.name)]

    def start(self) -> None:
        """Connect to the upstream and listen. Raises ConnectionError and TimeoutError if it sends
        no response as Kafka does, and OSError (address in use)."""
        self._thread.start()
        try:
            self.call(self._start())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Close all connections, and end the thread."""
        if self._thread.is_running:
            self.call(self._end())
            self._thread.stop()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the proxy's event loop, and return its result. Before the start and
        after the end it must not wait for anything; raises RuntimeError if it does."""
        return self._thread.call(work) if self._thread.is_running else _at_once(work)

    # ------------------------------------------------------------------------ on the proxy's thread

    def _keep(self, level: str, name: str, facts: dict[str, Any]) -> None:
        self._events.append(ProxyEvent(self._clock.monotonic_ms(), level, name, facts))

    async def _start(self) -> None:
        self._brokers = ProxiedBrokers(
            RealNetwork(), self._clock, self._faults, self._host, self._port, self._log
        )
        await self._brokers.start(*self._upstream)

    async def _end(self) -> None:
        starting = asyncio.all_tasks() - {asyncio.current_task()}
        if self._brokers is not None:
            await self._brokers.close()
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)

    async def _read(self, value: Callable[[], T]) -> T:
        return value()

    @property
    def _known(self) -> ProxiedBrokers:
        assert self._brokers is not None, "the proxy has been started"
        return self._brokers

    def _ports(self) -> list[int]:
        return [broker.listening_port for broker in self._known.listening]

    def _addresses(self) -> dict[int, tuple[str, str]]:
        return {
            node_id: (
                _joined(self._host, broker.listening_port),
                _joined(broker.host, broker.port),
            )
            for node_id, broker in sorted(self._known.brokers.items())
        }


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("the proxy is not running")


def address(text: str) -> tuple[str, int]:
    """Parse ``host:port``; an IPv6 host stands in brackets. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isdecimal() and int(port) <= MAX_PORT):
        raise ValueError(f"{text} is not HOST:PORT")
    return host, int(port)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
