"""The security of the ZooKeeper that minikafka starts: SASL users and a TLS port.

Both come from files in one directory, which a caller writes before it starts the server::

    write_users(directory, {"kafka": password})       # SASL: users.jaas
    (directory / "keystore.pem").write_bytes(...)     # TLS: the server's key and certificates
    (directory / "truststore.pem").write_bytes(...)   # TLS: who signs certificates of clients
    options = ZookeeperOptions(data_dir, port, security=server_security(directory, tls_port))

On the command line that is ``minikafka zookeeper --secure DIRECTORY --secure-port PORT``.
``login_file_text`` is the text of the file that ``java.security.auth.login.config`` of a broker, or
of Apache Kafka, names.

- With ``users.jaas`` clients may log in with DIGEST-MD5. Clients without a login are served, too,
  and reach what ACLs leave open (``zookeeper.set.acl``).
- With a TLS port the directory has ``keystore.pem``, or ``keystore.p12`` with its password in
  ``keystore.password``. With ``truststore.pem`` (or ``truststore.p12`` and
  ``truststore.password``) clients must show a certificate, which is their identity (x509).
- The plain port stays open, but on 127.0.0.1 only: it shows that the server runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from minikafka.kernel.lazy_dataclass import dataclass

USERS: Final = "users.jaas"
_DIGEST_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"


class CredentialsError(Exception):
    """A directory of credentials that lacks a file; the message is one line for the user."""


@dataclass(frozen=True, slots=True)
class ServerSecurity:
    """What a secured server gets besides its usual settings: lines of zoo.cfg and options of the
    JVM. ``tls_port`` is 0 without TLS."""

    properties: Mapping[str, str]
    jvm_options: tuple[str, ...]
    tls_port: int = 0


def server_security(directory: Path, tls_port: int = 0) -> ServerSecurity:
    """Return the security that the files of a directory describe, with a TLS port unless it is 0.

    Raises CredentialsError if there are no users and no TLS port, or if TLS lacks a key store."""
    directory = directory.absolute()
    users = directory / USERS
    properties: dict[str, str] = {}
    options: list[str] = []
    if users.is_file():
        provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        properties["authProvider.sasl"] = provider
        options.append(f"-Djava.security.auth.login.config={users}")
    if tls_port:
        properties |= _tls_properties(directory)
    if not properties:
        raise CredentialsError(f"{directory} has no {USERS}, and no TLS port is given")
    return ServerSecurity(properties, tuple(options), tls_port)


def _tls_properties(directory: Path) -> dict[str, str]:
    key = _store(directory, "keystore")
    if not key:
        raise CredentialsError(f"{directory} has neither keystore.pem nor keystore.p12")
    trust = _store(directory, "truststore")
    return {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        # ZooKeeper 3.9 alone would offer TLS 1.3 only, while TLS 1.2 is the default of Kafka.
        "ssl.enabledProtocols": "TLSv1.2,TLSv1.3",
        "ssl.clientAuth": "need" if trust else "none",
        # An identity is a certificate: clients need not have the name of a host.
        "ssl.clientHostnameVerification": "false",
        **{f"ssl.keyStore.{name}": value for name, value in key.items()},
        **{f"ssl.trustStore.{name}": value for name, value in trust.items()},
    }


def _store(directory: Path, name: str) -> dict[str, str]:
    """Return ZooKeeper's settings of a store; none if there is none. A password stays in its
    file, since zoo.cfg is not secret."""
    pem, pkcs12 = directory / f"{name}.pem", directory / f"{name}.p12"
    if pem.is_file():
        return {"location": str(pem), "type": "PEM"}
    if pkcs12.is_file():
        password = directory / f"{name}.password"
        return {"location": str(pkcs12), "type": "PKCS12", "passwordPath": str(password)}
    return {}


def write_users(directory: Path, users: Mapping[str, str]) -> None:
    """Write the users and passwords of a server, readable by their owner only. A user's name may
    have letters, digits and ``_-.``: it becomes a part of a key."""
    options = "\n".join(f"    user_{name}={_quoted(users[name])}" for name in users)
    text = f"Server {{\n  {_DIGEST_MODULE} required\n{options};\n}};\n"
    path = directory / USERS
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def login_file_text(username: str, password: str) -> str:
    """Return the JAAS file with which a client of ZooKeeper logs in."""
    return (
        f"Client {{\n  {_DIGEST_MODULE} required\n"
        f"    username={_quoted(username)}\n    password={_quoted(password)};\n}};\n"
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
