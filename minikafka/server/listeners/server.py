"""One listener of a broker and its accepted connections.

A ``Server`` listens, and creates a ``ServerConnection`` for each accepted socket.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from minikafka.kernel.events import EventLog, EventRates, event_log
from minikafka.kernel.ports import Clock, Listener, Network, TimerHandle
from minikafka.server.listeners.connection_quotas import (
    ConnectionQuotas,
    ConnectionRefusal,
    ConnectionThrottle,
)
from minikafka.server.listeners.flow_control import Pause
from minikafka.server.listeners.listener_resources import ListenerResources, ServerConfig
from minikafka.server.listeners.listener_tls import AuthenticationFailed, ListenerTls
from minikafka.server.listeners.memory_budget import MemoryBudget
from minikafka.server.listeners.server_connection import IDLE_SWEEPS, FrameHandler, ServerConnection

if TYPE_CHECKING:  # imported by brokers that have SASL only
    from minikafka.server.listeners.listener_sasl import ListenerSasl


class Server:
    """Accept, count and close the connections of one listener (Kafka's ``SocketServer``).

    A connection that violates the protocol is closed and the reason is logged; other connections
    are not affected.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        config: ServerConfig,
        on_frame: FrameHandler,
        listener_name: str = "PLAINTEXT",
        log: EventLog | None = None,
        quotas: ConnectionQuotas | None = None,
        budget: MemoryBudget | None = None,
        tls: ListenerTls | None = None,
        sasl: ListenerSasl | None = None,
    ) -> None:
        self._network = network
        self.tls = tls
        self.sasl = sasl
        self._clock = clock
        self._config = config
        self._on_frame = on_frame
        self.listener_name = listener_name
        self._log = log or event_log("network", listener=listener_name)
        self.budget = budget or MemoryBudget()
        self._resources = ListenerResources(listener_name, config, clock, self._log, self.budget)
        self.clients = self._resources.clients
        self._quotas = quotas or ConnectionQuotas()
        self._listener: Listener | None = None
        self._connections: dict[int, ServerConnection] = {}  # bound: ``_quotas``
        self.accept_failures = 0
        self._accept_events = EventRates(burst=1)
        self._next_number = 0
        self._sweeper: TimerHandle | None = None
        self._is_ended = False
        self._all_gone: asyncio.Future[None] | None = None

    @property
    def port(self) -> int:
        """The bound port. Call only while listening."""
        assert self._listener is not None
        return self._listener.port

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def accepted_count(self) -> int:
        """How many connections were accepted since the start."""
        return self._next_number

    def queued_requests(self) -> tuple[int, int]:
        """Return how many requests wait to be served, and how many for their replies."""
        open_ = self._connections.values()
        return sum(len(c.held) for c in open_), sum(len(c.unanswered) for c in open_)

    async def start(self, host: str, port: int, holding: bool = False) -> int:
        """Listen and return the port. Raises OSError (address in use). With ``holding``,
        connections are accepted, but no request is served before ``enable_request_processing``
        (Kafka's name)."""
        self._resources.holding = holding
        self._listener = await self._network.listen(
            self._accept, host, port, self._accept_failed, self.tls
        )
        self._arm_sweeper()
        return self._listener.port

    def enable_request_processing(self) -> None:
        self._resources.holding = False
        for connection in list(self._connections.values()):
            connection.flow.end_reason(Pause.STARTING)

    async def close(self, grace_ms: int = 1000) -> None:
        """Stop accepting and close every connection. Written bytes are sent for at most
        ``grace_ms``; then the remaining connections are aborted."""
        self._stop_accepting()
        if not self._connections:
            return
        self._all_gone = asyncio.get_running_loop().create_future()
        for connection in list(self._connections.values()):
            connection.close()
        timer = self._clock.call_later(grace_ms, self._abort_all)
        await self._all_gone
        timer.cancel()

    def abandon(self) -> None:
        """Stop at once, as where the process is killed: nothing that is written is waited for."""
        self._stop_accepting()
        self._abort_all()

    def _stop_accepting(self) -> None:
        """Close the listening socket. A connection that the loop has accepted and not made yet is
        closed by ``opened``."""
        self._is_ended = True
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    # -- for connections

    def opened(self, connection: ServerConnection) -> None:
        self._connections[connection.number] = connection
        host = connection.client_host
        outcome = self._quotas.add(
            self.listener_name, host, connection.descriptor
        ) or self._quotas.throttle(self.listener_name, host, self._clock.monotonic_ms())
        if isinstance(outcome, ConnectionRefusal):
            # At max.connections, Kafka leaves the new connection in the backlog until another one
            # is closed. Here the client sees a close at once, and the log has the reason.
            connection.refuse(outcome.reason, limit=outcome.limit)
            return
        if outcome is not None:
            self._throttle(connection, outcome)
        if self._is_ended:
            connection.close()
        elif self.sasl is not None:
            self.sasl.begin(connection, self._on_frame)  # a certificate is not who the client is
        elif self.tls is not None:
            self._identify(connection, self.tls)

    def _throttle(self, connection: ServerConnection, throttle: ConnectionThrottle) -> None:
        """Serve the connection later, or close it then. Reading cannot be paused before it has
        begun, and uvloop begins after ``connection_made``."""
        connection.flow.mute(throttle.delay_ms)
        if not throttle.is_accepted:
            self._log.debug("connection_throttled", client=connection.client_host)
            self._clock.call_later(throttle.delay_ms, connection.close)

    def _identify(self, connection: ServerConnection, tls: ListenerTls) -> None:
        try:
            connection.principal = tls.principal(connection.transport, connection.client_host)
        except AuthenticationFailed:
            connection.close()

    def lost(self, connection: ServerConnection) -> None:
        self.clients.left(connection)
        if self._connections.pop(connection.number, None) is not None:
            self._quotas.remove(self.listener_name, connection.client_host)
        if self._all_gone is not None and not self._connections and not self._all_gone.done():
            self._all_gone.set_result(None)

    def _accept(self) -> ServerConnection:
        self._next_number += 1
        return ServerConnection(self._next_number, self, self._resources, self._on_frame)

    def _accept_failed(self, error: OSError) -> None:
        self.accept_failures += 1
        suppressed = self._accept_events.admit("", "accept", self._clock.monotonic_ms())
        if suppressed is not None:
            self._log.error("accept_failed", error=str(error), suppressed=suppressed)

    def _abort_all(self) -> None:
        for connection in list(self._connections.values()):
            connection.abort("shutdown")

    def _arm_sweeper(self) -> None:
        if self._config.connections_max_idle_ms >= 0:
            period_ms = max(1, self._config.connections_max_idle_ms // IDLE_SWEEPS)
            self._sweeper = self._clock.call_later(period_ms, self._sweep)

    def _sweep(self) -> None:
        for connection in list(self._connections.values()):
            if connection.sweep():
                connection.abort("idle", idle_ms=self._config.connections_max_idle_ms)
        self._arm_sweeper()
