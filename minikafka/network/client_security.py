"""How a client connects, by its keys: the settings of TLS, and the options of its login."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from minikafka.core.security.jaas import JaasError, LoginEntry, parse_jaas_property
from minikafka.core.security.sasl.gssapi import MECHANISM as GSSAPI
from minikafka.core.security.sasl.login_options import MODULES, LoginOptions
from minikafka.core.security.sasl.oauthbearer import MECHANISM as OAUTHBEARER
from minikafka.core.security.token_endpoint import TokenEndpoint
from minikafka.kernel.client_security import TOKEN_PROVIDER, ClientSecurity
from minikafka.kernel.config import ConfigDef, ConfigError
from minikafka.kernel.listeners import SASL_PROTOCOLS, SECURITY_PROTOCOLS, TLS_PROTOCOLS
from minikafka.kernel.security_settings import TLS_SETTINGS
from minikafka.kernel.tls import TlsSettings
from minikafka.network.http_client import HttpUrl

_TLS: Final = ConfigDef.of(TLS_SETTINGS)
# Stores are recognized by their first bytes, so the type only has to be one of Kafka's.
_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_HANDLER: Final = "sasl.login.callback.handler.class"
# The classes with which Java's client requests tokens from an endpoint.
_HANDLERS: Final = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{name}OAuthBearerLoginCallbackHandler"
    for name in ("", "secured.")
)
_STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")


def uses_tls(security: ClientSecurity) -> bool:
    """Return whether connections speak TLS. Raises ConfigError for an unknown protocol."""
    return _protocol(security) in TLS_PROTOCOLS


def uses_sasl(security: ClientSecurity) -> bool:
    """Return whether connections log in. Raises ConfigError for an unknown protocol."""
    return _protocol(security) in SASL_PROTOCOLS


def _protocol(security: ClientSecurity) -> str:
    protocol = security.security_protocol.upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise ConfigError(
            f"security.protocol={security.security_protocol}: must be one of "
            f"{', '.join(SECURITY_PROTOCOLS)}"
        )
    return protocol


def client_tls(security: ClientSecurity, read: Callable[[str], bytes]) -> TlsSettings:
    """Return the TLS settings of a client. ``read`` reads a file whole.

    Raises ConfigError, which names the key and no secret."""
    # Imported only where TLS is used: it takes the cryptography library.
    from minikafka.network.tls_configuration import tls_settings

    for key, type_ in (
        ("ssl.truststore.type", security.ssl_truststore_type),
        ("ssl.keystore.type", security.ssl_keystore_type),
    ):
        if type_.upper() not in _STORE_TYPES:
            raise ConfigError(f"{key}={type_}: must be one of {', '.join(_STORE_TYPES)}")
    given = {
        "ssl.truststore.location": security.ssl_truststore_location,
        "ssl.truststore.certificates": security.ssl_truststore_certificates,
        "ssl.truststore.password": security.ssl_truststore_password,
        "ssl.keystore.location": security.ssl_keystore_location,
        "ssl.keystore.certificate.chain": security.ssl_keystore_certificate_chain,
        "ssl.keystore.key": security.ssl_keystore_key,
        "ssl.keystore.password": security.ssl_keystore_password,
        "ssl.key.password": security.ssl_key_password,
        "ssl.endpoint.identification.algorithm": security.ssl_endpoint_identification_algorithm,
        "ssl.enabled.protocols": security.ssl_enabled_protocols,
        "ssl.cipher.suites": security.ssl_cipher_suites,
    }
    config = _TLS.parse({key: text for key, text in given.items() if text is not None})
    return tls_settings(config, read)


def client_login(security: ClientSecurity) -> LoginOptions | None:
    """Return the options of a client's login; None if tokens of a provider, or of an endpoint,
    take their place.

    Raises ConfigError, which names the key and no secret."""
    mechanism = security.sasl_mechanism
    if mechanism not in MODULES:
        raise ConfigError(
            f"sasl.mechanism={mechanism} is not supported; supported are "
            f"{', '.join((*MODULES, GSSAPI))}"
        )
    if security.sasl_oauth_token_provider is not None:
        _check_token_provider(security)
        return None
    if token_endpoint(security) is not None:
        return None
    if security.sasl_jaas_config is not None:
        entry = _jaas_entry(security.sasl_jaas_config, mechanism)
        login, key = LoginOptions(mechanism, entry.options), "sasl.jaas.config"
    else:
        given = {"username": security.sasl_username, "password": security.sasl_password}
        options = {name: text for name, text in given.items() if text is not None}
        login, key = LoginOptions(mechanism, options), f"the login with {mechanism}"
    problem = login.problem()
    if problem is not None and mechanism == OAUTHBEARER and not login.options:
        problem += f", no {_ENDPOINT} and no {TOKEN_PROVIDER}"
    if problem is not None:
        raise ConfigError(f"{key} {problem}")
    return login


def token_endpoint(security: ClientSecurity) -> TokenEndpoint | None:
    """Return where a client requests its tokens, None if it does not. Raises ConfigError, which
    names the key and no secret."""
    url, handler = (
        security.sasl_oauthbearer_token_endpoint_url,
        security.sasl_login_callback_handler_class,
    )
    if handler is not None and handler not in _HANDLERS:
        raise ConfigError(f"{_HANDLER}={handler}: only {_HANDLERS[0]} is known")
    if url is None:
        if handler is not None:
            raise ConfigError(f"{_HANDLER} needs {_ENDPOINT}")
        return None
    if security.sasl_mechanism != OAUTHBEARER:
        raise ConfigError(f"{_ENDPOINT} needs sasl.mechanism={OAUTHBEARER}")
    try:
        HttpUrl.parse(url)
    except ValueError as error:
        raise ConfigError(f"{_ENDPOINT}: {error}") from None
    entry = _jaas_entry(security.sasl_jaas_config or "", OAUTHBEARER)
    try:
        return TokenEndpoint.of(url, entry.options)
    except ValueError as error:
        raise ConfigError(f"sasl.jaas.config {error}") from None


def _jaas_entry(text: str, mechanism: str) -> LoginEntry:
    try:
        entry = parse_jaas_property(text)
    except JaasError as error:
        raise ConfigError(f"sasl.jaas.config: {error}") from error
    if entry.module != MODULES[mechanism]:
        raise ConfigError(f"sasl.jaas.config: {mechanism} needs {MODULES[mechanism]}")
    return entry


def _check_token_provider(security: ClientSecurity) -> None:
    if not callable(security.sasl_oauth_token_provider):
        raise ConfigError(f"{TOKEN_PROVIDER} must be a function that returns an OAuthToken")
    if security.sasl_mechanism != OAUTHBEARER:
        raise ConfigError(f"{TOKEN_PROVIDER} needs sasl.mechanism={OAUTHBEARER}")
    for key, text in (
        ("sasl.jaas.config", security.sasl_jaas_config),
        (_ENDPOINT, security.sasl_oauthbearer_token_endpoint_url),
    ):
        if text is not None:
            raise ConfigError(f"{TOKEN_PROVIDER} and {key} exclude each other")
