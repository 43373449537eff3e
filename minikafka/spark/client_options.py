"""The options ``kafka.*``, which configure the Kafka client of a Spark process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from minikafka.kernel.client_security import ClientSecurity, security_keys
from minikafka.kernel.config import ConfigError
from minikafka.spark.option_parsing import OptionError, Options

PLAINTEXT: Final = ClientSecurity()


@dataclass(frozen=True)
class ClientOptions:
    """The settings of Kafka's consumers and producers that are used here, in snake case.

    Defaults are Kafka's, except that ``max_partition_fetch_bytes`` is 4 MiB instead of 1 MiB: a
    task reads a single partition."""

    bootstrap_servers: tuple[tuple[str, int], ...]
    client_id: str = "minikafka-spark"
    read_committed: bool = False
    check_crcs: bool = True
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 4_194_304
    fetch_max_wait_ms: int = 500
    request_timeout_ms: int = 30_000
    connection_setup_timeout_ms: int = 10_000
    api_timeout_ms: int = 60_000
    first_contact_timeout_ms: int = 10_000  # for a cluster that has never responded
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    acks: int = -1
    compression: str = "none"
    max_request_size: int = 1_048_576
    delivery_timeout_ms: int = 120_000
    security: ClientSecurity = PLAINTEXT


def client_options(values: Mapping[str, str]) -> ClientOptions:
    """Parse the options ``kafka.*`` among ``values``, whose keys are in lower case.

    Keys of the Java client that have no effect here are ignored; ``check_option_names`` refuses
    names that the Java client does not have, and those of TLS and logins that have no effect.
    Raises OptionError for an invalid value; it names no secret."""
    given = Options(values)
    isolation = (given.get("kafka.isolation.level") or "read_uncommitted").lower()
    if isolation not in ("read_uncommitted", "read_committed"):
        raise OptionError("kafka.isolation.level must be read_uncommitted or read_committed")
    numbers = {
        field: number
        for field, name in _NUMBERS.items()
        if (number := given.number(f"kafka.{name}", 0)) is not None
    }
    defaults = ClientOptions(())
    return ClientOptions(
        bootstrap_servers=_addresses(given.get("kafka.bootstrap.servers") or ""),
        client_id=given.get("kafka.client.id") or defaults.client_id,
        read_committed=isolation == "read_committed",
        check_crcs=given.flag("kafka.check.crcs", True),
        acks=_acks(given.get("kafka.acks") or "all"),
        compression=_compression(given.get("kafka.compression.type") or "none"),
        security=_security(given),
        **numbers,
    )


def _security(given: Options) -> ClientSecurity:
    """Parse the options of TLS and the login. Files are read by each process that connects."""
    texts: dict[str, Any] = {
        field: text
        for key, field in security_keys().items()
        if (text := given.get(f"kafka.{key}")) is not None
    }
    security = ClientSecurity(**texts)
    if is_plaintext(security):
        return security
    from minikafka.spark.secured import check_security

    try:
        check_security(security)
    except ConfigError as error:
        raise OptionError(f"in the options kafka.*: {error}") from None
    return security


def is_plaintext(security: ClientSecurity) -> bool:
    """Return whether connections have neither TLS nor a login, so that no module for them is
    imported."""
    return security.security_protocol.upper() == "PLAINTEXT"


def security_options(values: Mapping[str, str]) -> dict[str, str]:
    """Return the options of ``values``, whose keys are in lower case, that concern TLS and the
    login, for another reader or writer at the same brokers."""
    names = {f"kafka.{key}" for key in security_keys()}
    return {name: text for name, text in values.items() if name in names}


_NUMBERS: Final = {
    "fetch_max_bytes": "fetch.max.bytes",
    "max_partition_fetch_bytes": "max.partition.fetch.bytes",
    "fetch_max_wait_ms": "fetch.max.wait.ms",
    "request_timeout_ms": "request.timeout.ms",
    "connection_setup_timeout_ms": "socket.connection.setup.timeout.ms",
    "api_timeout_ms": "default.api.timeout.ms",
    "retry_backoff_ms": "retry.backoff.ms",
    "retry_backoff_max_ms": "retry.backoff.max.ms",
    "max_request_size": "max.request.size",
    "delivery_timeout_ms": "delivery.timeout.ms",
}


def _addresses(text: str) -> tuple[tuple[str, int], ...]:
    found = []
    for address in filter(None, (each.strip() for each in text.split(","))):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise OptionError(f"kafka.bootstrap.servers: {address!r} is not host:port")
        found.append((host.strip("[]"), int(port)))
    return tuple(found)


def _acks(text: str) -> int:
    if text.strip() not in ("0", "1", "-1", "all"):
        raise OptionError(f"kafka.acks must be all, -1, 0 or 1, not {text}")
    return -1 if text.strip() == "all" else int(text)


def _compression(text: str) -> str:
    name = text.strip().lower()
    if name not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise OptionError(f"kafka.compression.type must be none, gzip, snappy, lz4 or zstd: {text}")
    return name
