"""A Network whose connections to other nodes speak TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minikafka.kernel.ports import Listener, Network, OutgoingLogin, ProtocolFactory, TlsOfListener
from minikafka.kernel.tls import TlsSettings


class TlsNetwork:
    """Wraps a Network. ``settings`` returns those of a new connection that is made with no
    others."""

    def __init__(self, network: Network, settings: Callable[[], TlsSettings]) -> None:
        self._network = network
        self._settings = settings

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: TlsSettings | None = None
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        return await self._network.connect(factory, host, port, tls or self._settings())

    async def listen(
        self,
        factory: ProtocolFactory,
        host: str,
        port: int,
        accept_failed: Callable[[OSError], object] = lambda error: None,
        tls: TlsOfListener | None = None,
    ) -> Listener:
        return await self._network.listen(factory, host, port, accept_failed, tls)

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
