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
    ``sasl_username`` and ``sasl_password``, or for OAUTHBEARER ``sasl_oauth_token_provider``, which
    text cannot express.
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
    sasl_oauth_token_provider: OAuthTokenProvider | None = field(default=None, repr=False)


# The field that a properties file, or another text, cannot set.
TOKEN_PROVIDER: Final = "sasl_oauth_token_provider"


def security_keys() -> Mapping[str, str]:
    """Return the name of the field for each of Kafka's keys."""
    names = (each.name for each in fields(ClientSecurity) if each.name != TOKEN_PROVIDER)
    return {name.replace("_", "."): name for name in names}


def why_unsupported(key: str) -> str | None:
    """Return why a key of Kafka's clients for TLS or logins is refused, None for other keys."""
    if key.startswith("sasl.oauthbearer.") or key == "sasl.login.callback.handler.class":
        return (
            "it is not supported: tokens are made from the unsecuredLogin options of "
            f"sasl.jaas.config, or by the function {TOKEN_PROVIDER} of a Python client"
        )
    if key.startswith("sasl.kerberos."):
        return "it is not supported: sasl.jaas.config names the keytab or the cache of tickets"
    return None
