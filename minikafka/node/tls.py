"""The TLS of a broker's listeners and connections, from its configuration and its stores.

Imported only by brokers with a TLS listener: it takes the ``cryptography`` library.
"""

from __future__ import annotations

from dataclasses import replace

from minikafka.core.security.certificate_names import (
    RuleError,
    distinguished_name,
    map_distinguished_name,
    parse_ssl_rules,
)
from minikafka.kernel.cluster import Endpoint
from minikafka.kernel.config import LISTENER_PREFIX, Config, ConfigError
from minikafka.kernel.events import event_log
from minikafka.kernel.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS, Listeners
from minikafka.kernel.ports import Network, World
from minikafka.kernel.tls import ClientAuth, TlsError
from minikafka.network.listener_tls import ListenerTls
from minikafka.network.tls_configuration import tls_settings
from minikafka.network.tls_network import TlsNetwork


class BrokerTls:
    """The TLS of one broker. Raises ConfigError if a store or a rule cannot be used."""

    def __init__(self, config: Config, listeners: Listeners, world: World) -> None:
        self._clock, self._network = world.clock, world.network
        self.listeners = {
            endpoint.listener: self._listener(config, endpoint, world)
            for endpoint in listeners.bound
            if endpoint.security_protocol in TLS_PROTOCOLS
        }
        self._inter_broker = self.listeners.get(listeners.inter_broker)

    def network(self) -> Network:
        """Return the Network with which the broker connects to others: with the settings of the
        listener that brokers use, if that is a TLS listener."""
        if self._inter_broker is None:
            return self._network
        settings = replace(self._inter_broker.settings, client_auth=ClientAuth.NONE)
        try:
            self._network.check_tls(settings, of_listener=False)
        except TlsError as error:
            raise ConfigError(f"connections to other brokers: {error}") from error
        return TlsNetwork(self._network, settings)

    def _listener(self, config: Config, endpoint: Endpoint, world: World) -> ListenerTls:
        name = endpoint.listener
        required_here = f"{LISTENER_PREFIX}{name.lower()}.ssl.client.auth" in config.values
        config = config.of_listener(name)
        try:
            settings = tls_settings(config, world.files.read_all)
            if endpoint.security_protocol in SASL_PROTOCOLS and not required_here:
                # As in Kafka, the key for all listeners does not count for SASL listeners.
                settings = replace(settings, client_auth=ClientAuth.NONE)
            self._network.check_tls(settings, of_listener=True)
            rules = parse_ssl_rules(config.string("ssl.principal.mapping.rules"))
        except RuleError as error:
            raise ConfigError(f"listener {name}: ssl.principal.mapping.rules: {error}") from error
        except (ConfigError, TlsError) as error:
            raise ConfigError(f"listener {name}: {error}") from error
        if settings.client_auth is not ClientAuth.NONE and not settings.trusted:
            wanted = f"ssl.client.auth={settings.client_auth.value}"
            raise ConfigError(f"listener {name}: {wanted} needs trusted certificates")

        def name_of(certificate: bytes) -> str:
            return map_distinguished_name(rules, distinguished_name(certificate))

        return ListenerTls(settings, name_of, self._clock, event_log("network", listener=name))
