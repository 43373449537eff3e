"""The listeners of a broker: where it binds, what it advertises, which one brokers use."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from minikafka.kernel.cluster import Endpoint
from minikafka.kernel.config import LISTENER_PREFIX, Config, ConfigError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.security_settings import CHANGED_WHILE_OPEN

_LISTENER = re.compile(r"^([A-Za-z0-9_.-]+)://\[?([^\]/]*?)\]?:(\d+)$")
# It begins with a letter: the others are meant to be addresses.
_HOST_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TLS_PROTOCOLS = ("SSL", "SASL_SSL")
SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
DEBUG_LISTENER = "debug.listener"
METRICS_LISTENER = "metrics.listener"
CONTROL_PLANE = "control.plane.listener.name"


@dataclass(frozen=True, slots=True)
class Listeners:
    """Endpoints in configured order; ``inter_broker`` is the name of the listener for brokers,
    ``control_plane`` that for the controller's requests, if it is another one."""

    bound: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    inter_broker: str
    control_plane: str | None = None

    def endpoint(self, name: str) -> Endpoint | None:
        """Return where the listener of this name binds."""
        return next((each for each in self.bound if each.listener == name), None)

    def only(self, *names: str) -> Listeners:
        """Return these listeners without the others, which are advertised still."""
        return replace(self, bound=tuple(e for e in self.bound if e.listener in names))


def listeners(config: Config, hostname: str) -> Listeners:
    """Return the listeners of a broker's configuration.

    ``hostname`` is advertised for a listener without a host. Raises ConfigError for invalid or
    unsupported listeners."""
    protocols = _protocols(config.list("listener.security.protocol.map"))
    bound = _parse("listeners", config.list("listeners"), protocols)
    given = config.optional("advertised.listeners")
    advertised = _parse("advertised.listeners", given, protocols) if given else bound
    names = {endpoint.listener for endpoint in bound}
    for endpoint in advertised:
        if endpoint.listener not in names:
            raise ConfigError(f"advertised.listeners names {endpoint.listener}, not in listeners")
        if given and endpoint.host in ("", "0.0.0.0", "::"):
            raise ConfigError("advertised.listeners needs a host that others can connect to")
    shown = tuple(
        replace(e, host=hostname) if e.host in ("", "0.0.0.0", "::") else e for e in advertised
    )
    inter_broker = _inter_broker(config, shown)
    return Listeners(bound, shown, inter_broker, _control_plane(config, shown, inter_broker))


def listener_change_problem(before: Config, after: Config) -> str | None:
    """Return why the listeners of a running broker cannot change so; None if they can (Kafka's
    ``DynamicListenerConfig.validateReconfiguration``).

    A listener that stays keeps its address, its protocol and its own settings, except TLS stores
    and limits. Raises ConfigError for listeners with which no broker could start."""
    old, new = listeners(before, ""), listeners(after, "")
    for endpoint in new.bound:
        name = endpoint.listener
        limits = after.of_listener(name)
        for key in ("max.connections", "max.connection.creation.rate"):
            if limits.integer(key) <= 0 and before.values.get(key) != after.values.get(key):
                return f"Invalid {key} {limits.integer(key)}"
        known = old.endpoint(name)
        if known is None:
            continue
        if known.security_protocol != endpoint.security_protocol:
            return f"Security protocol cannot be updated for existing listener {name}"
        if known != endpoint:
            return f"The address of existing listener {name} cannot be updated"
        if _fixed_settings(before, name) != _fixed_settings(after, name):
            return (
                f"Configs cannot be updated dynamically for existing listener {name}, restart "
                "broker or create a new listener for update"
            )
    return None


def _fixed_settings(config: Config, listener: str) -> dict[str, str]:
    """Return the settings of a listener that cannot change while it exists."""
    prefix = f"{LISTENER_PREFIX}{listener.lower()}."
    return {
        name: text
        for name, text in config.given.items()
        if name.startswith(prefix) and name.removeprefix(prefix) not in CHANGED_WHILE_OPEN
    }


def bound_names(config: Config) -> tuple[str, ...]:
    """Return the names of the listeners in a configuration, which may be invalid otherwise."""
    return tuple(value.partition(":")[0].strip().upper() for value in config.list("listeners"))


def connection_overrides(text: str) -> dict[str, int]:
    """Parse ``max.connections.per.ip.overrides``: ``host:count,...``, where a host is an address or
    a name, which is not resolved here. Raises ValueError."""
    found = {}
    for item in filter(None, map(str.strip, text.split(","))):
        address, _, count = item.rpartition(":")
        if not count.strip().isdecimal():
            raise ValueError(f"{item} is not host:count")
        host = address.strip()
        try:
            host = str(ipaddress.ip_address(host.strip("[]")))
        except ValueError:
            if not _HOST_NAME.fullmatch(host):
                raise ValueError(f"{host or item} is no IP address and no host name") from None
        found[host] = int(count)
    return found


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def connection_overrides_problem(value: str) -> str | None:
    try:
        connection_overrides(value)
    except ValueError as error:
        return str(error)
    return None


