"""The configuration keys of SASL. They may have the prefix of a listener, some of a mechanism, too."""

from __future__ import annotations

from typing import Any

from minikafka.kernel.config import ConfigType, Setting, at_least, one_of, row_of

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
