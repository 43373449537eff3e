"""A Network around another one: what a subclass does not change is done by the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minikafka.kernel.ports import Listener, Network, OutgoingLogin, ProtocolFactory, TlsOfListener
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