def debug_listener_problem(value: str) -> str | None:
    """Return why a value of ``debug.listener`` is invalid; None for a valid or empty one.

    Only loopback addresses are allowed: the listener shows requests of all clients and has no
    login. With port 0 the system chooses one, which the broker describes as its setting."""
    match = _LISTENER.match(value)
    if not value:
        return None
    if not match or match[1].upper() != "HTTP" or int(match[3]) > 65535:
        return "must be HTTP://host:port"
    return None if is_loopback(match[2]) else "must name a loopback address, such as 127.0.0.1"


def debug_listener(value: str | None) -> Endpoint | None:
    """Parse a value of ``debug.listener``; return None if it is unset or empty.

    Raises ConfigError."""
    if not value:
        return None
    problem = debug_listener_problem(value)
    match = _LISTENER.match(value)
    if problem or not match:
        raise ConfigError(f"{DEBUG_LISTENER}={value} {problem}")
    return Endpoint(match[2], int(match[3]), "HTTP", "HTTP")


def debug_listener_text(host: str, port: int) -> str:
    """Return the value of ``debug.listener`` for an address."""
    return f"HTTP://[{host}]:{port}" if ":" in host else f"HTTP://{host}:{port}"


def metrics_listener_problem(value: str) -> str | None:
    """Return why a value of ``metrics.listener`` is invalid; None for a valid or empty one."""
    match = _LISTENER.match(value)
    if not value or (match and match[1].upper() == "HTTP" and 1 <= int(match[3]) <= 65535):
        return None
    return "must be HTTP://host:port"


def metrics_listener(value: str | None) -> Endpoint | None:
    """Parse a value of ``metrics.listener``; return None if it is unset or empty. Without a host it
    is the loopback interface: other interfaces have to be named.

    Raises ConfigError."""
    if not value:
        return None
    problem = metrics_listener_problem(value)
    match = _LISTENER.match(value)
    if problem or not match:
        raise ConfigError(f"{METRICS_LISTENER}={value} {problem}")
    return Endpoint(match[2] or "127.0.0.1", int(match[3]), "HTTP", "HTTP")


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address or ``localhost``; names are not resolved."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _protocols(pairs: Sequence[str]) -> dict[str, str]:
    protocols = {}
    for pair in pairs:
        name, separator, protocol = pair.partition(":")
        if not separator:
            raise ConfigError(f"listener.security.protocol.map needs NAME:PROTOCOL, not {pair}")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def _parse(key: str, values: Sequence[str], protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    endpoints = []
    for value in values:
        match = _LISTENER.match(value)
        if not match or int(match[3]) > 65535:
            raise ConfigError(f"{key} needs NAME://host:port, not {value}")
        name = match[1].upper()
        protocol = protocols.get(name)
        if protocol is None:
            raise ConfigError(f"{key}: listener.security.protocol.map has no protocol for {name}")
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"{key}: {protocol} is no security protocol; there are "
                f"{', '.join(SECURITY_PROTOCOLS)}"
            )
        endpoints.append(Endpoint(match[2], int(match[3]), name, protocol))
    names = [endpoint.listener for endpoint in endpoints]
    if len(set(names)) < len(names):
        raise ConfigError(f"{key}: each listener needs a different name")
    return tuple(endpoints)


def _control_plane(config: Config, advertised: Sequence[Endpoint], inter_broker: str) -> str | None:
    name = config.optional(CONTROL_PLANE)
    if name is None:
        return None
    found = next((e for e in advertised if e.listener == str(name).upper()), None)
    if found is None:
        raise ConfigError(f"{CONTROL_PLANE}={name} is not an advertised listener")
    if found.listener == inter_broker:
        raise ConfigError(
            f"{CONTROL_PLANE}, when defined, should have a different value from the inter broker "
            f"listener name. Currently they both have the value {name}"
        )
    return found.listener


def _inter_broker(config: Config, advertised: Sequence[Endpoint]) -> str:
    key, by_protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
    name = config.optional(key)
    if name is None:
        key, name = by_protocol, config.string(by_protocol)
    elif by_protocol in config.given:
        raise ConfigError(f"only one of {key} and {by_protocol} may be set")
    found = next((e for e in advertised if e.listener == str(name).upper()), None)
    if found is None:
        raise ConfigError(f"{key}={name} is not an advertised listener")
    return found.listener
