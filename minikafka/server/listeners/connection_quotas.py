"""How many connections a broker accepts: in all, of one address, a second, by its descriptors.

Every listener of a broker shares one ``ConnectionQuotas``, as Kafka's ``SocketServer`` does.

A connection that cannot be accepted for lack of descriptors never gets here:
``world/real/network.Acceptor`` closes it, with the event ``accept_failed`` (one a second) and the
metric ``minikafka.network:type=Acceptor,name=AcceptFailuresPerSec``.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from minikafka.core.client_quota import Accounts, RateConfig, SampledRate
from minikafka.kernel.lazy_dataclass import dataclass

UNLIMITED = 2**31 - 1
IPV4_MAPPED = "::ffff:"  # an IPv4 client of a listener on every interface
# Connections to clients may take half of the descriptors that the system grants the process, and
# none of the last quarter: logs, and connections to ZooKeeper and other brokers, need them. A
# listener for brokers alone may go on to the last quarter.
CLIENT_SHARE = 2
RESERVED_SHARE = 4
# New connections of a listener that wait because of their rate; more are refused. In Kafka they
# wait in the accept queue, which has as many places (socket.listen.backlog.size).
MAX_WAITING = 50


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """``max.connections`` and ``max.connection.creation.rate`` of one listener."""

    max_connections: int = UNLIMITED
    max_connection_creation_rate: int = UNLIMITED


@dataclass(frozen=True, slots=True)
class ConnectionQuotaConfig:
    """``max.connections``, ``max.connections.per.ip`` with its overrides, by address, and
    ``max.connection.creation.rate``.

    ``listeners`` has the limits of single listeners by name. As in Kafka, the limits of the broker
    are those of each other listener, too."""

    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_connection_creation_rate: int = UNLIMITED
    listeners: Mapping[str, ListenerLimits] = field(default_factory=dict)

    def limits_of(self, listener: str) -> ListenerLimits:
        of_all = ListenerLimits(self.max_connections, self.max_connection_creation_rate)
        return self.listeners.get(listener, of_all)


@dataclass(frozen=True, slots=True)
class ConnectionRefusal:
    """Why a connection is refused, and the limit."""

    reason: str
    limit: int


class ConnectionThrottle(NamedTuple):
    """Serve a connection after ``delay_ms``, or close it then if it is not accepted."""

    delay_ms: int
    is_accepted: bool


class _Listener:
    """The rate of new connections of a listener, and when those that wait will be served."""

    def __init__(self, config: RateConfig) -> None:
        self.rate = SampledRate(config)
        self.waiting: deque[int] = deque()  # times; bound: ``MAX_WAITING``


class ConnectionQuotas:
    """Counts the connections of a broker (Kafka's ``ConnectionQuotas``).

    ``protected_listener`` is the listener that brokers use among themselves, if clients have
    another one: the broker's limits of connections and of their rate do not apply to it, only its
    own.
    ``descriptors`` is the number of descriptors that the process may open. ``rates`` are the
    windows of the creation rates.
    """

    def __init__(
        self,
        config: ConnectionQuotaConfig | None = None,
        protected_listener: str | None = None,
        descriptors: int = UNLIMITED,
        rates: RateConfig | None = None,
    ) -> None:
        self._config = config or ConnectionQuotaConfig()
        self._protected_listener = protected_listener
        self._client_limit = descriptors // CLIENT_SHARE
        self._first_reserved = descriptors - descriptors // RESERVED_SHARE
        self._total = 0
        self._by_listener: Counter[str] = Counter()
        self._by_host: Counter[str] = Counter()
        self._rates = windows = rates or RateConfig()
        self._broker_rate = SampledRate(windows)
        self._listeners: dict[str, _Listener] = {}
        self._ip_limits: dict[str | None, int] = {}  # None: of all other addresses
        self._ip_rates: Accounts[str, SampledRate] = Accounts(lambda: SampledRate(windows))

    @property
    def total(self) -> int:
        return self._total

    def configure(self, config: ConnectionQuotaConfig) -> None:
        """Change the limits for new connections; existing ones stay open."""
        self._config = config

    def protect(self, listener: str | None) -> None:
        """Name the listener that brokers use among themselves; None if clients use it, too."""
        self._protected_listener = listener

    def limit_ip(self, address: str | None, rate: int | None) -> None:
        """Set the ``connection_creation_rate`` of an address, or of all that have none (None). A
        ``rate`` of None removes the limit."""
        if rate is None:
            self._ip_limits.pop(address, None)
        else:
            self._ip_limits[address] = rate

    def clear_ip_limits(self) -> None:
        self._ip_limits.clear()

    def add(self, listener: str, host: str, descriptor: int = 0) -> ConnectionRefusal | None:
        """Count a connection, and return why it must be refused, if it must. It counts until
        ``remove`` in any case.

        The system gives a new connection the least unused ``descriptor``, so all below are in use.
        """
        host = _address(host)
        others, of_host, of_listener = self._total, self._by_host[host], self._by_listener[listener]
        self._total += 1
        self._by_host[host] += 1
        self._by_listener[listener] += 1
        if descriptor >= self._first_reserved:
            return ConnectionRefusal("descriptors", self._first_reserved)
        own = self._config.limits_of(listener).max_connections
        if of_listener >= own:
            return ConnectionRefusal("max_connections", own)
        if listener != self._protected_listener:
            if others >= self._config.max_connections:
                return ConnectionRefusal("max_connections", self._config.max_connections)
            if others >= self._client_limit:
                return ConnectionRefusal("descriptors", self._client_limit)
        config = self._config
        limit = config.max_connections_per_ip_overrides.get(host, config.max_connections_per_ip)
        if of_host >= limit:
            return ConnectionRefusal("max_connections_per_ip", limit)
        return None

    def throttle(
        self, listener: str, host: str, now_ms: int
    ) -> ConnectionThrottle | ConnectionRefusal | None:
        """Return how a new connection is slowed down by ``max.connection.creation.rate`` and by the
        ``connection_creation_rate`` of its address; None if it is not.

        In Kafka a listener accepts the next connection after the delay. Here it is accepted, and
        served when Kafka would accept it, so connections wait for those before them."""
        limit = self._config.limits_of(listener).max_connection_creation_rate
        of_broker = self._config.max_connection_creation_rate
        if listener == self._protected_listener:
            of_broker = UNLIMITED
        if limit == of_broker == UNLIMITED and not self._ip_limits:
            return None
        state = self._listeners.get(listener)
        if state is None:
            state = self._listeners[listener] = _Listener(self._rates)
        waiting = state.waiting
        while waiting and waiting[0] <= now_ms:
            waiting.popleft()
        if len(waiting) >= MAX_WAITING:
            return ConnectionRefusal("max_connection_creation_rate", min(limit, of_broker))
        served_ms = waiting[-1] if waiting else now_ms
        both = ((state.rate, limit), (self._broker_rate, of_broker))
        rates = [(rate, most) for rate, most in both if most != UNLIMITED]
        throttles = [self._recorded(rate, most, served_ms) for rate, most in rates]
        served_ms += max(throttles, default=0)
        held_ms = self._throttle_ip(_address(host), served_ms)
        if held_ms:
            for rate, _ in rates:
                rate.record(-1, served_ms)
        if served_ms > now_ms:
            waiting.append(served_ms)
        elif not held_ms:
            return None
        return ConnectionThrottle(served_ms + held_ms - now_ms, not held_ms)

    def _throttle_ip(self, address: str, now_ms: int) -> int:
        """Return for how long to hold a connection before it is closed; 0 to accept it."""
        limit = self._ip_limits.get(address, self._ip_limits.get(None, UNLIMITED))
        if limit == UNLIMITED:
            return 0
        rate = self._ip_rates.of(address, now_ms).use
        held_ms = self._recorded(rate, limit, now_ms)
        if held_ms:
            rate.record(-1, now_ms)
        return held_ms

    def _recorded(self, rate: SampledRate, limit: int, now_ms: int) -> int:
        """Record a connection, and return its throttle time."""
        rate.record(1, now_ms)
        return min(rate.throttle_ms(limit, now_ms), self._rates.window_ms)

    def remove(self, listener: str, host: str) -> None:
        host = _address(host)
        assert self._by_host[host] > 0, f"no connection of {host}"
        self._total -= 1
        for counter, key in ((self._by_host, host), (self._by_listener, listener)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]


def _address(host: str) -> str:
    return host.removeprefix(IPV4_MAPPED) if "." in host else host
