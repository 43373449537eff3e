"""The security of ZooKeeper sessions, from a configuration and the files that it names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from minikafka.kernel.config import Config, ConfigError
from minikafka.kernel.ports import Files, World
from minikafka.kernel.tls import TlsError, TlsSettings
from minikafka.kernel.zookeeper_security import CoordinationSecurity, DigestLogin, open_acl
from minikafka.server.zookeeper.znode_acls import secure_acl

if TYPE_CHECKING:
    from minikafka.core.security.jaas import LoginEntry

T = TypeVar("T")

LOGIN_FILE: Final = "java.security.auth.login.config"
SASL_CLIENT: Final = "zookeeper.sasl.client"
LOGIN_SECTION: Final = "zookeeper.sasl.clientconfig"
TLS_ENABLED: Final = "zookeeper.ssl.client.enable"
SET_ACL: Final = "zookeeper.set.acl"
DIGEST_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
KEY_STORE: Final = ("zookeeper.ssl.keystore.location", "zookeeper.ssl.keystore.password")
TRUST_STORE: Final = ("zookeeper.ssl.truststore.location", "zookeeper.ssl.truststore.password")
_TLS_KEYS: Final = (
    *KEY_STORE,
    *TRUST_STORE,
    *("zookeeper.ssl.cipher.suites", "zookeeper.ssl.enabled.protocols"),
)


def session_security(config: Config, files: Files) -> CoordinationSecurity:
    """Return how a broker or a tool secures its session. Raises ConfigError, which names the key
    and no secret, for files that cannot be used and for ACLs without an identity."""
    security = CoordinationSecurity(_tls(config, files), _login(config, files), open_acl)
    if not config.boolean(SET_ACL):
        return security
    if not security.has_identity:
        raise ConfigError(
            f"{SET_ACL}=true needs an identity at ZooKeeper: a section "
            f"{config.string(LOGIN_SECTION)} in the JAAS file of {LOGIN_FILE}, or "
            f"{TLS_ENABLED}=true and {KEY_STORE[0]}"
        )
    return CoordinationSecurity(security.tls, security.login, secure_acl)


def checked_security(config: Config, world: World) -> CoordinationSecurity:
    """Return the security of a ZooKeeper session whose TLS settings the TLS library takes. Raises
    ConfigError as ``session_security``, and if the library refuses them."""
    security = session_security(config, world.files)
    if security.tls is not None:
        try:
            world.network.check_tls(security.tls, of_listener=False)
        except TlsError as error:
            raise ConfigError(f"zookeeper.ssl: {error}") from error
    return security


# ------------------------------------------------------------------------------------------ SASL


def _login(config: Config, files: Files) -> DigestLogin | None:
    path, section = config.optional(LOGIN_FILE), config.string(LOGIN_SECTION)
    if path is None:
        return None
    from minikafka.core.security.jaas import JaasError, parse_jaas_file

    where = f"{LOGIN_FILE}={path}"
    try:
        sections = parse_jaas_file(_read(LOGIN_FILE, path, files).decode())
    except (JaasError, UnicodeDecodeError) as error:
        reason = str(error) if isinstance(error, JaasError) else "the file is not UTF-8"
        raise ConfigError(f"{where}: {reason}") from None
    if section not in sections:
        if LOGIN_SECTION in config.given:
            raise ConfigError(f"{where}: there is no section {section}")
        return None
    if not config.boolean(SASL_CLIENT):
        raise ConfigError(f"{where}: the section {section} has no effect with {SASL_CLIENT}=false")
    return _digest_login(sections[section][0] if sections[section] else None, where, section)


def _digest_login(entry: LoginEntry | None, where: str, section: str) -> DigestLogin:
    if entry is None or entry.module != DIGEST_MODULE:
        module = "nothing" if entry is None else entry.module
        raise ConfigError(
            f"{where}: the section {section} has {module}; for ZooKeeper there is {DIGEST_MODULE} "
            "(DIGEST-MD5)"
        )
    username, password = entry.options.get("username"), entry.options.get("password")
    if not username or password is None:
        raise ConfigError(f"{where}: the section {section} needs a username and a password")
    return DigestLogin(username, password)


# ------------------------------------------------------------------------------------------- TLS


def _tls(config: Config, files: Files) -> TlsSettings | None:
    if not config.boolean(TLS_ENABLED):
        idle = [key for key in _TLS_KEYS if config.optional(key) is not None]
        if idle:
            raise ConfigError(f"{idle[0]} has no effect without {TLS_ENABLED}=true")
        return None
    from minikafka.core.security.cipher_suites import UnknownCipherSuite, openssl_suites

    try:
        ciphers = openssl_suites(config.optional("zookeeper.ssl.cipher.suites") or ())
    except UnknownCipherSuite as error:
        raise ConfigError(f"zookeeper.ssl.cipher.suites: {error}") from error
    protocols = config.optional("zookeeper.ssl.enabled.protocols")
    key, chain = _key_store(config, files)
    return TlsSettings(
        key=key,
        chain=chain,
        trusted=_trusted(config, files),
        protocols=tuple(protocols or (config.string("zookeeper.ssl.protocol"),)),
        ciphers=ciphers,
        check_host_name=bool(config.string("zookeeper.ssl.endpoint.identification.algorithm")),
    )


def _key_store(config: Config, files: Files) -> tuple[bytes, bytes]:
    """Return the key and its certificates; both empty without a key store."""
    # Loads the cryptography library.
    from minikafka.core.security.tls_stores import is_pem, key_store_of_file

    location, password = _location(config, KEY_STORE)
    if location is None:
        return b"", b""
    data = _read(KEY_STORE[0], location, files)

    def read() -> tuple[bytes, bytes]:
        pem = is_pem(data)
        store = key_store_of_file(data, None if pem else password, password)
        return store.key, store.chain

    return _checked(f"{KEY_STORE[0]}={location}", read)


def _trusted(config: Config, files: Files) -> bytes:
    from minikafka.core.security.tls_stores import trust_store_of_file

    location, password = _location(config, TRUST_STORE)
    if location is None:
        return b""
    data = _read(TRUST_STORE[0], location, files)
    return _checked(f"{TRUST_STORE[0]}={location}", lambda: trust_store_of_file(data, password))


def _location(config: Config, keys: tuple[str, str]) -> tuple[str | None, str | None]:
    """Return the path of a store and its password."""
    location, password = map(config.optional, keys)
    if location is None and password is not None:
        raise ConfigError(f"{keys[1]} needs {keys[0]}")
    return location, password


def _read(key: str, path: str, files: Files) -> bytes:
    try:
        return files.read_all(path)
    except OSError as error:
        raise ConfigError(f"{key}={path} cannot be read: {error.strerror or error}") from error


def _checked(what: str, read: Callable[[], T]) -> T:
    from minikafka.core.security.tls_stores import StoreError

    try:
        return read()
    except StoreError as error:
        text = str(error).replace("ssl.key.password", KEY_STORE[1])
        raise ConfigError(f"{what}: {text}") from error
