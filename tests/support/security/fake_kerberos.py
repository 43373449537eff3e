"""A Kerberos without keys: contexts whose tokens are readable, for tests of what is around them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minikafka.kernel.kerberos import (
    Initiation,
    KerberosError,
    KerberosIdentity,
    SecurityContext,
)

SIGNED = b"signed:"


class FakeContext:
    """A client's side of a context if it has a name, else a service's. The token of a client is
    ``ticket of NAME``; that of a service that authenticates itself, too, is ``welcome``. ``more``
    goes from one side to the other as often as they like before."""

    def __init__(self, name: str = "", mutual: bool = True) -> None:
        self.is_established = False
        self.initiator = name
        self._initiates = bool(name)
        self._mutual = mutual

    def step(self, token: bytes) -> bytes:
        if token == b"more":
            return b"more"
        return self._client_step(token) if self._initiates else self._service_step(token)

    def _client_step(self, token: bytes) -> bytes:
        if not token:
            self.is_established = not self._mutual
            return f"ticket of {self.initiator}".encode()
        if token != b"welcome":
            raise KerberosError("Invalid token was supplied")
        self.is_established = True
        return b""

    def _service_step(self, token: bytes) -> bytes:
        if token == b"replayed":
            raise KerberosError("Request is a replay", retriable=True)
        kind, _, name = token.decode(errors="replace").partition(" of ")
        if kind != "ticket":
            raise KerberosError("Invalid token was supplied")
        self.initiator = name
        self.is_established = True
        return b"welcome" if self._mutual else b""

    def wrap(self, message: bytes) -> bytes:
        return SIGNED + message

    def unwrap(self, token: bytes) -> bytes:
        if not token.startswith(SIGNED):
            raise KerberosError("A token had an invalid Message Integrity Check (MIC)")
        return token.removeprefix(SIGNED)


class FakeKerberos:
    """Its ``initiate`` waits until ``kdc_up`` is set, and fails with ``failure``."""

    def __init__(self, realm: str = "EXAMPLE.COM") -> None:
        self.realm = realm
        self.initiated: list[tuple[KerberosIdentity, str, str]] = []
        self.failure: KerberosError | None = None
        self.kdc_up = asyncio.Event()
        self.kdc_up.set()

    def require(self) -> None:
        pass

    def default_realm(self) -> str:
        return self.realm

    def acceptor(self, principal: str, keytab: str) -> Callable[[], SecurityContext]:
        if "missing" in keytab:
            raise KerberosError(f"Key table file '{keytab}' not found")
        return FakeContext

    async def initiate(self, identity: KerberosIdentity, service: str, host: str) -> Initiation:
        self.initiated.append((identity, service, host))
        await self.kdc_up.wait()
        if self.failure is not None:
            raise self.failure
        context = FakeContext(identity.principal or "")
        return Initiation(context, context.step(b""))
