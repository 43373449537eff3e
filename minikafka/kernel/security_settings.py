"""The configuration keys of SASL, TLS and the security towards ZooKeeper.

Those of SASL and TLS may have the prefix of a listener, some of SASL that of a mechanism, too. Three
keys of ZooKeeper are properties of the JVM for Apache Kafka. Here they are keys of the broker, and
``java_properties`` also finds them where Kafka's scripts do.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from minikafka.kernel.config import (
    Config,
    ConfigDef,
    ConfigError,
    ConfigType,
    Setting,
    at_least,
    one_of,
    row_of,
)

MAX_RECEIVE_BYTES = 512 * 1024
JAAS_CONFIG = "sasl.jaas.config"
SERVER_HANDLER = "sasl.server.callback.handler.class"
# The keys that Kafka describes with the prefix of a mechanism.
OF_MECHANISMS = (
    JAAS_CONFIG,
    SERVER_HANDLER,
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "connections.max.reauth.ms",
)
_OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer"
UNSECURED_HANDLER = (
    f"{_OAUTHBEARER}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
SECURED_HANDLERS = (
    f"{_OAUTHBEARER}.OAuthBearerValidatorCallbackHandler",
    f"{_OAUTHBEARER}.secured.OAuthBearerValidatorCallbackHandler",
)


def _no_class(value: Any) -> str | None:
    return "brokers here load no Java class"


_string = row_of(ConfigType.STRING)
_int = row_of(ConfigType.INT)
_long = row_of(ConfigType.LONG)
_list = row_of(ConfigType.LIST)
_class = row_of(ConfigType.CLASS)
_password = row_of(ConfigType.PASSWORD)

# fmt: off
SASL_SETTINGS: tuple[Setting, ...] = (
    _int("connection.failed.authentication.delay.ms", 100, "Pause before a connection whose login failed is closed.", at_least(0)),
    _long("connections.max.reauth.ms", 0, "Time after which a client of a SASL listener must have logged in again; 0 for never."),
    _list("sasl.enabled.mechanisms", ("GSSAPI",), "SASL mechanisms that clients may use: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI (with the extra gssapi)."),
    _list("sasl.kerberos.principal.to.local.rules", ("DEFAULT",), "Rules that make a short name of a Kerberos principal."),
    _string("sasl.kerberos.service.name", None, "Kerberos name of the service that brokers are, such as kafka."),
    _string("sasl.mechanism.inter.broker.protocol", "GSSAPI", "SASL mechanism with which brokers log in at each other."),
    _int("sasl.oauthbearer.clock.skew.seconds", 30, "Tolerated difference to the clock of the OAuth provider."),
    _list("sasl.oauthbearer.expected.audience", None, "Audiences one of which a token must name."),
    _string("sasl.oauthbearer.expected.issuer", None, "Issuer that a token must name."),
    _long("sasl.oauthbearer.jwks.endpoint.refresh.ms", 3600000, "Pause between two readings of the provider's keys."),
    _long("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10000, "Longest pause between attempts to read those keys."),
    _long("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100, "First pause between attempts to read those keys."),
    _string("sasl.oauthbearer.jwks.endpoint.url", None, "Address of those keys."),
    _string("sasl.oauthbearer.scope.claim.name", "scope", "Claim of a token that holds its scope."),
    _string("sasl.oauthbearer.sub.claim.name", "sub", "Claim of a token that holds its subject."),
    _int("sasl.server.max.receive.size", MAX_RECEIVE_BYTES, "Largest frame that is read before a login has succeeded."),
)
# Those of them that count for all listeners, and not for a single one.
_OF_ALL = {"connection.failed.authentication.delay.ms", "sasl.mechanism.inter.broker.protocol"}
# What may have the prefix of a listener, or of a listener and a mechanism. As with Kafka, the last
# ones count with a mechanism only.
SASL_SETTINGS_OF_LISTENERS: tuple[Setting, ...] = (
    *(row for row in SASL_SETTINGS if row.name not in _OF_ALL),
    _password(JAAS_CONFIG, None, "Users of the listener, or its validator of tokens."),
    _class("sasl.login.callback.handler.class", None, "Class that answers callbacks of a login.", _no_class),
    _class("sasl.login.class", None, "Class that logs in.", _no_class),
    _class(SERVER_HANDLER, None, "The validator of tokens of OAUTHBEARER: for unsecured tokens, the default, or for signed ones.", one_of(UNSECURED_HANDLER, *SECURED_HANDLERS)),
)
# fmt: on


_bool = row_of(ConfigType.BOOLEAN)

# fmt: off
TLS_SETTINGS: tuple[Setting, ...] = (
    _bool("ssl.allow.dn.changes", False, "Whether a key store that is loaded later may have a certificate with another distinguished name."),
    _bool("ssl.allow.san.changes", False, "Whether it may lack alternative names of the certificate before."),
    _list("ssl.cipher.suites", (), "Cipher suites of TLS 1.2 that may be used, by Java's or OpenSSL's names; all if empty. Those of TLS 1.3 cannot be chosen."),
    _string("ssl.client.auth", "none", "Whether clients of a TLS listener must show a certificate.", one_of("required", "requested", "none")),
    _list("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), "TLS versions that may be used, without a gap."),
    _string("ssl.endpoint.identification.algorithm", "https", "Whether the host name of another broker must be in its certificate: https, or empty for no."),
    _password("ssl.key.password", None, "Password of the private key, in PEM."),
    _password("ssl.keystore.certificate.chain", None, "The broker's certificates as PEM text, its own first."),
    _password("ssl.keystore.key", None, "The broker's private key as PEM text."),
    _string("ssl.keystore.location", None, "PEM or PKCS12 file with the broker's key and certificates."),
    _password("ssl.keystore.password", None, "Password of that file; none for PEM."),
    _string("ssl.principal.mapping.rules", "DEFAULT", "Rules that make a principal of the name in a client's certificate."),
    _password("ssl.truststore.certificates", None, "The trusted certificates as PEM text."),
    _string("ssl.truststore.location", None, "PEM or PKCS12 file with the trusted certificates."),
    _password("ssl.truststore.password", None, "Password of that file; none for PEM."),
)
# fmt: on


_OF_THE_JVM: Final = (
    "java.security.auth.login.config",
    "zookeeper.sasl.client",
    "zookeeper.sasl.clientconfig",
)


def _hostname_check(value: str) -> str | None:
    return None if value.lower() in ("https", "") else "must be HTTPS, or empty for no check"


# fmt: off
ZOOKEEPER_SECURITY_SETTINGS: tuple[Setting, ...] = (
    _bool("zookeeper.set.acl", False, "Create znodes that only this broker's identity may change. All brokers must have the same one: a SASL user, or a client certificate."),
    _bool("zookeeper.ssl.client.enable", False, "Reach ZooKeeper over TLS."),
    _list("zookeeper.ssl.cipher.suites", None, "Cipher suites of TLS 1.2 offered to ZooKeeper, by Java's or OpenSSL's names; all if unset."),
    _list("zookeeper.ssl.enabled.protocols", None, "TLS versions offered to ZooKeeper, without a gap; zookeeper.ssl.protocol alone if unset."),
    _string("zookeeper.ssl.endpoint.identification.algorithm", "HTTPS", "Whether ZooKeeper's host name must be in its certificate: HTTPS, or empty for no.", _hostname_check),
    _string("zookeeper.ssl.keystore.location", None, "PEM or PKCS12 file with the broker's key and certificates for ZooKeeper."),
    _password("zookeeper.ssl.keystore.password", None, "Password of that file; in PEM, of its key."),
    _string("zookeeper.ssl.protocol", "TLSv1.2", "TLS version with which ZooKeeper is reached."),
    _string("zookeeper.ssl.truststore.location", None, "PEM or PKCS12 file with the certificates trusted for ZooKeeper; those of the system if unset."),
    _password("zookeeper.ssl.truststore.password", None, "Password of that file; none for PEM."),
    _string("java.security.auth.login.config", None, "JAAS file with the login at ZooKeeper. A property of the JVM with Kafka: it is also found in the environment variable KAFKA_OPTS, as -Djava.security.auth.login.config=FILE. Not a key of Kafka's."),
    _bool("zookeeper.sasl.client", True, "Log in at ZooKeeper if the JAAS file has the section for it. A property of the JVM with Kafka, as the one above. Not a key of Kafka's."),
    _string("zookeeper.sasl.clientconfig", "Client", "Section of the JAAS file with the login at ZooKeeper. A property of the JVM with Kafka, as the ones above. Not a key of Kafka's."),
)
# fmt: on

# The keys of the verbs' --zk-tls-config-file; others in the file have no effect, as with Kafka.
_TOOL_CONFIG: Final = ConfigDef.of(ZOOKEEPER_SECURITY_SETTINGS)


def java_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the login that KAFKA_OPTS has. Raises ConfigError."""
    try:
        words = shlex.split(environment.get("KAFKA_OPTS", ""))
    except ValueError as error:
        raise ConfigError(f"KAFKA_OPTS: {error}") from None
    given = dict(word[2:].partition("=")[::2] for word in words if word.startswith("-D"))
    return {key: given[key] for key in _OF_THE_JVM if key in given}


