"""The folder of a secured cluster: authority, certificates, passwords, client configurations.

It is made at the first start and used again at later ones. Who can read it can act as the
administrator of the cluster, so only its owner may.

    ca.pem, ca-key.pem     the authority
    broker-1.pem, ...      key and certificate of each broker
    users.properties       the passwords
    registry-users         those of clients, for the schema registry
    clients/USER/          configurations of clients, and ca.pem

No other user of the machine may read a file with a secret, at any moment.
"""

from __future__ import annotations

import datetime
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from minikafka.cli.secured.certificates import (
    Authority,
    UnusableCertificate,
    load_authority,
    new_authority,
)
from minikafka.cli.secured.client_files import (
    COMMAND_CONFIG,
    MECHANISM,
    PROTOCOL,
    Access,
    client_files,
    jaas_entry,
)
from minikafka.cli.secured.users import (
    ADMIN_USER,
    APP_PREFIX,
    APP_USER,
    BROKER_USER,
    SUPER_USERS,
    USERS,
)
from minikafka.kernel.config import ConfigError, parse_properties

PRIVATE_UMASK: Final = 0o077  # for processes of which every new file shall be private
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


def make_private_folder(folder: Path) -> None:
    """Create the folder, or check that it is private. Raises ConfigError if another user owns it or
    may enter it: what is inside may be known already."""
    try:
        folder.mkdir(mode=_FOLDER_MODE)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise ConfigError(f"{folder} is not a folder of this user") from None
        if stat.S_IMODE(found.st_mode) & PRIVATE_UMASK:
            raise ConfigError(
                f"other users may enter {folder}, which contains keys and passwords: delete it for "
                f"new ones, or run chmod -R go= {folder} if you trust them"
            ) from None


def write_private(path: Path, text: str) -> None:
    """Replace a file at once. It is private from the start, whatever its mode was before."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


_PASSWORD_BYTES: Final = 24
_RIGHTS: Final[Mapping[str, str]] = {
    APP_USER: f"topics, groups and transactional ids whose names begin with {APP_PREFIX}",
    ADMIN_USER: "everything",
}


class SecurityFolder:
    """The keys and passwords of one cluster. Raises ConfigError and OSError if they cannot be made
    or used."""

    def __init__(self, path: Path, now: datetime.datetime) -> None:
        make_private_folder(path)
        self.path = path
        self._now = now
        self._authority = self._load_or_make_authority()
        self.passwords: Mapping[str, str] = self._load_or_make_passwords()

    @property
    def clients(self) -> Path:
        return self.path / "clients"

    def _load_or_make_authority(self) -> Authority:
        certificate, key = self.path / "ca.pem", self.path / "ca-key.pem"
        if certificate.exists() and key.exists():
            try:
                return load_authority(certificate.read_text(), key.read_text(), self._now)
            except (UnusableCertificate, UnicodeDecodeError) as error:
                raise ConfigError(
                    f"{certificate}: {error}; delete {self.path} for new keys, new passwords and "
                    "new client configurations"
                ) from None
        authority = new_authority("minikafka cluster authority", self._now)
        write_private(key, authority.key_pem)
        write_private(certificate, authority.pem)
        return authority

    def _load_or_make_passwords(self) -> Mapping[str, str]:
        file = self.path / "users.properties"
        found = parse_properties(file.read_text()) if file.exists() else {}
        passwords = {
            user: found.get(user) or secrets.token_urlsafe(_PASSWORD_BYTES) for user in USERS
        }
        if passwords != found:
            lines = "".join(f"{user}={word}\n" for user, word in passwords.items())
            write_private(file, lines)
        return passwords

    def broker_settings(
        self, broker_id: int, hosts: Sequence[str], listeners: Sequence[str]
    ) -> dict[str, str]:
        """Return the settings of a broker for its SASL_SSL listeners, of which the first one is for
        brokers too, and write its certificate if it has none for these hosts. Raises ConfigError.
        """
        file = self.path / f"broker-{broker_id}.pem"
        try:
            if not self._is_usable(file, hosts):
                issued = self._authority.issue(f"broker-{broker_id}", hosts, self._now)
                write_private(file, issued + self._authority.pem)
        except UnusableCertificate as error:
            raise ConfigError(f"certificate of broker {broker_id}: {error}") from None
        entry = jaas_entry(BROKER_USER, self.passwords[BROKER_USER])
        mechanism = MECHANISM.lower()
        return {
            "inter.broker.listener.name": listeners[0],
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            **{
                f"listener.name.{listener.lower()}.{mechanism}.sasl.jaas.config": entry
                for listener in listeners
            },
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(file),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.path / "ca.pem"),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": ";".join(f"User:{user}" for user in SUPER_USERS),
            "allow.everyone.if.no.acl.found": "false",
        }

    def _is_usable(self, file: Path, hosts: Sequence[str]) -> bool:
        if not file.exists():
            return False
        return self._authority.is_usable(file.read_text(errors="replace"), hosts, self._now)

    def write_client_files(self, bootstrap: str) -> None:
        """Write the configurations of clients, which name these brokers."""
        make_private_folder(self.clients)
        for user, rights in _RIGHTS.items():
            folder = self.clients / user
            make_private_folder(folder)
            access = Access(
                bootstrap=bootstrap,
                user=user,
                password=self.passwords[user],
                authority_pem=self._authority.pem,
                authority_path=str(folder / "ca.pem"),
                rights=rights,
                prefix=APP_PREFIX if user == APP_USER else "",
            )
            files = {"ca.pem": self._authority.pem, **client_files(access)}
            for name, text in files.items():
                write_private(folder / name, text)

    def write_registry_users(self) -> Path:
        """Write the file of those who may use the schema registry, and return its path."""
        file = self.path / "registry-users"
        lines = "".join(f"{user}:{self.passwords[user]}\n" for user in _RIGHTS)
        write_private(file, lines)
        return file

    def summary(self) -> list[str]:
        """Return the lines that tell a user where everything is, without a secret."""
        return [
            f"client configurations with passwords, for your user only, in {self.clients}:",
            *(f"  {user + '/':<7} {rights}" for user, rights in _RIGHTS.items()),
            f"  e.g. --command-config {self.admin_config}",
        ]

    @property
    def admin_config(self) -> Path:
        """The ``--command-config`` of the administrator."""
        return self.clients / ADMIN_USER / COMMAND_CONFIG

    def client_settings(self) -> dict[str, str]:
        """Return the settings of a client that logs in as the brokers do."""
        return {
            "security_protocol": PROTOCOL,
            "ssl_truststore_certificates": self._authority.pem,
            "sasl_mechanism": MECHANISM,
            "sasl_username": BROKER_USER,
            "sasl_password": self.passwords[BROKER_USER],
        }
