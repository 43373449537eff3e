"""Requests to the schema registry that the page was started with."""

from __future__ import annotations

import base64
from typing import Final

from minikafka.kernel.ports import Network
from minikafka.kernel.tls import TlsSettings
from minikafka.network.http_client import HttpGetConnection, HttpUrl

MOST_BYTES: Final = 4 * 1024 * 1024  # of a response


class PageRegistry:
    """The registry at ``url``. ``login`` is the name and the password that it wants, if any."""

    def __init__(self, network: Network, url: str, login: tuple[str, str] | None) -> None:
        """Raises ValueError for an address that is none."""
        self._network = network
        self._url = HttpUrl.parse(url)
        self._headers: dict[str, str] = {}
        if login is not None:
            text = base64.b64encode(":".join(login).encode()).decode()
            self._headers = {"Authorization": f"Basic {text}"}

    async def get(self, path: str) -> bytes:
        """Return the body of the response. Raises OSError, HttpStatusError."""
        connection = HttpGetConnection(lambda: self._network, self._url, TlsSettings(), MOST_BYTES)
        try:
            target = self._url.target.rstrip("/") + path
            return await connection.get(target, keep=False, headers=self._headers)
        finally:
            connection.close()
