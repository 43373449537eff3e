"""Reports on standard error that brokers cannot be reached, as soon as the first attempt fails."""

from __future__ import annotations

import asyncio
import sys

from minikafka.kernel.ports import Network, ProtocolFactory
from minikafka.kernel.tls import TlsSettings
from minikafka.network.wrapped_network import WrappedNetwork

# The OSError has no text if the peer closes the connection during the TLS handshake.
NO_REASON = "the peer has closed the connection"
PATIENCE_S = 5  # an attempt that fails after this long had no response at all


class FirstContact(WrappedNetwork):
    """A Network that wraps another one and reports the first failed connection on standard error.
    After a successful connection it reports nothing: the client then knows other brokers.

    ``limit_ms`` is how long the client tries, None if for ever."""

    def __init__(self, network: Network, limit_ms: int | None) -> None:
        super().__init__(network)
        self._limit = "" if limit_ms is None else f" for {limit_ms / 1000:g} s"
        self._told = False

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: TlsSettings | None = None
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        try:
            made = await self._network.connect(factory, host, port, tls)
        except OSError as error:
            self._tell(f"{host}:{port}: {error.strerror or str(error) or NO_REASON}")
            raise
        except asyncio.CancelledError:
            if loop.time() - begun_s >= PATIENCE_S:
                self._tell(f"{host}:{port}: no answer")
            raise
        self._told = True
        return made

    def _tell(self, what: str) -> None:
        if not self._told:
            self._told = True
            print(f"minikafka: {what}; trying on{self._limit}", file=sys.stderr, flush=True)
