"""A listening socket: accepts connections, counts them, sweeps the idle ones out."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import Clock, Listener, Network, TimerHandle
from minikafka.network.connection import IDLE_SWEEPS, Connection, FrameHandler, ServerConfig
from minikafka.network.unsent import UnsentReplies

__all__ = ["Connection", "FrameHandler", "Server", "ServerConfig"]


class Server:
    """Kafka's ``SocketServer`` for one listener.

    A connection that misbehaves is closed with a logged reason; the others never notice.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        config: ServerConfig,
        on_frame: FrameHandler,
        listener_name: str = "PLAINTEXT",
        log: EventLog | None = None,
        unsent: UnsentReplies | None = None,
    ) -> None:
        self._network = network
        self._clock = clock
        self._config = config
        self._on_frame = on_frame
        self._listener_name = listener_name
        self._log = log or event_log("network", listener=listener_name)
        self.holding = False
        self.unsent = unsent or UnsentReplies()
        self._listener: Listener | None = None
        self._connections: dict[int, Connection] = {}  # bound: max_connections
        self._next_number = 0
        self._sweeper: TimerHandle | None = None
        self._all_gone: asyncio.Future[None] | None = None

    @property
    def port(self) -> int:
        """The port bound. Only while listening."""
        assert self._listener is not None
        return self._listener.port

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def start(self, host: str, port: int, holding: bool = False) -> int:
        """Listen; returns the port. Raises OSError (address in use). ``holding``: accept, and
        serve nobody before ``enable_request_processing`` (Kafka's name)."""
        self.holding = holding
        self._listener = await self._network.listen(self._accept, host, port)
        self._arm_sweeper()
        return self._listener.port

    def enable_request_processing(self) -> None:
        self.holding = False
        for connection in list(self._connections.values()):
            connection.serve_held()

    def set_max_connections(self, limit: int) -> None:
        """From now on; those that are there stay."""
        self._config = replace(self._config, max_connections=limit)

    def stop_accepting(self) -> None:
        """Connections already accepted live on."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def close(self, grace_ms: int = 1000) -> None:
        """Stop accepting and hang up on all: what is written is sent, for at most ``grace_ms``."""
        self.stop_accepting()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        if not self._connections:
            return
        self._all_gone = asyncio.get_running_loop().create_future()
        for connection in list(self._connections.values()):
            connection.close()
        timer = self._clock.call_later(grace_ms, self._abort_all)
        await self._all_gone
        timer.cancel()

    # -- for connections

    def opened(self, connection: Connection) -> None:
        if len(self._connections) >= self._config.max_connections:
            # Kafka leaves the newcomer in the backlog until another one goes; here it is told.
            self._connections[connection.number] = connection
            connection.refuse("max_connections", limit=self._config.max_connections)
            return
        self._connections[connection.number] = connection
        if self._all_gone is not None:
            connection.close()

    def lost(self, connection: Connection) -> None:
        self._connections.pop(connection.number, None)
        if self._all_gone is not None and not self._connections and not self._all_gone.done():
            self._all_gone.set_result(None)

    def _accept(self) -> Connection:
        self._next_number += 1
        return Connection(
            self._next_number, self, self._config, self._on_frame, self._listener_name, self._log
        )

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
