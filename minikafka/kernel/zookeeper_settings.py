"""The configuration keys of the security towards ZooKeeper.

Three of them are properties of the JVM for Apache Kafka. Here they are keys of the broker, and
``java_properties`` also finds them where Kafka's scripts do.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from minikafka.kernel.config import Config, ConfigDef, ConfigError, ConfigType, Setting, row_of

_bool = row_of(ConfigType.BOOLEAN)
_string = row_of(ConfigType.STRING)
_list = row_of(ConfigType.LIST)
_password = row_of(ConfigType.PASSWORD)

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
