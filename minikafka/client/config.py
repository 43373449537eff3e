"""The configuration that every kind of client shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from minikafka.kernel.client_security import ClientSecurity
from minikafka.kernel.lazy_dataclass import dataclass

DEFAULT_PORT = 9092

_LEAST: Final = {
    "request_timeout_ms": 0,
    "default_api_timeout_ms": 0,
    "metadata_max_age_ms": 0,
    "retry_backoff_ms": 0,
    "retry_backoff_max_ms": 0,
    "reconnect_backoff_ms": 0,
    "reconnect_backoff_max_ms": 0,
    "socket_connection_setup_timeout_ms": 0,
    "max_in_flight_requests_per_connection": 1,
}


@dataclass(frozen=True, slots=True)
class ClientConfig(ClientSecurity):
    """Kafka's client keys in snake case, with Kafka's defaults.

    ``bootstrap_servers`` is ``host1:port1,host2:port2``. The fields for TLS and the login are those
    of ``ClientSecurity``. Raises ValueError for invalid values; files are read when a client is
    made.
    """

    bootstrap_servers: str = "localhost:9092"
    client_id: str = "minikafka"
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    metadata_max_age_ms: int = 300_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    socket_connection_setup_timeout_ms: int = 10_000
    max_in_flight_requests_per_connection: int = 5
    allow_auto_create_topics: bool = True

    def __post_init__(self) -> None:
        check_least(self, _LEAST)


def check_least(config: object, least: Mapping[str, int]) -> None:
    """Check that fields are whole numbers and not below their bounds. Raises ValueError with
    Kafka's names."""
    for name, bound in least.items():
        value = getattr(config, name)
        if not isinstance(value, int) or value < bound:
            key = name.replace("_", ".")
            raise ValueError(f"{key} must be a whole number from {bound} on, not {value!r}")


def parse_bootstrap_servers(text: str) -> list[tuple[str, int]]:
    """Parse ``"a:1,b:2"`` into pairs. IPv6 hosts stand in brackets. Raises ValueError."""
    servers: list[tuple[str, int]] = []
    for part in text.split(","):
        server = part.strip().rpartition("://")[2]  # Kafka, too, ignores a scheme
        if not server:
            continue
        host, colon, port = server.rpartition(":")
        if not colon or port.endswith("]"):
            host, port = server, str(DEFAULT_PORT)
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"bootstrap.servers: {server!r} is not host:port")
        servers.append((host, int(port)))
    if not servers:
        raise ValueError("bootstrap.servers names no server")
    return servers
