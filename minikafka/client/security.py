"""The Network of a client, whose connections speak TLS and log in as its configuration says."""

from __future__ import annotations

from minikafka.client.config import ClientConfig
from minikafka.core.security.jaas import KERBEROS_MODULE, JaasError, parse_jaas_property
from minikafka.core.security.kerberos_names import ServiceLogin, service_login
from minikafka.core.security.sasl.gssapi import MECHANISM as GSSAPI
from minikafka.kernel.client_security import TOKEN_PROVIDER
from minikafka.kernel.config import ConfigError
from minikafka.kernel.kerberos import KerberosError
from minikafka.kernel.ports import Network, World
from minikafka.kernel.tls import TlsError
from minikafka.network.client_security import (
    client_login,
    client_tls,
    token_endpoint,
    uses_sasl,
    uses_tls,
)
from minikafka.network.login_networks import KerberosNetwork, SaslNetwork, TlsNetwork
from minikafka.network.oauth_tokens import OAuthTokens, endpoint_tls, token_requests


def oauth_tokens(world: World, config: ClientConfig) -> OAuthTokens | None:
    """Return the tokens of a client whose application provides them, or that requests them from an
    endpoint; None for another client. Raises ConfigError, which names the key and no secret."""
    if not uses_sasl(config):
        return None
    timeout_ms = config.request_timeout_ms
    endpoint = token_endpoint(config)
    if endpoint is not None:
        tls = endpoint_tls(endpoint.tls, world.files.read_all)
        requests = token_requests(endpoint, world.network, world.clock, tls)
        return OAuthTokens(requests, world.clock, timeout_ms, source=endpoint.url)
    provider = config.sasl_oauth_token_provider
    return None if provider is None else OAuthTokens(provider, world.clock, timeout_ms)


def secured_network(
    world: World, config: ClientConfig, tokens: OAuthTokens | None = None
) -> Network:
    """Return the Network of a client, with its ``oauth_tokens``.

    Raises ConfigError, which names the key and no secret."""
    network = world.network
    if uses_tls(config):
        settings = client_tls(config, world.files.read_all)
        try:
            world.network.check_tls(settings, of_listener=False)
        except TlsError as error:
            raise ConfigError(f"security.protocol={config.security_protocol}: {error}") from error
        network = TlsNetwork(network, lambda: settings)
    if uses_sasl(config) and config.sasl_mechanism == GSSAPI:
        service = _service_login(world, config)
        return KerberosNetwork(network, service, world.kerberos, world.clock, world.entropy)
    if uses_sasl(config):
        login = client_login(config)
        if login is not None:
            return SaslNetwork(network, login.exchange, world.clock, world.entropy)
        assert tokens is not None, "a client without login options has a token provider"
        return SaslNetwork(network, tokens.exchange, world.clock, world.entropy, tokens.ready)
    return network


def _service_login(world: World, config: ClientConfig) -> ServiceLogin:
    if config.sasl_oauth_token_provider is not None:
        raise ConfigError(f"{TOKEN_PROVIDER} needs sasl.mechanism=OAUTHBEARER")
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
