"""A small HTTP/1.1 server for the debug listener and for metrics: a table of paths.

``HttpServer`` holds the table and builds replies; ``HttpConnection`` drives h11 for one peer. A
route returns a value that is sent as JSON, or a text, at once or as a coroutine. What it does
without an await must be quick: the whole broker waits for it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import parse_qsl

from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.lazy_module import LazyModule
from minikafka.kernel.listeners import is_loopback
from minikafka.kernel.ports import Clock, Listener, Network, TimerHandle

if TYPE_CHECKING:
    import h11
else:
    h11 = LazyModule("h11")


Headers: TypeAlias = tuple[tuple[str, str], ...]

READ_BYTES = 16 * 1024


class Query(dict[str, str]):
    """The last value of each parameter, decoded, and the header Accept."""

    accept = ""


# Returns a value that ``json.dumps`` accepts, an ``HttpText``, or a coroutine of one of them.
Route: TypeAlias = Callable[[Query], Any]

MAX_PARAMETERS = 20
_HOST = re.compile(r"\[?([^\]]*?)\]?(?::\d*)?")
_HEADERS: Headers = (
    ("Content-Type", "application/json"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
)


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Limits on the memory and time that peers can occupy."""

    max_connections: int = 16
    max_request_bytes: int = 16 * 1024  # request line and headers; may be exceeded by one read
    first_byte_timeout_ms: int = 5_000  # from the accept to the first byte
    request_timeout_ms: int = 30_000  # from the first byte, or the last reply, to the next reply
    max_discarded_bytes: int = 1024 * 1024  # read and dropped after the last reply


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """``target`` is copied from the request line; ``host`` is empty without a Host header."""

    method: str
    target: str
    host: str
    accept: str = ""


@dataclass(frozen=True, slots=True)
class HttpReply:
    status: int
    body: bytes
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class HttpText:
    """What a route returns that does not respond with JSON."""

    body: bytes
    content_type: str


class HttpConnection(asyncio.BufferedProtocol):
    """One peer of an ``HttpServer``: HTTP/1.1 through h11, without request bodies.

    At most one request is served in a turn of the loop, and none while the peer has not taken the
    last reply; reading is paused meanwhile, so pipelined requests wait. A peer that sends nothing
    for ``first_byte_timeout_ms``, or needs longer than ``request_timeout_ms`` to send a request or
    to take a reply, is disconnected.
    """

    def __init__(self, server: HttpServer, clock: Clock, config: HttpConfig) -> None:
        self.closed = False  # when True, no further request is served
        self._server = server
        self._clock = clock
        self._config = config
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=config.max_request_bytes)
        self._buffer = bytearray(READ_BYTES)
        self._request: h11.Request | None = None
        self._answering: asyncio.Task[None] | None = None  # the reply is being computed
        self._transport: asyncio.Transport
        self._deadline: TimerHandle | None = None
        self._silent = True  # no byte has arrived
        self._discarded_bytes = 0
        self._at_eof = False
        self._write_paused = False
        self._read_paused = False

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._arm_deadline(self._config.first_byte_timeout_ms)
        self._server.opened(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.closed:
            self._discarded_bytes += nbytes
            if self._discarded_bytes > self._config.max_discarded_bytes:
                self._transport.abort()
            return
        if self._silent:
            self._silent = False
            self._arm_deadline(self._config.request_timeout_ms)
        self._http.receive_data(bytes(memoryview(self._buffer)[:nbytes]))
        self._serve()

    def eof_received(self) -> bool:
        """Keep the transport open (True): a peer that has shut down its sending side may still
        read replies."""
        self._at_eof = True
        if self.closed:
            return False
        self._http.receive_data(b"")
        self._serve()
        return True

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._serve_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._disarm_deadline()
        if self._answering is not None:
            self._answering.cancel()
        self._server.lost(self)

    # -- the server calls this

    def abort(self) -> None:
        """Disconnect at once; unsent bytes are lost."""
        self.closed = True
        self._disarm_deadline()
        self._transport.abort()

    # -- one request after the other

    def _serve_soon(self) -> None:
        """Serve the next request in the next turn of the loop; pause reading until then."""
        if self.closed:
            return
        if not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()
        asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        """Reply to the next request if it has arrived completely."""
        while not self.closed and not self._write_paused and self._answering is None:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self._send(complaint(error.error_status_hint, str(error)), last=True)
                return
            if event is h11.NEED_DATA:
                self._read_on()
                return
            if isinstance(event, h11.Request):
                self._request = event
                if announces_body(event):
                    refusal = complaint(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "request bodies are not supported"
                    )
                    self._send(refusal, last=True)
            elif isinstance(event, h11.EndOfMessage):
                assert self._request is not None
                answer = self._server.answer(request_of(self._request))
                if isinstance(answer, HttpReply):
                    self._send(answer, last=False)
                    self._serve_soon()
                else:
                    self._answering = asyncio.get_running_loop().create_task(self._await(answer))
                return
            else:  # h11.ConnectionClosed: the peer sends no further request
                self._finish()

    async def _await(self, answer: Coroutine[Any, Any, HttpReply]) -> None:
        """Send a reply that takes a while. A bug in the route closes the connection."""
        try:
            reply = await answer
        except BaseException:
            self.abort()
            raise
        finally:
            self._answering = None
        if not self.closed:
            self._send(reply, last=False)
            self._serve_soon()

    def _send(self, reply: HttpReply, last: bool) -> None:
        request, self._request = self._request, None
        headers = [*reply.headers, ("Content-Length", str(len(reply.body)))]
        if last:
            headers.append(("Connection", "close"))
        http = self._http
        data = http.send(h11.Response(status_code=reply.status, headers=headers)) or b""
        if request is None or request.method != b"HEAD":
            data += http.send(h11.Data(data=reply.body)) or b""
        data += http.send(h11.EndOfMessage()) or b""
        self._transport.write(data)
        self._arm_deadline(self._config.request_timeout_ms)
        if last or http.our_state is h11.MUST_CLOSE:
            self._finish()
        else:
            http.start_next_cycle()

    def _read_on(self) -> None:
        if self._read_paused:
            self._read_paused = False
            self._transport.resume_reading()

    def _finish(self) -> None:
        """Close the sending side and serve no further request. Bytes that still arrive are read
        and dropped: closing at once would reset the connection, and the peer could lose the reply.
        """
        self.closed = True
        if self._at_eof or not self._transport.can_write_eof():
            self._transport.close()
        else:
            self._transport.write_eof()
            self._read_on()

    # -- the time-out of a request

    def _arm_deadline(self, timeout_ms: int) -> None:
        self._disarm_deadline()
        self._deadline = self._clock.call_later(timeout_ms, self.abort)

    def _disarm_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def announces_body(request: h11.Request) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0"))
        for name, value in request.headers
    )


