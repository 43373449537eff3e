"""The security of a ZooKeeper session, as data: TLS, a login, and the ACLs of new znodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from enum import IntFlag
from typing import Final, TypeAlias

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.tls import TlsSettings


class Permission(IntFlag):
    """What an entry of an ACL allows, by ZooKeeper's numbers. CREATE and DELETE concern children,
    ADMIN the ACL itself."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


@dataclass(frozen=True, slots=True)
class ZnodeAclEntry:
    """An entry of a znode's ACL: what clients with an identity may do. ``sasl`` identities are the
    names of logins, ``x509`` those of client certificates; ``world`` has one, ``anyone``."""

    permissions: Permission
    scheme: str
    identity: str


ZnodeAcl: TypeAlias = tuple[ZnodeAclEntry, ...]

ANYONE_ALL: Final[ZnodeAcl] = (ZnodeAclEntry(Permission.ALL, "world", "anyone"),)
ANYONE_READ: Final[ZnodeAcl] = (ZnodeAclEntry(Permission.READ, "world", "anyone"),)
# ZooKeeper replaces it by all identities of the client that creates the znode.
CREATOR_ALL: Final[ZnodeAcl] = (ZnodeAclEntry(Permission.ALL, "auth", ""),)


def open_acl(path: str) -> ZnodeAcl:
    """Return the ACL of a znode that is open to everybody."""
    return ANYONE_ALL


@dataclass(frozen=True, slots=True)
class DigestLogin:
    """A user of ZooKeeper, who logs in with SASL's DIGEST-MD5."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CoordinationSecurity:
    """How a session is secured. Without ``tls`` it is not encrypted, without ``login`` there is no
    SASL. ``acl_of`` returns the ACL of a znode that the session creates; the path is relative to
    the chroot."""

    tls: TlsSettings | None = None
    login: DigestLogin | None = None
    acl_of: Callable[[str], ZnodeAcl] = open_acl

    @property
    def has_identity(self) -> bool:
        """Whether ZooKeeper knows who the client is."""
        return self.login is not None or (self.tls is not None and bool(self.tls.key))


UNSECURED: Final = CoordinationSecurity()
