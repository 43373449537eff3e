"""The TLS of a broker's listeners and connections, from its configuration and its stores.

Imported only by brokers with a TLS listener: it takes the ``cryptography`` library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from minikafka.core.security.certificate_names import (
    RuleError,
    distinguished_name,
    map_distinguished_name,
    parse_ssl_rules,
)
from minikafka.core.security.cipher_suites import UnknownCipherSuite, openssl_suites
from minikafka.core.security.tls_stores import (
    KeyStore,
    StoreError,
    key_store_of_file,
    key_store_of_pem,
    trust_store_of_file,
    trust_store_of_pem,
)
from minikafka.kernel.cluster import Endpoint
from minikafka.kernel.config import LISTENER_PREFIX, Config, ConfigError
from minikafka.kernel.events import event_log
from minikafka.kernel.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS, Listeners
from minikafka.kernel.ports import Files, Network, World
from minikafka.kernel.tls import ClientAuth, TlsError, TlsSettings
from minikafka.network.listener_tls import ListenerTls
from minikafka.network.tls_network import TlsNetwork

T = TypeVar("T")


def tls_settings(config: Config, files: Files) -> TlsSettings:
    """Read the stores that a configuration names. ``config`` is that of one listener
    (``Config.of_listener``). Raises ConfigError, which names the key and no secret."""
    store = _key_store(config, files)
    try:
        ciphers = openssl_suites(config.list("ssl.cipher.suites"))
    except UnknownCipherSuite as error:
        raise ConfigError(f"ssl.cipher.suites: {error}") from error
    algorithm = config.optional("ssl.endpoint.identification.algorithm") or ""
    if algorithm.lower() not in ("", "https"):
        raise ConfigError("ssl.endpoint.identification.algorithm must be https or empty")
    return TlsSettings(
        key=store.key if store else b"",
        chain=store.chain if store else b"",
        trusted=_trusted(config, files),
        protocols=config.list("ssl.enabled.protocols"),
        ciphers=ciphers,
        client_auth=ClientAuth(config.string("ssl.client.auth")),
        check_host_name=bool(algorithm),
    )


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
            settings = tls_settings(config, world.files)
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


def _key_store(config: Config, files: Files) -> KeyStore | None:
    key = config.optional("ssl.keystore.key")
    chain = config.optional("ssl.keystore.certificate.chain")
    location = config.optional("ssl.keystore.location")
    key_password = config.optional("ssl.key.password")
    if (key is None) != (chain is None):
        raise ConfigError("ssl.keystore.key and ssl.keystore.certificate.chain go together")
    if key is not None and location is not None:
        raise ConfigError("ssl.keystore.key and ssl.keystore.location exclude each other")
    password = config.optional("ssl.keystore.password")
    if location is None:
        if password is not None:
            raise ConfigError("ssl.keystore.password needs ssl.keystore.location")
        if key is None:
            return None
        read = lambda: key_store_of_pem(key.encode(), chain.encode(), key_password)  # noqa: E731
        return _checked("ssl.keystore.key", read)
    data = _read("ssl.keystore.location", location, files)
    return _checked(
        f"ssl.keystore.location={location}",
        lambda: key_store_of_file(data, password, key_password),
    )


def _trusted(config: Config, files: Files) -> bytes:
    text = config.optional("ssl.truststore.certificates")
    location = config.optional("ssl.truststore.location")
    password = config.optional("ssl.truststore.password")
    if text is not None and location is not None:
        raise ConfigError(
            "ssl.truststore.certificates and ssl.truststore.location exclude each other"
        )
    if location is None:
        if password is not None:
            raise ConfigError("ssl.truststore.password needs ssl.truststore.location")
        if text is None:
            return b""
        return _checked("ssl.truststore.certificates", lambda: trust_store_of_pem(text.encode()))
    data = _read("ssl.truststore.location", location, files)
    return _checked(
        f"ssl.truststore.location={location}", lambda: trust_store_of_file(data, password)
    )


def _read(key: str, path: str, files: Files) -> bytes:
    try:
        return files.read_all(path)
    except OSError as error:
        raise ConfigError(f"{key}={path} cannot be read: {error.strerror or error}") from error


def _checked(what: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except StoreError as error:
        raise ConfigError(f"{what}: {error}") from error
