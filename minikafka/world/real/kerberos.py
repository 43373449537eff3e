"""The real Kerberos: MIT's or Heimdal's GSS-API through the package ``gssapi`` (extra ``gssapi``).

Nothing of the package is imported before a method is called. A step of a context on the event loop
takes 0.1 ms and reads the keytab and the replay cache, which are small files. ``initiate`` may
wait for the KDC, so it runs in a separate thread: a KDC that does not respond delays new
connections and nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from minikafka.kernel.kerberos import (
    HOW_TO_GET,
    Initiation,
    KerberosError,
    KerberosIdentity,
    SecurityContext,
)

# Error codes of Kerberos (RFC 4120) are the minor codes above this one.
_FIRST_CODE: Final = 2_529_638_912
# Client not yet valid, ticket not yet valid, request is a replay: Kafka closes without a response.
_RETRIABLE_CODES: Final = frozenset({21, 33, 34})


def _library() -> Any:
    try:
        import gssapi
    except ImportError as error:
        raise KerberosError(HOW_TO_GET) from error
    return gssapi


class RealKerberos:
    """See ``kernel.kerberos.Kerberos``."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="minikafka-kerberos")

    def require(self) -> None:
        _library()

    def default_realm(self) -> str:
        gssapi = _library()
        try:
            name = gssapi.Name("nobody", gssapi.NameType.user)
            return str(name.canonicalize(gssapi.MechType.kerberos)).rpartition("@")[2]
        except gssapi.exceptions.GSSError:
            return ""  # as in Kafka, names of all realms need rules then

    def acceptor(self, principal: str, keytab: str) -> Callable[[], SecurityContext]:
        gssapi = _library()
        try:
            credentials = gssapi.Credentials(
                name=gssapi.Name(principal, gssapi.NameType.kerberos_principal),
                usage="accept",
                mechs=[gssapi.MechType.kerberos],
                store={"keytab": keytab},
            )
        except gssapi.exceptions.GSSError as error:
            raise _kerberos_error(error) from error
        return lambda: _Context(gssapi, creds=credentials, usage="accept")

    async def initiate(self, identity: KerberosIdentity, service: str, host: str) -> Initiation:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, _initiate, identity, service, host)


def _initiate(identity: KerberosIdentity, service: str, host: str) -> Initiation:
    gssapi = _library()
    name = None
    try:
        if identity.principal is not None:
            name = gssapi.Name(identity.principal, gssapi.NameType.kerberos_principal)
        credentials = gssapi.Credentials(
            name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=_store(identity)
        )
        target = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
    except gssapi.exceptions.GSSError as error:
        reason = _kerberos_error(error)
        source = identity.keytab or identity.ticket_cache or "the default ticket cache"
        owner = identity.principal or "its owner"
        message = f"no ticket of {owner} by {source}: {reason}"
        raise KerberosError(message, reason.retriable) from error
    flags = gssapi.RequirementFlag
    context = _Context(
        gssapi,
        name=target,
        creds=credentials,
        usage="initiate",
        mech=gssapi.MechType.kerberos,
        flags=[flags.mutual_authentication, flags.integrity],
    )
    return Initiation(context, context.step(b""))


def _store(identity: KerberosIdentity) -> dict[str, str] | None:
    """Return where the library finds tickets and keys. With a keytab it gets a ticket of the
    principal, keeps it in the memory of the process, and gets another one after half of its life.
    """
    if identity.keytab is not None:
        key = hashlib.sha256(f"{identity.principal}\0{identity.keytab}".encode()).hexdigest()
        return {"client_keytab": identity.keytab, "ccache": f"MEMORY:minikafka-{key}"}
    return None if identity.ticket_cache is None else {"ccache": identity.ticket_cache}


class _Context:
    """A ``SecurityContext``, made with the arguments of ``gssapi.SecurityContext``."""

    def __init__(self, gssapi: Any, **arguments: Any) -> None:
        self._error: type[Exception] = gssapi.exceptions.GSSError
        try:
            self._context = gssapi.SecurityContext(**arguments)
        except self._error as error:
            raise _kerberos_error(error) from error
        # The token of a failed step is not sent: Kafka has its own errors.
        self._context.__DEFER_STEP_ERRORS__ = False

    @property
    def is_established(self) -> bool:
        return bool(self._context.complete)

    @property
    def initiator(self) -> str:
        try:
            return str(self._context.initiator_name)
        except self._error as error:
            raise _kerberos_error(error) from error
        except UnicodeDecodeError as error:
            raise KerberosError("the name of the client is not UTF-8") from error

    def step(self, token: bytes) -> bytes:
        try:
            return self._context.step(token or None) or b""
        except self._error as error:
            raise _kerberos_error(error) from error

    def wrap(self, message: bytes) -> bytes:
        try:
            return bytes(self._context.wrap(message, False).message)
        except self._error as error:
            raise _kerberos_error(error) from error

    def unwrap(self, token: bytes) -> bytes:
        try:
            return bytes(self._context.unwrap(token).message)
        except self._error as error:
            raise _kerberos_error(error) from error


def _kerberos_error(error: Any) -> KerberosError:
    """Translate a GSSError. The text of the mechanism says more than that of GSS-API."""
    minor = error.min_code
    texts = error.get_all_statuses(minor, False) if minor else []
    texts = texts or error.get_all_statuses(error.maj_code, True)
    return KerberosError("; ".join(texts), minor - _FIRST_CODE in _RETRIABLE_CODES)
