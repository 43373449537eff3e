"""The keys with which a client says how it connects: TLS and its login."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field, fields
from typing import Final, TypeAlias

from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """A token of an OAuth provider, which is valid until ``expires_ms`` (wall-clock time).

    ``extensions`` are sent with it (KIP-342)."""

    value: str = field(repr=False)
    expires_ms: int
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


# A function of the application. It may be a coroutine function; if it is not, it must not block.
OAuthTokenProvider: TypeAlias = Callable[[], OAuthToken | Awaitable[OAuthToken]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """Kafka's keys in snake case, with Kafka's defaults.

    ``security_protocol`` is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; the ``ssl`` fields name PEM
    or PKCS12 files, or have PEM text. A login needs a ``sasl_mechanism`` (PLAIN, SCRAM-SHA-256,
    SCRAM-SHA-512, OAUTHBEARER, GSSAPI), and either ``sasl_jaas_config`` or, as with librdkafka,
    ``sasl_username`` and ``sasl_password``. OAUTHBEARER gets its tokens from
    ``sasl_oauthbearer_token_endpoint_url``, with the client id and secret in ``sasl_jaas_config``,
    or from ``sasl_oauth_token_provider``, which text cannot express.
    """

    security_protocol: str = "PLAINTEXT"
    ssl_truststore_type: str = "JKS"
    ssl_truststore_location: str | None = None
    ssl_truststore_certificates: str | None = None
    ssl_truststore_password: str | None = field(default=None, repr=False)
    ssl_keystore_type: str = "JKS"
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
    sasl_oauthbearer_token_endpoint_url: str | None = None
    sasl_login_callback_handler_class: str | None = None
    sasl_oauth_token_provider: OAuthTokenProvider | None = field(default=None, repr=False)


# The field that a properties file, or another text, cannot set.
TOKEN_PROVIDER: Final = "sasl_oauth_token_provider"


def security_keys() -> Mapping[str, str]:
    """Return the name of the field for each of Kafka's keys."""
    names = (each.name for each in fields(ClientSecurity) if each.name != TOKEN_PROVIDER)
    return {name.replace("_", "."): name for name in names}


# Kafka's keys that are no field of ``ClientSecurity``, by their beginnings, and why.
_UNSUPPORTED: Final = (
    ("sasl.oauthbearer.", "a client takes tokens as they are"),
    ("sasl.kerberos.", "sasl.jaas.config names the keytab or the cache of tickets"),
    (
        "sasl.login.refresh. sasl.login.retry. sasl.login.connect.timeout sasl.login.read.timeout",
        "the times of refreshes and attempts are fixed",
    ),
    (
        "sasl.login.class sasl.client.callback.handler.class ssl.engine.factory.class",
        "a class of Java cannot be loaded",
    ),
    (
        "ssl.protocol ssl.provider ssl.keymanager. ssl.trustmanager. ssl.secure.random.",
        "it concerns Java's TLS (ssl.enabled.protocols has the versions)",
    ),
)


def why_unsupported(key: str) -> str | None:
    """Return why a key of Kafka's clients for TLS or logins is refused, None for other keys."""
    for begins, why in _UNSUPPORTED:
        if key.startswith(tuple(begins.split())):
            return f"it is not supported: {why}"
    return None
