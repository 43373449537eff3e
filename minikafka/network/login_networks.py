"""Networks around another one, whose connections to other nodes speak TLS, or begin with a login by
SASL or Kerberos (GSSAPI). What they do not change is done by the other one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from minikafka.core.security.kerberos_names import ServiceLogin
from minikafka.core.security.sasl.client_login import ClientLogin, LoginFailed
from minikafka.core.security.sasl.exchange import ClientExchange, Send
from minikafka.core.security.sasl.gssapi import GssapiClient
from minikafka.core.security.sasl.scram import NONCE_BYTES, scram_nonce
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.kerberos import Initiation, Kerberos, KerberosError
from minikafka.kernel.ports import (
    Buffer,
    Clock,
    Entropy,
    Listener,
    Network,
    OutgoingLogin,
    ProtocolFactory,
    TlsOfListener,
)
from minikafka.kernel.tls import TlsSettings


class WrappedNetwork:
    """Passes all calls on to ``network``."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def listen(
        self,
        factory: ProtocolFactory,
        host: str,
        port: int,
        accept_failed: Callable[[OSError], object] = lambda error: None,
        tls: TlsOfListener | None = None,
    ) -> Listener:
        return await self._network.listen(factory, host, port, accept_failed, tls)

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: TlsSettings | None = None
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        return await self._network.connect(factory, host, port, tls)

    def new_login(self) -> OutgoingLogin | None:
        return self._network.new_login()

    def check_tls(self, settings: TlsSettings, of_listener: bool) -> None:
        self._network.check_tls(settings, of_listener)

    def check_handshake(self, server: TlsSettings, client: TlsSettings) -> None:
        self._network.check_handshake(server, client)

    def descriptor_limit(self) -> int:
        return self._network.descriptor_limit()

    async def addresses(self, host: str) -> list[str]:
        return await self._network.addresses(host)

    async def resolves(self, host: str) -> bool:
        return await self._network.resolves(host)


# Begins an exchange with a nonce, at a wall-clock time in ms.
NewExchange = Callable[[str, int], ClientExchange]


class ChannelLogin:
    """Drives a ``ClientLogin`` for one connection (an ``OutgoingLogin``)."""

    def __init__(
        self,
        new_exchange: NewExchange,
        clock: Clock,
        entropy: Entropy,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._ready = ready
        self._new_exchange = new_exchange
        self._clock = clock
        self._entropy = entropy
        self._login = ClientLogin(None)
        self._due_ms: int | None = None

    @property
    def in_progress(self) -> bool:
        return self._login.in_progress

    @property
    def is_due(self) -> bool:
        if self._due_ms is None:
            return False
        ready = self._ready()  # asked before it is time, too: a token takes a while to be refreshed
        return ready and self._clock.monotonic_ms() >= self._due_ms

    def preparation(self, host: str) -> Coroutine[Any, Any, None] | None:
        return None

    def begin(self) -> Buffer:
        nonce = scram_nonce(self._entropy.random_bytes(NONCE_BYTES))
        exchange = self._new_exchange(nonce, self._clock.wall_ms())
        (action,) = self._login.begin(exchange, self._entropy.random())
        assert isinstance(action, Send)
        return action.frame

    def receive(self, frame: Buffer) -> Buffer:
        (action,) = self._login.receive(frame, self._clock.monotonic_ms())
        if isinstance(action, Send):
            return action.frame
        if isinstance(action, LoginFailed):
            raise action.error
        self._due_ms = action.reauthenticate_at_ms
        return b""


class SaslNetwork(WrappedNetwork):
    """``new_exchange`` begins the exchange of each login. A re-authentication waits until ``ready``
    returns true, which is asked before each request."""

    def __init__(
        self,
        network: Network,
        new_exchange: NewExchange,
        clock: Clock,
        entropy: Entropy,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(network)
        self._ready = ready
        self._new_exchange = new_exchange
        self._clock = clock
        self._entropy = entropy

    def new_login(self) -> OutgoingLogin | None:
        return ChannelLogin(self._new_exchange, self._clock, self._entropy, self._ready)


class KerberosChannelLogin(ChannelLogin):
    """A ``ChannelLogin`` that has a ticket before it begins."""

    def __init__(
        self, login: ServiceLogin, kerberos: Kerberos, clock: Clock, entropy: Entropy
    ) -> None:
        super().__init__(self._exchange, clock, entropy)
        self._service_login = login
        self._kerberos = kerberos
        self._begun: Initiation | None = None

    def preparation(self, host: str) -> Coroutine[Any, Any, None] | None:
        return self._prepare(host)

    async def _prepare(self, host: str) -> None:
        login = self._service_login
        try:
            self._begun = await self._kerberos.initiate(login.identity, login.service, host)
        except KerberosError as error:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)) from error

    def _exchange(self, nonce: str, wall_ms: int) -> ClientExchange:
        begun, self._begun = self._begun, None
        assert begun is not None, "a login begins after its preparation"
        return GssapiClient(begun)


class KerberosNetwork(SaslNetwork):
    def __init__(
        self,
        network: Network,
        login: ServiceLogin,
        kerberos: Kerberos,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        super().__init__(network, _without_ticket, clock, entropy)
        self._service_login = login
        self._kerberos = kerberos

    def new_login(self) -> OutgoingLogin:
        return KerberosChannelLogin(self._service_login, self._kerberos, self._clock, self._entropy)


def _without_ticket(nonce: str, wall_ms: int) -> ClientExchange:
    raise AssertionError("an exchange of GSSAPI needs a ticket")


class TlsNetwork(WrappedNetwork):
    """``settings`` returns those of a new connection that is made with no others."""

    def __init__(self, network: Network, settings: Callable[[], TlsSettings]) -> None:
        super().__init__(network)
        self._settings = settings

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: TlsSettings | None = None
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        return await self._network.connect(factory, host, port, tls or self._settings())
