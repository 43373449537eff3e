"""How a client connects, by its keys: the settings of TLS, and the options of its login."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from minikafka.core.security.jaas import JaasError, parse_jaas_property
from minikafka.core.security.sasl.gssapi import MECHANISM as GSSAPI
from minikafka.core.security.sasl.login_options import MODULES, LoginOptions
from minikafka.core.security.sasl.oauthbearer import MECHANISM as OAUTHBEARER
from minikafka.kernel.client_security import TOKEN_PROVIDER, ClientSecurity
from minikafka.kernel.config import ConfigDef, ConfigError
from minikafka.kernel.listeners import SASL_PROTOCOLS, SECURITY_PROTOCOLS, TLS_PROTOCOLS
from minikafka.kernel.tls import TlsSettings
from minikafka.kernel.tls_settings import TLS_SETTINGS

_TLS: Final = ConfigDef.of(TLS_SETTINGS)
# Stores are recognized by their first bytes, so the type only has to be one of Kafka's.
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
    """Return the options of a client's login; None if a token provider takes their place.

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
    if security.sasl_jaas_config is not None:
        try:
            entry = parse_jaas_property(security.sasl_jaas_config)
        except JaasError as error:
            raise ConfigError(f"sasl.jaas.config: {error}") from error
        if entry.module != MODULES[mechanism]:
            raise ConfigError(f"sasl.jaas.config: {mechanism} needs {MODULES[mechanism]}")
        login, key = LoginOptions(mechanism, entry.options), "sasl.jaas.config"
    else:
        given = {"username": security.sasl_username, "password": security.sasl_password}
        options = {name: text for name, text in given.items() if text is not None}
        login, key = LoginOptions(mechanism, options), f"the login with {mechanism}"
    problem = login.problem()
    if problem is not None and mechanism == OAUTHBEARER and not login.options:
        problem += f", and no {TOKEN_PROVIDER}"
    if problem is not None:
        raise ConfigError(f"{key} {problem}")
    return login


def _check_token_provider(security: ClientSecurity) -> None:
    if not callable(security.sasl_oauth_token_provider):
        raise ConfigError(f"{TOKEN_PROVIDER} must be a function that returns an OAuthToken")
    if security.sasl_mechanism != OAUTHBEARER:
        raise ConfigError(f"{TOKEN_PROVIDER} needs sasl.mechanism={OAUTHBEARER}")
    if security.sasl_jaas_config is not None:
        raise ConfigError(f"{TOKEN_PROVIDER} and sasl.jaas.config exclude each other")