def tool_config(properties: Mapping[str, str], environment: Mapping[str, str]) -> Config:
    """Return the configuration of a tool that talks to ZooKeeper: properties of a file that may be
    a broker's, and KAFKA_OPTS. Raises ConfigError."""
    known = {row.name for row in ZOOKEEPER_SECURITY_SETTINGS}
    given = {key: value for key, value in properties.items() if key in known}
    return _TOOL_CONFIG.parse(java_properties(environment) | given)


_MAX_INT = 2**31 - 1

# Limits of one listener, with its prefix. Without the prefix they count for each listener, and for
# all together.
LIMITS_OF_LISTENERS: tuple[Setting, ...] = (
    _int("max.connections", _MAX_INT, "Most connections of the listener at a time.", at_least(1)),
    _int("max.connection.creation.rate", _MAX_INT, "Most new connections a second.", at_least(1)),
)
# The stores of TLS (Kafka's ``SslConfigs.RECONFIGURABLE_CONFIGS``). They may be altered for one
# listener, at one broker.
_KEY_STORE = "type location password key certificate.chain"
TLS_STORES: Final = frozenset(
    (
        "ssl.key.password",
        *(f"ssl.keystore.{name}" for name in _KEY_STORE.split()),
        *(f"ssl.truststore.{name}" for name in ("type", "location", "password", "certificates")),
    )
)
# Keys that may have the prefix of a listener in the settings of all brokers.
LIMITS_OF_A_LISTENER: Final = frozenset(
    {"max.connections", "max.connection.creation.rate", "num.network.threads"}
)
CHANGED_WHILE_OPEN: Final = TLS_STORES | LIMITS_OF_A_LISTENER
