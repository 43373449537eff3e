"""The TLS of a broker's listeners and connections, from its configuration and its stores.

Imported only by brokers with a TLS listener: it takes the ``cryptography`` library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from minikafka.core.security.certificate_names import (
    RuleError,
    distinguished_name,
    map_distinguished_name,
    parse_ssl_rules,
)
from minikafka.core.security.store_changes import store_change_problem
from minikafka.kernel.cluster import Endpoint
from minikafka.kernel.config import LISTENER_PREFIX, Config, ConfigError
from minikafka.kernel.events import event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.listeners import (
    SASL_PROTOCOLS,
    TLS_PROTOCOLS,
    Listeners,
    bound_names,
)
from minikafka.kernel.ports import Network, World
from minikafka.kernel.security_settings import TLS_STORES
from minikafka.kernel.tls import ClientAuth, TlsError, TlsSettings
from minikafka.network.login_networks import TlsNetwork
from minikafka.network.tls_configuration import tls_settings, tls_stores
from minikafka.server.listeners.listener_tls import ListenerTls

_LOCATIONS: Final = ("ssl.keystore.location", "ssl.truststore.location")


@dataclass(frozen=True, slots=True)
class _Source:
    """What the stores of a listener were read from: the values of its keys ``ssl.*store*``, and
    when its files were last modified."""

    values: Mapping[str, object]
    modified_ms: Mapping[str, int]


class BrokerTls:
    """The TLS of one broker. Raises ConfigError if a store or a rule cannot be used.

    ``check``, ``change`` and ``reload`` are for changes at run time: nothing changes if the stores
    of any listener cannot be used. New stores count for new connections, those to other brokers
    included.
    """

    def __init__(self, config: Config, listeners: Listeners, world: World) -> None:
        self._world = world
        self._network = world.network
        self._inter_broker = listeners.inter_broker
        self.listeners: dict[str, ListenerTls] = {}
        self._sources: dict[str, _Source] = {}
        for endpoint in listeners.bound:
            if endpoint.security_protocol in TLS_PROTOCOLS:
                self.add(config, endpoint)

    def add(self, config: Config, endpoint: Endpoint) -> None:
        """Read the settings and stores of a TLS listener. Raises ConfigError."""
        name = endpoint.listener
        source = self._source(config, name)
        made = self._listener(config, endpoint)
        if name == self._inter_broker:
            self._check_handshakes(name, made.settings, made.settings)
        self.listeners[name], self._sources[name] = made, source

    def remove(self, listener: str) -> None:
        """Forget a listener that was removed. Without TLS it is unknown already."""
        self.listeners.pop(listener, None)
        self._sources.pop(listener, None)

    def network(self) -> Network:
        """Return the Network with which the broker connects to others: with the settings of the
        listener that brokers use, if that is a TLS listener."""
        return self.network_of(self._inter_broker)

    def network_of(self, listener: str) -> Network:
        """Return a Network that connects with the present settings of a listener. Raises
        ConfigError."""
        tls = self.listeners.get(listener)
        if tls is None:
            return self._network

        def settings() -> TlsSettings:
            return replace(tls.settings, client_auth=ClientAuth.NONE)

        try:
            self._network.check_tls(settings(), of_listener=False)
        except TlsError as error:
            raise ConfigError(f"connections to other brokers: {error}") from error
        return TlsNetwork(self._network, settings)

    # -- changes at run time

    def check(self, before: Config, after: Config) -> None:
        """Check the listeners whose keys would change."""
        for name in self._with_other_keys(after):
            self._reloaded(after, name)

    def change(self, before: Config, after: Config) -> None:
        """Apply the new keys of the stores, which ``check`` has found good. If a file is no longer
        what it was then, the stores stay as they are, and an event says why."""
        try:
            self._apply(after, self._with_other_keys(after))
        except ConfigError as error:
            event_log("network").error("tls_stores_not_changed", error=str(error))

    def reload(self, config: Config) -> None:
        """Read the stores again whose files have changed although their keys have not. Others are
        read when their new keys arrive from ZooKeeper."""
        other = self._with_other_keys(config)
        names = [n for n in bound_names(config) if n in self.listeners and n not in other]
        self._apply(config, [n for n in names if self._source(config, n) != self._sources[n]])

    def _apply(self, config: Config, names: list[str]) -> None:
        found = {n: (self._source(config, n), self._reloaded(config, n)) for n in names}
        for name, (source, settings) in found.items():
            self.listeners[name].settings = settings
            self._sources[name] = source
            event_log("network", listener=name).info("tls_stores_reloaded")

    def _with_other_keys(self, config: Config) -> list[str]:
        """Return the listeners that stay and whose keys of stores have other values."""
        kept = [name for name in bound_names(config) if name in self.listeners]
        values = {name: _store_values(config.of_listener(name)) for name in kept}
        return [name for name in kept if values[name] != self._sources[name].values]

    def _source(self, config: Config, listener: str) -> _Source:
        values = _store_values(config.of_listener(listener))
        modified = {}
        for path in (values[key] for key in _LOCATIONS if values[key] is not None):
            try:
                modified[str(path)] = self._world.files.modified_ms(str(path))
            except OSError:
                modified[str(path)] = -1  # to read it will fail, too, and tell why
        return _Source(values, modified)

    def _reloaded(self, config: Config, name: str) -> TlsSettings:
        """Return the settings of a listener with stores that are read now. Other settings stay as
        they are while the listener exists."""
        before, own = self.listeners[name].settings, config.of_listener(name)
        try:
            stores = tls_stores(own, self._world.files.read_all)
            after = replace(before, key=stores.key, chain=stores.chain, trusted=stores.trusted)
            problem = store_change_problem(
                before.chain,
                after.chain,
                own.boolean("ssl.allow.dn.changes"),
                own.boolean("ssl.allow.san.changes"),
            )
            if problem is None and after.trusted and not before.trusted:
                problem = (
                    "Cannot add SSL truststore to an existing listener for which no truststore was "
                    "configured."
                )
            if problem is not None:
                raise ConfigError(problem)
            self._network.check_tls(after, of_listener=True)
        except (ConfigError, TlsError) as error:
            raise ConfigError(f"listener {name}: {error}") from error
        _check_trust(name, after)
        if name == self._inter_broker:
            self._check_handshakes(name, before, after)
        return after

    def _check_handshakes(self, name: str, one: TlsSettings, other: TlsSettings) -> None:
        """Raise ConfigError unless brokers with either of the settings can connect to each
        other."""
        for server, client in ((one, other), (other, one)):
            try:
                self._network.check_handshake(server, replace(client, client_auth=ClientAuth.NONE))
            except TlsError as error:
                raise ConfigError(
                    f"listener {name}: brokers could not connect to each other with these stores: "
                    f"{error}"
                ) from error

    def _listener(self, config: Config, endpoint: Endpoint) -> ListenerTls:
        name = endpoint.listener
        required_here = f"{LISTENER_PREFIX}{name.lower()}.ssl.client.auth" in config.values
        config = config.of_listener(name)
        try:
            settings = tls_settings(config, self._world.files.read_all)
            if endpoint.security_protocol in SASL_PROTOCOLS and not required_here:
                # As in Kafka, the key for all listeners does not count for SASL listeners.
                settings = replace(settings, client_auth=ClientAuth.NONE)
            self._network.check_tls(settings, of_listener=True)
            rules = parse_ssl_rules(config.string("ssl.principal.mapping.rules"))
        except RuleError as error:
            raise ConfigError(f"listener {name}: ssl.principal.mapping.rules: {error}") from error
        except (ConfigError, TlsError) as error:
            raise ConfigError(f"listener {name}: {error}") from error
        _check_trust(name, settings)

        def name_of(certificate: bytes) -> str:
            return map_distinguished_name(rules, distinguished_name(certificate))

        log = event_log("network", listener=name)
        return ListenerTls(settings, name_of, self._world.clock, log)


def _check_trust(name: str, settings: TlsSettings) -> None:
    if settings.client_auth is not ClientAuth.NONE and not settings.trusted:
        wanted = f"ssl.client.auth={settings.client_auth.value}"
        raise ConfigError(f"listener {name}: {wanted} needs trusted certificates")


def _store_values(own: Config) -> dict[str, object]:
    """Return the values of the keys of stores in the configuration of a listener."""
    return {key: own.values.get(key) for key in sorted(TLS_STORES)}
