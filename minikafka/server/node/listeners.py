"""The listeners of a broker with their TLS and SASL: opened at the start, changed at run time.

Kafka: ``SocketServer`` and ``DynamicListenerConfig``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from minikafka.kernel.cluster import Endpoint
from minikafka.kernel.config import Config, ConfigError
from minikafka.kernel.events import event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.listeners import (
    SASL_PROTOCOLS,
    TLS_PROTOCOLS,
    Listeners,
    listener_change_problem,
    listeners,
)
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Network, World
from minikafka.server.broker.admin.dynamic_config import DynamicBrokerConfig
from minikafka.server.broker.apis.pipeline import Apis
from minikafka.server.listeners.connection_quotas import ConnectionQuotas
from minikafka.server.listeners.memory_budget import MemoryBudget
from minikafka.server.listeners.server import Server
from minikafka.server.listeners.server_connection import FrameHandler
from minikafka.server.node import config_views as views

if TYPE_CHECKING:
    from minikafka.server.node.sasl import BrokerSasl, CredentialOf, TokenOf
    from minikafka.server.node.tls import BrokerTls


@dataclass(frozen=True, slots=True)
class Serving:
    """What the listeners of a broker share. ``on_frame`` serves requests by ``apis``. ``register``
    writes the broker's znode again, with the present ``advertised`` endpoints; it raises
    CoordinationError."""

    apis: Apis
    on_frame: FrameHandler
    quotas: ConnectionQuotas
    memory: MemoryBudget
    register: Callable[[], Awaitable[None]]


class BrokerListeners:
    """The listeners of a broker. Raises ConfigError if one cannot be as configured.

    Before a change of the configuration is written, ``check`` and ``prepare`` look whether it can
    be applied. ``change`` applies it when it has arrived from ZooKeeper.
    """

    def __init__(
        self,
        world: World,
        dynamic: DynamicBrokerConfig,
        hostname: str,
        credential_of: CredentialOf,
        token_of: TokenOf,
        metrics: Metrics,
    ) -> None:
        self._world = world
        self._dynamic = dynamic
        self._hostname = hostname
        self._credential_of = credential_of
        self._token_of = token_of
        self._metrics = metrics
        self._servers: dict[str, Server] = {}
        self._log = event_log("network")
        self.current = listeners(dynamic.current, hostname)
        # Of listeners that were removed, too: their last requests may be served still.
        self.protocols = {e.listener: e.security_protocol for e in self.current.bound}
        # What the broker's znode has; None while it has none, or one of an earlier session.
        self.registered: tuple[Endpoint, ...] | None = None
        self._tls: BrokerTls | None = None
        self._sasl: dict[str, BrokerSasl] = {}
        for endpoint in self.current.bound:
            self._secure(endpoint)
        dynamic.on_check(self.check)
        dynamic.on_prepare(self.prepare)

    # -- connections to other brokers

    def network(self) -> Network:
        """Return the Network with which this broker connects to others: with the TLS and the login
        of the listener that brokers use."""
        return self._network_of(self.current.inter_broker)

    def control_network(self) -> Network | None:
        """Return the Network for the control-plane listener of other brokers; None without."""
        name = self.current.control_plane
        return None if name is None else self._network_of(name)

    def _network_of(self, listener: str) -> Network:
        sasl, tls = self._sasl.get(listener), self._tls
        network = self._world.network if tls is None else tls.network_of(listener)
        return network if sasl is None else sasl.network(network)

    # -- serving

    @property
    def servers(self) -> list[Server]:
        """The open listeners, in the order of the configuration."""
        found = (self._servers.get(each.listener) for each in self.current.bound)
        return [server for server in found if server is not None]

    @property
    def advertised(self) -> tuple[Endpoint, ...]:
        """The advertised endpoints of the open listeners, with the bound port where 0 is
        configured."""
        chosen = {e.listener: self._servers[e.listener].port for e in self._open() if not e.port}
        return tuple(
            replace(e, port=chosen.get(e.listener, e.port))
            for e in self.current.advertised
            if e.listener in self._servers
        )

    def _open(self) -> list[Endpoint]:
        return [each for each in self.current.bound if each.listener in self._servers]

    async def open(self, serving: Serving, tasks: asyncio.TaskGroup) -> None:
        """Open the listeners, which hold requests until ``enable_request_processing``. Raises
        ConfigError, or OSError (address in use)."""
        self._serving, self._tasks = serving, tasks
        self._protect()
        for endpoint in self.current.bound:
            await self._listen(endpoint, holding=True)

    def enable_request_processing(self) -> None:
        for server in self.servers:
            server.enable_request_processing()

    async def close(self) -> None:
        for server in self.servers:
            await server.close()

    async def _listen(self, endpoint: Endpoint, holding: bool) -> None:
        """Raises ConfigError, OSError."""
        name, serving, sasl = endpoint.listener, self._serving, self._sasl.get(endpoint.listener)
        if sasl is not None:
            await sasl.start(self._tasks)
        server = Server(
            self._world.network,
            self._world.clock,
            views.server(self._dynamic.current),
            serving.on_frame,
            name,
            quotas=serving.quotas,
            budget=serving.memory,
            tls=self._tls.listeners.get(name) if self._tls is not None else None,
            sasl=None if sasl is None else sasl.listener(name, serving.apis.api_versions),
        )
        await server.start(endpoint.host, endpoint.port, holding)
        self._servers[name] = server
        register_authentication(self._metrics, name, server)

    def _protect(self) -> None:
        several = len(self.current.bound) > 1
        self._serving.quotas.protect(self.current.inter_broker if several else None)

    def _secure(self, endpoint: Endpoint) -> None:
        """Make the TLS and SASL of a listener of ``current``. Raises ConfigError."""
        config, name = self._dynamic.current, endpoint.listener
        if endpoint.security_protocol in SASL_PROTOCOLS:
            self._sasl[name] = self._sasl_of(config, self.current, name)
        if endpoint.security_protocol not in TLS_PROTOCOLS:
            return
        if self._tls is not None:
            self._tls.add(config, endpoint)
            return
        self._tls = tls = self._tls_of(config, self.current, name)
        self._dynamic.on_check(tls.check)
        self._dynamic.on_change(tls.change)
        self._dynamic.on_reload(tls.reload)

    def _tls_of(self, config: Config, of: Listeners, name: str) -> BrokerTls:
        from minikafka.server.node.tls import BrokerTls

        return BrokerTls(config, of.only(name), self._world)

    def _sasl_of(self, config: Config, of: Listeners, name: str) -> BrokerSasl:
        """Return the SASL of a listener, with the login for it if this broker connects to it."""
        from minikafka.server.node.sasl import BrokerSasl

        own = of.only(name)
        if name == of.control_plane:
            own = replace(own, inter_broker=name)
        return BrokerSasl(config, own, self._world, self._credential_of, self._token_of)

    # -- changes at run time

    def check(self, before: Config, after: Config) -> None:
        """Raise ConfigError unless the listeners may change so."""
        problem = listener_change_problem(before, after)
        if problem is not None:
            raise ConfigError(problem)
        wanted = listeners(after, self._hostname)
        for endpoint in self._new(wanted):
            if endpoint.security_protocol in TLS_PROTOCOLS:
                self._tls_of(after, wanted, endpoint.listener)
            if endpoint.security_protocol in SASL_PROTOCOLS:
                self._sasl_of(after, wanted, endpoint.listener)

    async def prepare(self, after: Config) -> None:
        """Raise ConfigError if a new listener could not be opened."""
        for endpoint in self._new(listeners(after, self._hostname)):
            try:
                probe = await self._world.network.listen(_Refusal, endpoint.host, endpoint.port)
            except OSError as error:
                raise ConfigError(
                    f"listener {endpoint.listener} cannot be opened: {error.strerror or error}"
                ) from error
            probe.close()

    async def change(self) -> None:
        """Open and close listeners as the configuration says, and write the znode of the broker if
        others are advertised. Connections of a listener that was removed are closed.

        A listener that cannot be opened is logged, not advertised, and tried again with the next
        change. Raises CoordinationError."""
        self.current = listeners(self._dynamic.current, self._hostname)
        self.protocols |= {e.listener: e.security_protocol for e in self.current.bound}
        for name in self._servers.keys() - {each.listener for each in self.current.bound}:
            await self._remove(name)
        for endpoint in self.current.bound:
            if endpoint.listener not in self._servers:
                await self._add(endpoint)
        self._protect()
        await self.register_if_changed()

    async def register_if_changed(self) -> None:
        """Write the znode of the broker if it is there and others are advertised. Before the broker
        is registered, a znode of its id may be that of another broker. Raises CoordinationError."""
        if self.registered is not None and self.advertised != self.registered:
            await self._serving.register()

    def _new(self, wanted: Listeners) -> list[Endpoint]:
        return [e for e in wanted.bound if self.current.endpoint(e.listener) is None]

    async def _add(self, endpoint: Endpoint) -> None:
        try:
            self._secure(endpoint)
            await self._listen(endpoint, holding=False)
        except (ConfigError, OSError) as error:
            self._forget(endpoint.listener)
            self._log.error("listener_not_opened", listener=endpoint.listener, error=str(error))
        else:
            self._log.info("listener_opened", listener=endpoint.listener, port=endpoint.port)

    async def _remove(self, name: str) -> None:
        await self._servers.pop(name).close()
        self._forget(name)
        self._log.info("listener_closed", listener=name)

    def _forget(self, name: str) -> None:
        sasl = self._sasl.pop(name, None)
        if sasl is not None:
            sasl.close()
        if self._tls is not None:
            self._tls.remove(name)


def register_authentication(metrics: Metrics, listener: str, server: Server) -> None:
    """Register what a listener counts of its clients' logins, if they log in."""
    for name in authentication_counts(server):
        metrics.gauge(
            f"kafka.server:type=socket-server-metrics,listener={listener},networkProcessor=0:{name}",
            lambda name=name: authentication_counts(server)[name],  # type: ignore[misc]
        )


def authentication_counts(server: Server) -> Mapping[str, int]:
    """Return how many logins have succeeded or failed, by the names of Kafka's
    ``socket-server-metrics``; nothing for a listener without a login."""
    tls, sasl = server.tls, server.sasl
    if sasl is None:
        if tls is None:
            return {}
        return {
            "successful-authentication-total": tls.successful,
            "failed-authentication-total": tls.failed,
        }
    counts = sasl.counts
    handshakes = 0 if tls is None else tls.failed
    return {
        "successful-authentication-total": counts.successful_authentication,
        "failed-authentication-total": counts.failed_authentication + handshakes,
        "successful-reauthentication-total": counts.successful_reauthentication,
        "failed-reauthentication-total": counts.failed_reauthentication,
        "successful-authentication-no-reauth-total": counts.successful_authentication_no_reauth,
        "expired-connections-killed-count": counts.expired_connections_killed,
    }


class _Refusal(asyncio.BufferedProtocol):
    """Closes a connection that arrives while a port is only tried."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()

    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(1)

    def buffer_updated(self, nbytes: int) -> None:
        """Nothing is read."""
