"""The keys and trusted certificates that a configuration names, as Kafka's ``ssl.*`` keys do.

Imported only where TLS is used: it takes the ``cryptography`` library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from minikafka.core.security.cipher_suites import UnknownCipherSuite, openssl_suites
from minikafka.core.security.tls_stores import (
    KeyStore,
    StoreError,
    key_store_of_file,
    key_store_of_pem,
    trust_store_of_file,
    trust_store_of_pem,
)
from minikafka.kernel.config import Config, ConfigError
from minikafka.kernel.tls import ClientAuth, TlsSettings

T = TypeVar("T")


class TlsStores(NamedTuple):
    """The private key, its certificates and the trusted certificates, as PEM; empty without."""

    key: bytes
    chain: bytes
    trusted: bytes


def tls_settings(config: Config, read: Callable[[str], bytes]) -> TlsSettings:
    """Read the stores that a configuration names. ``config`` is that of one listener
    (``Config.of_listener``), ``read`` reads a file whole. Raises ConfigError, which names the key
    and no secret."""
    stores = tls_stores(config, read)
    try:
        ciphers = openssl_suites(config.list("ssl.cipher.suites"))
    except UnknownCipherSuite as error:
        raise ConfigError(f"ssl.cipher.suites: {error}") from error
    algorithm = config.optional("ssl.endpoint.identification.algorithm") or ""
    if algorithm.lower() not in ("", "https"):
        raise ConfigError("ssl.endpoint.identification.algorithm must be https or empty")
    return TlsSettings(
        key=stores.key,
        chain=stores.chain,
        trusted=stores.trusted,
        protocols=config.list("ssl.enabled.protocols"),
        ciphers=ciphers,
        client_auth=ClientAuth(config.string("ssl.client.auth")),
        check_host_name=bool(algorithm),
    )


def tls_stores(config: Config, read_file: Callable[[str], bytes]) -> TlsStores:
    """Read the stores that a configuration names. Raises ConfigError."""
    store = _key_store(config, read_file)
    return TlsStores(
        store.key if store else b"", store.chain if store else b"", _trusted(config, read_file)
    )


def _key_store(config: Config, read_file: Callable[[str], bytes]) -> KeyStore | None:
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
    data = _read("ssl.keystore.location", location, read_file)
    return _checked(
        f"ssl.keystore.location={location}",
        lambda: key_store_of_file(data, password, key_password),
    )


def _trusted(config: Config, read_file: Callable[[str], bytes]) -> bytes:
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
    data = _read("ssl.truststore.location", location, read_file)
    return _checked(
        f"ssl.truststore.location={location}", lambda: trust_store_of_file(data, password)
    )


def _read(key: str, path: str, read_file: Callable[[str], bytes]) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise ConfigError(f"{key}={path} cannot be read: {error.strerror or error}") from error


def _checked(what: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except StoreError as error:
        raise ConfigError(f"{what}: {error}") from error
