"""How many connections a broker accepts: in all, from one address, and with the descriptors it has.

Every listener of a broker shares one ``ConnectionQuotas``, as Kafka's ``SocketServer`` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

UNLIMITED = 2**31 - 1
IPV4_MAPPED = "::ffff:"  # an IPv4 client of a listener on every interface
# Connections to clients may take half of the descriptors that the system grants the process, and
# none of the last quarter: logs, and connections to ZooKeeper and other brokers, need them. A
# listener for brokers alone may go on to the last quarter.
CLIENT_SHARE = 2
RESERVED_SHARE = 4


@dataclass(frozen=True, slots=True)
class ConnectionQuotaConfig:
    """``max.connections`` and ``max.connections.per.ip`` with its overrides, by address."""

    max_connections: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConnectionRefusal:
    """Why a connection is refused, and the limit."""

    reason: str
    limit: int


class ConnectionQuotas:
    """Counts the connections of a broker (Kafka's ``ConnectionQuotas``).

    ``protected_listener`` is the listener that brokers use among themselves, if clients have
    another one: ``max.connections`` does not apply to it. ``descriptors`` is the number of
    descriptors that the process may open.
    """

    def __init__(
        self,
        config: ConnectionQuotaConfig | None = None,
        protected_listener: str | None = None,
        descriptors: int = UNLIMITED,
    ) -> None:
        self._config = config or ConnectionQuotaConfig()
        self._protected_listener = protected_listener
        self._client_limit = descriptors // CLIENT_SHARE
        self._first_reserved = descriptors - descriptors // RESERVED_SHARE
        self._total = 0
        self._by_host: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self._total

    def configure(self, config: ConnectionQuotaConfig) -> None:
        """Change the limits for new connections; existing ones stay open."""
        self._config = config

    def add(self, listener: str, host: str, descriptor: int = 0) -> ConnectionRefusal | None:
        """Count a connection, and return why it must be refused, if it must. It counts until
        ``remove`` in any case.

        The system gives a new connection the least unused ``descriptor``, so all below are in use.
        """
        host = _address(host)
        others, of_host = self._total, self._by_host[host]
        self._total += 1
        self._by_host[host] += 1
        if descriptor >= self._first_reserved:
            return ConnectionRefusal("descriptors", self._first_reserved)
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

    def remove(self, host: str) -> None:
        host = _address(host)
        assert self._by_host[host] > 0, f"no connection of {host}"
        self._total -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]


def _address(host: str) -> str:
    return host.removeprefix(IPV4_MAPPED) if "." in host else host
