"""The SASL of a broker, from its configuration: the mechanisms of its listeners, and its own login.

As with Kafka, ``listener.name.<listener>.<mechanism>.sasl.jaas.config`` has the users of PLAIN, the
options of OAUTHBEARER's validator, with which name and password other brokers log in here, and for
GSSAPI the keytab of the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias

from minikafka.core.security.jaas import (
    KERBEROS_MODULE,
    JaasError,
    LoginEntry,
    parse_jaas_property,
    plain_users,
)
from minikafka.core.security.jwt_validator import SecuredValidator
from minikafka.core.security.kerberos_names import (
    SERVICE_NAME,
    KerberosNameError,
    KerberosShortNamer,
    ServiceLogin,
    keys_of_service,
    service_login,
)
from minikafka.core.security.sasl import gssapi, oauthbearer, plain
from minikafka.core.security.sasl.exchange import ServerExchange
from minikafka.core.security.sasl.gssapi import GssapiServer
from minikafka.core.security.sasl.login_options import MODULES, SCRAM_MECHANISMS, LoginOptions
from minikafka.core.security.sasl.oauthbearer import (
    OAuthBearerServer,
    TokenValidator,
    UnsecuredValidator,
)
from minikafka.core.security.sasl.plain import PlainServer
from minikafka.core.security.sasl.scram import ScramServer
from minikafka.core.security.sasl.server_login import EnabledMechanism, ServerLoginConfig
from minikafka.core.security.scram_credentials import Mechanism, ScramCredential, TokenCredential
from minikafka.kernel.config import LISTENER_PREFIX, Config, ConfigDef, ConfigError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.kerberos import KerberosError
from minikafka.kernel.listeners import SASL_PROTOCOLS, Listeners
from minikafka.kernel.ports import Network, World
from minikafka.kernel.security_settings import (
    JAAS_CONFIG,
    SECURED_HANDLERS,
    SERVER_HANDLER,
    TLS_SETTINGS,
)
from minikafka.kernel.tls import TlsSettings
from minikafka.network.http_client import HttpUrl, file_of_url, http_get
from minikafka.network.login_networks import KerberosNetwork, SaslNetwork
from minikafka.protocol.messages.api_versions import ApiVersionsResponse
from minikafka.server.listeners.listener_sasl import ListenerSasl
from minikafka.server.listeners.token_keys import ReadKeys, TokenKeys, TokenKeysConfig

ENABLED = "sasl.enabled.mechanisms"
JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
NAME_RULES = "sasl.kerberos.principal.to.local.rules"
_TLS_OF_CLIENTS: Final = ConfigDef.of(TLS_SETTINGS)
INTER_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
_MODULES: Final = MappingProxyType({**MODULES, gssapi.MECHANISM: KERBEROS_MODULE})

# Returns the present credential of a user for a mechanism, None if there is none.
CredentialOf: TypeAlias = Callable[[Mechanism, str], ScramCredential | None]
# Returns the credential of a delegation token for a mechanism, None if there is no such token.
TokenOf: TypeAlias = Callable[[Mechanism, str], TokenCredential | None]


class BrokerSasl:
    """The SASL of one broker. Raises ConfigError if a mechanism cannot be used.

    ``credential_of``, or ``token_of`` with a delegation token, is called for each login with SCRAM.
    ``inter_broker`` is None unless the listener that brokers use is a SASL listener.
    """

    def __init__(
        self,
        config: Config,
        listeners: Listeners,
        world: World,
        credential_of: CredentialOf,
        token_of: TokenOf,
    ) -> None:
        self._config = config
        self._credential_of = credential_of
        self._token_of = token_of
        self._world = world
        self._token_keys: dict[str, TokenKeys] = {}  # by the listener
        self._mechanisms = {
            endpoint.listener: self._mechanisms_of(endpoint.listener)
            for endpoint in listeners.bound
            if endpoint.security_protocol in SASL_PROTOCOLS
        }
        self.inter_broker: LoginOptions | ServiceLogin | None = None
        if listeners.inter_broker in self._mechanisms:
            self.inter_broker = self._inter_broker_login(listeners.inter_broker)

    def network(self, network: Network) -> Network:
        """Return the Network with which the broker connects to others."""
        login, world = self.inter_broker, self._world
        if login is None:
            return network
        if isinstance(login, ServiceLogin):
            return KerberosNetwork(network, login, world.kerberos, world.clock, world.entropy)
        return SaslNetwork(network, login.exchange, world.clock, world.entropy)

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Load the keys for signed tokens, and keep them up to date. Raises ConfigError."""
        for listener, keys in self._token_keys.items():
            try:
                await keys.load()
            except (OSError, ValueError) as error:
                reason = str(error) or type(error).__name__
                raise ConfigError(
                    f"listener {listener}: the keys of {JWKS_URL} cannot be loaded: {reason}"
                ) from error
            keys.start(tasks)

    def close(self) -> None:
        """Stop keeping the keys for signed tokens up to date."""
        for keys in self._token_keys.values():
            keys.close()

    def listener(
        self, name: str, api_versions: Callable[[int], ApiVersionsResponse]
    ) -> ListenerSasl | None:
        """Return the SASL of a listener; None if it is no SASL listener."""
        mechanisms = self._mechanisms.get(name)
        if mechanisms is None:
            return None
        config = self._config.of_listener(name)
        login = ServerLoginConfig(
            mechanisms, api_versions, config.integer("sasl.server.max.receive.size")
        )
        return ListenerSasl(
            login,
            config.integer("connection.failed.authentication.delay.ms"),
            self._world.clock,
            self._world.entropy,
            event_log("network", listener=name),
        )

    def _inter_broker_login(self, listener: str) -> LoginOptions | ServiceLogin:
        mechanism = self._config.string(INTER_BROKER_MECHANISM)
        if mechanism not in self._mechanisms[listener]:
            raise ConfigError(
                f"{INTER_BROKER_MECHANISM} must be included in {ENABLED} when SASL is used for "
                "inter-broker communication"
            )
        if mechanism == gssapi.MECHANISM:
            return self._service_login(listener)
        login = LoginOptions(mechanism, _entry(self._config, listener, mechanism).options)
        problem = login.problem()
        if problem is not None:
            raise ConfigError(f"{_jaas_key(listener, mechanism)} {problem}")
        return login

    # -- the mechanisms of a listener

    def _mechanisms_of(self, listener: str) -> dict[str, EnabledMechanism]:
        own = self._config.of_listener(listener)
        enabled = own.list(ENABLED)
        unknown = [name for name in enabled if name not in _MODULES]
        if unknown:
            raise ConfigError(
                f"listener {listener}: {ENABLED} names {', '.join(unknown)}; supported are "
                f"{', '.join(_MODULES)}"
            )
        if gssapi.MECHANISM in enabled:
            self._require_kerberos(listener)
        if f"{LISTENER_PREFIX}{listener.lower()}.{JAAS_CONFIG}" in self._config.given:
            event_log("network", listener=listener).warning(
                "jaas_config_ignored", reason=f"{JAAS_CONFIG} needs the prefix of a mechanism"
            )
        return {
            name: EnabledMechanism(
                self._start_of(name, listener),
                own.of_mechanism(name).integer("connections.max.reauth.ms"),
            )
            for name in enabled
        }

    def _start_of(self, name: str, listener: str) -> Callable[[str], ServerExchange]:
        """Return the function that begins an exchange of a mechanism with a nonce."""
        entry = _entry(self._config, listener, name)
        own = self._config.of_listener(listener).of_mechanism(name)
        handler = own.values.get(f"{name.lower()}.{SERVER_HANDLER}")
        if name == oauthbearer.MECHANISM:
            validate = self._validator(listener, own, entry, handler in SECURED_HANDLERS)
            return lambda nonce: OAuthBearerServer(validate)
        if handler is not None:
            raise ConfigError(f"listener {listener}: {handler} is for {oauthbearer.MECHANISM}")
        if name == gssapi.MECHANISM:
            return self._start_of_gssapi(listener)
        if name == plain.MECHANISM:
            users = plain_users(entry)
            return lambda nonce: PlainServer(users.get)
        mechanism = SCRAM_MECHANISMS[name]
        credential_of = partial(self._credential_of, mechanism)
        token_of = partial(self._token_of, mechanism)
        return lambda nonce: ScramServer(mechanism, nonce, credential_of, token_of)

    # -- GSSAPI

    def _require_kerberos(self, listener: str) -> None:
        try:
            self._world.kerberos.require()
        except KerberosError as error:
            raise ConfigError(
                f"listener {listener}: {ENABLED} (default {gssapi.MECHANISM}) names "
                f"{gssapi.MECHANISM}, which cannot be used: {error}"
            ) from error

    def _start_of_gssapi(self, listener: str) -> Callable[[str], ServerExchange]:
        kerberos = self._world.kerberos
        key = _jaas_key(listener, gssapi.MECHANISM)
        principal, keytab = "", ""
        try:
            principal, keytab = keys_of_service(self._service_login(listener))
            accept = kerberos.acceptor(principal, keytab)
        except JaasError as error:
            raise ConfigError(f"{key}: {error}") from error
        except KerberosError as error:
            raise ConfigError(f"{key}: {principal} in {keytab} cannot be used: {error}") from error
        rules = self._config.of_listener(listener).list(NAME_RULES)
        try:
            namer = KerberosShortNamer(rules, kerberos.default_realm())
        except KerberosNameError as error:
            raise ConfigError(f"listener {listener}: {NAME_RULES}: {error}") from error
        return lambda nonce: GssapiServer(accept(), namer.short_name)

    def _service_login(self, listener: str) -> ServiceLogin:
        service_name = self._config.of_listener(listener).optional(SERVICE_NAME)
        try:
            return service_login(_entry(self._config, listener, gssapi.MECHANISM), service_name)
        except JaasError as error:
            key = _jaas_key(listener, gssapi.MECHANISM)
            raise ConfigError(f"{key}: {error}") from error

    def _validator(
        self, listener: str, config: Config, entry: LoginEntry, signed: bool
    ) -> TokenValidator:
        """Return the validator of OAUTHBEARER's tokens. ``config`` is that of the mechanism."""
        try:
            if not signed:
                return UnsecuredValidator.of(entry.options).validate
            log = event_log("network", listener=listener)
            keys = self._token_keys[listener] = _token_keys(config, entry, self._world, log)
            return keys.validate
        except ValueError as error:
            raise ConfigError(f"listener {listener}: {oauthbearer.MECHANISM}: {error}") from error


