"""The Network of a client, whose connections speak TLS and log in as its configuration says."""

from __future__ import annotations

from typing import Final

from minikafka.client.config import ClientConfig
from minikafka.core.security.jaas import KERBEROS_MODULE, JaasError, parse_jaas_property
from minikafka.core.security.kerberos_login import ServiceLogin, service_login
from minikafka.core.security.sasl.gssapi import MECHANISM as GSSAPI
from minikafka.core.security.sasl.login_options import MODULES, LoginOptions
from minikafka.kernel.config import ConfigDef, ConfigError
from minikafka.kernel.kerberos import KerberosError
from minikafka.kernel.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS
from minikafka.kernel.ports import Network, World
from minikafka.kernel.tls import TlsError
from minikafka.kernel.tls_settings import TLS_SETTINGS
from minikafka.network.kerberos_network import KerberosNetwork
from minikafka.network.sasl_network import SaslNetwork
from minikafka.network.tls_network import TlsNetwork

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_TLS: Final = ConfigDef.of(TLS_SETTINGS)


def secured_network(world: World, config: ClientConfig) -> Network:
    """Return the Network of a client. Raises ConfigError, which names the key and no secret."""
    protocol = config.security_protocol.upper()
    if protocol not in _PROTOCOLS:
        raise ConfigError(
            f"security.protocol={config.security_protocol}: must be one of {', '.join(_PROTOCOLS)}"
        )
    network = world.network
    if protocol in TLS_PROTOCOLS:
        network = _tls_network(world, config)
    if protocol in SASL_PROTOCOLS and config.sasl_mechanism == GSSAPI:
        service = _service_login(world, config)
        return KerberosNetwork(network, service, world.kerberos, world.clock, world.entropy)
    if protocol in SASL_PROTOCOLS:
        login = _login_options(config)
        network = SaslNetwork(network, login.exchange, world.clock, world.entropy)
    return network


def _tls_network(world: World, config: ClientConfig) -> Network:
    from minikafka.network.tls_configuration import tls_settings

    given = {
        "ssl.truststore.location": config.ssl_truststore_location,
        "ssl.truststore.certificates": config.ssl_truststore_certificates,
        "ssl.truststore.password": config.ssl_truststore_password,
        "ssl.keystore.location": config.ssl_keystore_location,
        "ssl.keystore.certificate.chain": config.ssl_keystore_certificate_chain,
        "ssl.keystore.key": config.ssl_keystore_key,
        "ssl.keystore.password": config.ssl_keystore_password,
        "ssl.key.password": config.ssl_key_password,
        "ssl.endpoint.identification.algorithm": config.ssl_endpoint_identification_algorithm,
        "ssl.enabled.protocols": config.ssl_enabled_protocols,
        "ssl.cipher.suites": config.ssl_cipher_suites,
    }
    settings = tls_settings(
        _TLS.parse({key: text for key, text in given.items() if text is not None}), world.files
    )
    try:
        world.network.check_tls(settings, of_listener=False)
    except TlsError as error:
        raise ConfigError(f"security.protocol={config.security_protocol}: {error}") from error
    return TlsNetwork(world.network, settings)


def _service_login(world: World, config: ClientConfig) -> ServiceLogin:
    if config.sasl_jaas_config is None:
        raise ConfigError(f"sasl.mechanism={GSSAPI} needs sasl.jaas.config with {KERBEROS_MODULE}")
    try:
        entry = parse_jaas_property(config.sasl_jaas_config)
        login = service_login(entry, config.sasl_kerberos_service_name)
    except JaasError as error:
        raise ConfigError(f"sasl.jaas.config: {error}") from error
    try:
        world.kerberos.require()
    except KerberosError as error:
        raise ConfigError(f"sasl.mechanism={GSSAPI}: {error}") from error
    return login


def _login_options(config: ClientConfig) -> LoginOptions:
    mechanism = config.sasl_mechanism
    if mechanism not in MODULES:
        raise ConfigError(
            f"sasl.mechanism={mechanism} is not supported; supported are "
            f"{', '.join((*MODULES, GSSAPI))}"
        )
    if config.sasl_jaas_config is not None:
        try:
            entry = parse_jaas_property(config.sasl_jaas_config)
        except JaasError as error:
            raise ConfigError(f"sasl.jaas.config: {error}") from error
        if entry.module != MODULES[mechanism]:
            raise ConfigError(f"sasl.jaas.config: {mechanism} needs {MODULES[mechanism]}")
        login, key = LoginOptions(mechanism, entry.options), "sasl.jaas.config"
    else:
        given = {"username": config.sasl_username, "password": config.sasl_password}
        options = {name: text for name, text in given.items() if text is not None}
        login, key = LoginOptions(mechanism, options), f"the login with {mechanism}"
    problem = login.problem()
    if problem is not None:
        raise ConfigError(f"{key} {problem}")
    return login
