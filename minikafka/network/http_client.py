"""Requests over HTTP/1.1, through a Network: GET, also many over one connection, and others with a
body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from minikafka.kernel.lazy_module import LazyModule
from minikafka.kernel.ports import Network
from minikafka.kernel.tls import TlsSettings

if TYPE_CHECKING:
    import h11
else:
    h11 = LazyModule("h11")


TIMEOUT_MS = 10_000
MAX_BODY_BYTES = 1024 * 1024
_READ_BYTES = 16 * 1024
SUCCESSES = (200, 201, 202, 204)
_PORTS = {"http": 80, "https": 443}


class HttpStatusError(ConnectionError):
    """A response has another status than those of ``SUCCESSES``. ``body`` may be incomplete."""

    def __init__(self, status: int, body: bytes = b"") -> None:
        super().__init__(f"the response has the status {status}")
        self.status = status
        self.body = body


class HttpUrl(NamedTuple):
    """An address of an HTTP server. ``target`` is what the request line names."""

    scheme: str
    host: str
    port: int
    target: str

    @classmethod
    def parse(cls, text: str) -> HttpUrl:
        """Raises ValueError."""
        parts = urlsplit(text)
        scheme, host = parts.scheme.lower(), parts.hostname
        if scheme not in _PORTS or not host or "@" in parts.netloc:
            raise ValueError("it is no address http://host/path or https://host/path")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not target.isascii() or not target.isprintable() or " " in target:
            raise ValueError("its path has characters that need to be escaped")
        return cls(scheme, host, parts.port or _PORTS[scheme], target)


def file_of_url(text: str) -> str | None:
    """Return the path of an address ``file:///path``, None for any other address."""
    parts = urlsplit(text)
    return unquote(parts.path) if parts.scheme.lower() == "file" else None


async def http_get(
    network: Network, url: HttpUrl, tls: TlsSettings, max_body_bytes: int = MAX_BODY_BYTES
) -> bytes:
    """Return the body of the response. ``tls`` counts for https. Redirections are not followed.

    Raises HttpStatusError for a status that is not in ``SUCCESSES``, and OSError if the server
    cannot be reached, responds with more than ``max_body_bytes``, or not within ``TIMEOUT_MS``."""
    connection = HttpGetConnection(lambda: network, url, tls, max_body_bytes)
    try:
        return await connection.get(url.target, keep=False)
    finally:
        connection.close()


async def http_post(
    network: Network, url: HttpUrl, tls: TlsSettings, headers: Mapping[str, str], body: bytes
) -> bytes:
    """Send ``body``, and return that of the response. Raises what ``http_get`` raises."""
    connection = HttpGetConnection(lambda: network, url, tls)
    try:
        return await connection.send("POST", url.target, headers, body)
    finally:
        connection.close()


class HttpGetConnection:
    """GET requests to the server of ``url``, one at a time, over one connection, which is opened
    when it is needed. ``network`` returns the network to use then. ``tls`` counts for https."""

    def __init__(
        self,
        network: Callable[[], Network],
        url: HttpUrl,
        tls: TlsSettings,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self._network = network
        self._url = url
        self._tls = tls
        self._max_body_bytes = max_body_bytes
        self._open: tuple[asyncio.Transport, _Requests] | None = None

    @property
    def is_closed(self) -> bool:
        """Whether there is no connection that can be used: the next request opens another one."""
        return self._open is None or not self._open[1].is_reusable

    async def get(self, target: str, keep: bool = True) -> bytes:
        """Return the body of the response; the connection stays open if ``keep`` is set. Raises
        OSError as ``http_get``, and then the next request opens another connection."""
        return await self._request("GET", target, {"Accept": "application/json"}, b"", keep)

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, keep: bool = False
    ) -> bytes:
        """Send ``body`` and return that of the response. Raises OSError as ``http_get``."""
        with_size = {**headers, "Content-Length": str(len(body))} if body else headers
        return await self._request(method, target, with_size, body, keep)

    async def _request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, keep: bool
    ) -> bytes:
        if self.is_closed:
            self.close()
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                transport, protocol = self._open or await self._connect()
                self._open = transport, protocol
                found = await protocol.request(transport, method, target, headers, body, keep)
        except BaseException:
            self.close()
            raise
        if not protocol.is_reusable:
            self.close()
        return found

    def close(self) -> None:
        if self._open is not None:
            self._open[0].abort()
            self._open = None

    async def _connect(self) -> tuple[asyncio.Transport, _Requests]:
        url = self._url
        transport, protocol = await self._network().connect(
            lambda: _Requests(url, self._max_body_bytes),
            url.host,
            url.port,
            self._tls if url.scheme == "https" else None,
        )
        return transport, cast(_Requests, protocol)


