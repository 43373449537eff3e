"""A Network whose connections to other nodes speak TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minikafka.kernel.ports import Network, ProtocolFactory
from minikafka.kernel.tls import TlsSettings
from minikafka.network.wrapped_network import WrappedNetwork


class TlsNetwork(WrappedNetwork):
    """``settings`` returns those of a new connection that is made with no others."""

    def __init__(self, network: Network, settings: Callable[[], TlsSettings]) -> None:
        super().__init__(network)
        self._settings = settings

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: TlsSettings | None = None
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        return await self._network.connect(factory, host, port, tls or self._settings())
