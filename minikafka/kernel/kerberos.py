"""The interface to Kerberos: contexts of GSS-API, and the tickets that clients need for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol

from minikafka.kernel.extras import how_to_get
from minikafka.kernel.lazy_dataclass import dataclass

HOW_TO_GET = (
    how_to_get("gssapi", "GSSAPI", ["gssapi"])
    + " (Debian, Ubuntu: after apt-get install gcc python3-dev libkrb5-dev)"
)


class KerberosError(Exception):
    """A step of Kerberos failed. The message contains no secret.

    ``retriable`` is true for failures that may not occur again, such as a ticket that is not valid
    yet by the clock of this machine."""

    def __init__(self, message: str, retriable: bool = False) -> None:
        super().__init__(message)
        self.retriable = retriable


@dataclass(frozen=True, slots=True)
class KerberosIdentity:
    """Who logs in: a principal, with the keys of a keytab or the tickets of a cache.

    Without a ``keytab`` the tickets are those of ``ticket_cache``, and without that of the default
    cache of the user; then None is the principal of the cache."""

    principal: str | None
    keytab: str | None = None
    ticket_cache: str | None = None


class SecurityContext(Protocol):
    """One security context of the Kerberos mechanism. Every method may raise KerberosError."""

    @property
    def is_established(self) -> bool: ...

    @property
    def initiator(self) -> str:
        """Return the principal of the client, once the context is established."""
        ...

    def step(self, token: bytes) -> bytes:
        """Process the peer's token and return the next one, which may be empty."""
        ...

    def wrap(self, message: bytes) -> bytes:
        """Protect a message against changes; it is not encrypted."""
        ...

    def unwrap(self, token: bytes) -> bytes:
        """Return the message of the peer's ``wrap``."""
        ...


@dataclass(frozen=True, slots=True)
class Initiation:
    """A context that a client has begun, and its first token."""

    context: SecurityContext
    token: bytes


class Kerberos(Protocol):
    """Kerberos on this machine. Every method may raise KerberosError."""

    def require(self) -> None:
        """Raise KerberosError if the library is not installed."""
        ...

    def default_realm(self) -> str:
        """Return the realm of names without one; "" if none is configured."""
        ...

    def acceptor(self, principal: str, keytab: str) -> Callable[[], SecurityContext]:
        """Return the function that begins a service's side of a context. Raises KerberosError if
        the keytab has no key of the principal."""
        ...

    async def initiate(self, identity: KerberosIdentity, service: str, host: str) -> Initiation:
        """Begin a client's side of a context with a service of a host. Gets tickets from the KDC
        where there are none that are valid for some time."""
        ...


class NoKerberos:
    """Stands for ``Kerberos`` where there is none."""

    def require(self) -> NoReturn:
        raise KerberosError(HOW_TO_GET)

    def default_realm(self) -> str:
        self.require()

    def acceptor(self, principal: str, keytab: str) -> Callable[[], SecurityContext]:
        self.require()

    async def initiate(self, identity: KerberosIdentity, service: str, host: str) -> Initiation:
        self.require()