class _Requests(asyncio.BufferedProtocol):
    """The protocol of one connection. A request at a time."""

    def __init__(self, url: HttpUrl, max_body_bytes: int) -> None:
        self._url = url
        self._max_body_bytes = max_body_bytes
        self._http = h11.Connection(h11.CLIENT)
        self._buffer = bytearray(_READ_BYTES)
        self._received = bytearray()
        self._status = 0  # of the response that arrives, if it is no success
        self._body: asyncio.Future[bytes] | None = None
        self._closed: ConnectionError | None = None  # why

    @property
    def is_reusable(self) -> bool:
        """Whether another request can be sent, after a response."""
        return self._closed is None and self._http.our_state is h11.IDLE

    async def request(
        self,
        transport: asyncio.Transport,
        method: str,
        target: str,
        more: Mapping[str, str],
        sent: bytes,
        keep: bool,
    ) -> bytes:
        """Return the body of the response. Raises OSError."""
        if self._closed is not None:
            raise ConnectionError(str(self._closed))
        self._received, self._status = bytearray(), 0
        self._body = asyncio.get_running_loop().create_future()
        host = f"[{self._url.host}]" if ":" in self._url.host else self._url.host
        headers = [
            ("Host", f"{host}:{self._url.port}"),
            *more.items(),
            ("Connection", "keep-alive" if keep else "close"),
        ]
        request = h11.Request(method=method, target=target, headers=headers)
        events = [request, *([h11.Data(data=sent)] if sent else []), h11.EndOfMessage()]
        transport.write(b"".join(self._http.send(each) or b"" for each in events))
        return await self._body

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._receive(bytes(memoryview(self._buffer)[:nbytes]))

    def eof_received(self) -> bool:
        self._receive(b"")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        reason = exc or "the connection was closed before the end of the response"
        self._fail(self._status_error() or ConnectionError(str(reason)))

    def _status_error(self) -> HttpStatusError | None:
        return HttpStatusError(self._status, bytes(self._received)) if self._status else None

    def _receive(self, data: bytes) -> None:
        body = self._body
        try:
            self._http.receive_data(data)
            while body is not None and not body.done():
                event = self._http.next_event()
                match event:
                    case h11.Response() if event.status_code not in SUCCESSES:
                        self._status = event.status_code
                    case h11.Data():
                        self._received += event.data
                        if len(self._received) > self._max_body_bytes:
                            reason = f"the response has more than {self._max_body_bytes} bytes"
                            self._fail(ConnectionError(reason))
                    case h11.EndOfMessage():
                        if self._http.our_state is h11.DONE:
                            self._http.start_next_cycle()
                        if error := self._status_error():
                            body.set_exception(error)
                        else:
                            body.set_result(bytes(self._received))
                    case h11.NEED_DATA | h11.PAUSED | h11.ConnectionClosed():
                        return
        except h11.ProtocolError as error:
            self._fail(ConnectionError(f"the response is malformed: {error}"))

    def _fail(self, error: ConnectionError) -> None:
        self._closed = self._closed or error
        if self._body is not None and not self._body.done():
            self._body.set_exception(error)