def request_of(request: h11.Request) -> HttpRequest:
    """Convert h11's request. h11 has checked that method and target are visible ASCII and that
    there is at most one Host header."""
    found = {name: value.decode("latin-1") for name, value in request.headers}
    return HttpRequest(
        request.method.decode("ascii"),
        request.target.decode("ascii"),
        found.get(b"host", ""),
        found.get(b"accept", ""),
    )


class BadQuery(ValueError):
    """A query parameter that a route does not accept; the message names it and the reason."""


class HttpServer:
    """Serve ``routes`` to GET and HEAD requests.

    If it listens on the loopback interface, requests must name a loopback host. Otherwise a web
    page whose own name resolves to 127.0.0.1 could read the broker's state (DNS rebinding).
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        routes: Mapping[str, Route],
        config: HttpConfig | None = None,
        log: EventLog | None = None,
    ) -> None:
        self._network = network
        self._clock = clock
        self._routes = routes
        self._config = config or HttpConfig()
        self._log = log or event_log("http")
        self._listener: Listener | None = None
        self._only_loopback = True
        self._connections: set[HttpConnection] = set()  # bound: max_connections, and the refused

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port. Raises OSError (address in use)."""
        self._listener = await self._network.listen(self._accept, host, port)
        self._only_loopback = is_loopback(host)
        return self._listener.port

    def close(self) -> None:
        """Stop listening and disconnect every peer; unfinished requests get no reply."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in list(self._connections):
            connection.abort()

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    # -- for connections

    def opened(self, connection: HttpConnection) -> None:
        full = len(self._connections) >= self._config.max_connections
        self._connections.add(connection)
        if full or self._listener is None:
            self._log.debug("connection_refused", limit=self._config.max_connections)
            connection.abort()

    def lost(self, connection: HttpConnection) -> None:
        self._connections.discard(connection)

    def _accept(self) -> HttpConnection:
        return HttpConnection(self, self._clock, self._config)

    # -- requests

    def answer(self, request: HttpRequest) -> HttpReply | Coroutine[Any, Any, HttpReply]:
        """Return the reply to any request: the route's value, or an error with its reason."""
        if self._only_loopback and request.host and not names_loopback(request.host):
            return complaint(HTTPStatus.MISDIRECTED_REQUEST, "only for names of the loopback")
        path, _, query = request.target.partition("?")
        route = self._routes.get(path)
        if route is None:
            return reply(HTTPStatus.NOT_FOUND, {"error": "no such path", "paths": [*self._routes]})
        if request.method not in ("GET", "HEAD"):
            return complaint(
                HTTPStatus.METHOD_NOT_ALLOWED, "GET and HEAD only", ("Allow", "GET, HEAD")
            )
        try:
            parsed = parameters(query)
            parsed.accept = request.accept
            value = route(parsed)
        except BadQuery as error:
            return complaint(HTTPStatus.BAD_REQUEST, str(error))
        return _awaited(value) if isinstance(value, Coroutine) else success(value)


async def _awaited(value: Coroutine[Any, Any, Any]) -> HttpReply:
    try:
        return success(await value)
    except BadQuery as error:
        return complaint(HTTPStatus.BAD_REQUEST, str(error))


def parameters(query: str) -> Query:
    """Parse a query string. Raises BadQuery."""
    try:
        return Query(parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS))
    except ValueError:
        raise BadQuery(f"more than {MAX_PARAMETERS} parameters") from None


def names_loopback(host: str) -> bool:
    """A Host header, with or without a port."""
    match = _HOST.fullmatch(host)
    return match is not None and is_loopback(match[1])


def complaint(status: int, reason: str, *headers: tuple[str, str]) -> HttpReply:
    return reply(status, {"error": reason}, *headers)


def success(value: Any) -> HttpReply:
    if isinstance(value, HttpText):
        headers = (("Content-Type", value.content_type), *_HEADERS[1:])
        return HttpReply(HTTPStatus.OK, value.body, headers)
    return reply(HTTPStatus.OK, value)


def reply(status: int, value: Any, *headers: tuple[str, str]) -> HttpReply:
    return HttpReply(status, json.dumps(value).encode() + b"\n", (*_HEADERS, *headers))