def _token_keys(config: Config, entry: LoginEntry, world: World, log: EventLog) -> TokenKeys:
    """Return the keys of the endpoint in a configuration. Raises ValueError."""
    from minikafka.core.security.jose_signatures import JoserfcLibrary

    validator = SecuredValidator(
        JoserfcLibrary(),
        config.optional("sasl.oauthbearer.expected.issuer"),
        frozenset(config.optional("sasl.oauthbearer.expected.audience") or ()),
        config.string("sasl.oauthbearer.scope.claim.name"),
        config.string("sasl.oauthbearer.sub.claim.name"),
        config.integer("sasl.oauthbearer.clock.skew.seconds"),
    )
    refresh_ms = config.integer("sasl.oauthbearer.jwks.endpoint.refresh.ms")
    if refresh_ms <= 0:
        raise ConfigError("sasl.oauthbearer.jwks.endpoint.refresh.ms must be positive")
    url = config.optional(JWKS_URL)
    if not url:
        raise ConfigError(f"signed tokens need {JWKS_URL}")
    path = file_of_url(url)
    times = TokenKeysConfig(
        refresh_ms if path is None else None,
        config.integer("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        config.integer("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
    )
    read = _reader(url, entry, world) if path is None else _file_reader(path, world)
    return TokenKeys(times, validator, read, world.clock, log)


def _file_reader(path: str, world: World) -> ReadKeys:
    async def read() -> bytes:
        return world.files.read_all(path)

    return read


def _reader(url: str, entry: LoginEntry, world: World) -> ReadKeys:
    """As with Kafka, the options ``ssl.*`` of the JAAS entry count for https."""
    try:
        address = HttpUrl.parse(url)
    except ValueError as error:
        raise ConfigError(f"{JWKS_URL}: {error}") from error
    options = {key: text for key, text in entry.options.items() if key in _TLS_OF_CLIENTS.settings}
    tls = TlsSettings()
    if address.scheme == "https" and options:
        from minikafka.network.tls_configuration import tls_settings

        tls = tls_settings(_TLS_OF_CLIENTS.parse(options), world.files.read_all)
    if address.scheme == "https":
        world.network.check_tls(tls, of_listener=False)

    async def read() -> bytes:
        return await http_get(world.network, address, tls)

    return read


def _jaas_key(listener: str, mechanism: str) -> str:
    return f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS_CONFIG}"


def _entry(config: Config, listener: str, mechanism: str) -> LoginEntry:
    """Return the JAAS entry of a mechanism. Raises ConfigError."""
    key = _jaas_key(listener, mechanism)
    text = config.values.get(key)
    if not text:
        raise ConfigError(f"listener {listener}: {mechanism} is enabled and needs {key}")
    try:
        entry = parse_jaas_property(text)
    except JaasError as error:
        raise ConfigError(f"{key}: {error}") from error
    if entry.module != _MODULES[mechanism]:
        raise ConfigError(f"{key}: {mechanism} needs {_MODULES[mechanism]}, not {entry.module}")
    return entry
