"""Reports on standard error that brokers cannot be reached, as soon as the first attempt fails."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from minikafka.kernel.ports import Listener, Network, OutgoingLogin, ProtocolFactory, TlsOfListener
from minikafka.kernel.tls import TlsSettings

PATIENCE_S = 5  # an attempt that fails after this long had no response at all


class FirstContact:
    """A Network that wraps another one and reports the first failed connection on standard error.
    After a successful connection it reports nothing: the client then knows other brokers."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._told = False

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
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        try:
            made = await self._network.connect(factory, host, port, tls)
        except OSError as error:
            self._tell(f"{host}:{port}: {error.strerror or error}")
            raise
        except asyncio.CancelledError:
            if loop.time() - begun_s >= PATIENCE_S:
                self._tell(f"{host}:{port}: no answer")
            raise
        self._told = True
        return made

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

    def _tell(self, what: str) -> None:
        if not self._told:
            self._told = True
            print(f"minikafka: {what}; trying on", file=sys.stderr, flush=True)
