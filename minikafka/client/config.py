"""The configuration that every kind of client shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

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
class ClientConfig:
    """Kafka's client keys in snake case, with Kafka's defaults.

    ``bootstrap_servers`` is ``host1:port1,host2:port2``. ``security_protocol`` is PLAINTEXT, SSL,
    SASL_PLAINTEXT or SASL_SSL; the ``ssl`` fields name PEM or PKCS12 files, or have PEM text. A
    login needs a ``sasl_mechanism`` (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI), and
    either ``sasl_jaas_config`` or, as with librdkafka, ``sasl_username`` and ``sasl_password``.
    Raises ValueError for invalid values; files are read when a client is made.
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
    security_protocol: str = "PLAINTEXT"
    ssl_truststore_location: str | None = None
    ssl_truststore_certificates: str | None = None
    ssl_truststore_password: str | None = field(default=None, repr=False)
    ssl_keystore_location: str | None = None
    ssl_keystore_certificate_chain: str | None = None
    ssl_keystore_key: str | None = field(default=None, repr=False)
    ssl_keystore_password: str | None = field(default=None, repr=False)
    ssl_key_password: str | None = field(default=None, repr=False)
    ssl_endpoint_identification_algorithm: str = "https"
    ssl_enabled_protocols: str = "TLSv1.2,TLSv1.3"
    ssl_cipher_suites: str = ""
    sasl_mechanism: str = "GSSAPI"
    sasl_jaas_config: str | None = field(default=None, repr=False)
    sasl_kerberos_service_name: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)

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
        server = part.strip()
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
