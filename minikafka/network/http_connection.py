"""One accepted HTTP connection: one request after the other, each answered in one breath."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

import h11

from minikafka.kernel.ports import Clock, TimerHandle

Headers: TypeAlias = tuple[tuple[str, str], ...]

READ_BYTES = 16 * 1024
HTTP_BAD_REQUEST = 400
HTTP_CONTENT_TOO_LARGE = 413


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """What one peer, and all of them, can make us hold and wait for."""

    max_connections: int = 16
    max_request_bytes: int = 16 * 1024  # line and headers, and one read more; there are no bodies
    request_timeout_ms: int = 30_000  # from one answer (or the accepting) to the next, all told
    max_discarded_bytes: int = 1024 * 1024  # read on after the last answer, so that it gets there


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """``target`` as it stands on the request line; ``host`` empty where none is given."""

    method: str
    target: str
    host: str


@dataclass(frozen=True, slots=True)
class HttpReply:
    status: int
    body: bytes
    headers: Headers = ()


Answer: TypeAlias = Callable[[HttpRequest], HttpReply]
# What is said where no request could be made out, by status and reason.
Complain: TypeAlias = Callable[[int, str], HttpReply]


class HttpOwner(Protocol):
    """What a connection tells the server that accepted it."""

    def opened(self, connection: HttpConnection) -> None: ...

    def lost(self, connection: HttpConnection) -> None: ...


class HttpConnection(asyncio.BufferedProtocol):
    """HTTP/1.1 by h11, on the server's side, without request bodies.

    ``answer`` is called at most once in a turn of the loop, and not while the peer has yet to take
    what it was sent: pipelined requests wait, and are not read on. Half a request, or half an
    answer taken, ends with ``request_timeout_ms``.
    """

    def __init__(
        self, owner: HttpOwner, clock: Clock, config: HttpConfig, answer: Answer, complain: Complain
    ) -> None:
        self.closed = False  # nothing is answered any more
        self._owner = owner
        self._clock = clock
        self._config = config
        self._answer = answer
        self._complain = complain
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=config.max_request_bytes)
        self._buffer = bytearray(READ_BYTES)
        self._request: h11.Request | None = None
        self._transport: asyncio.Transport
        self._deadline: TimerHandle | None = None
        self._discarded_bytes = 0
        self._at_eof = False
        self._write_paused = False
        self._read_paused = False

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._arm_deadline()
        self._owner.opened(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.closed:
            self._discarded_bytes += nbytes
            if self._discarded_bytes > self._config.max_discarded_bytes:
                self._transport.abort()
            return
        self._http.receive_data(bytes(memoryview(self._buffer)[:nbytes]))
        self._serve()

    def eof_received(self) -> bool:
        """True: the peer may only be done with writing, and still wait for its answers."""
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
        self._owner.lost(self)

    # -- the server calls this

    def abort(self) -> None:
        """Hang up now, with whatever is unsent."""
        self.closed = True
        self._disarm_deadline()
        self._transport.abort()

    # -- one request after the other

    def _serve_soon(self) -> None:
        """Others have their turn first. Until then nothing is read."""
        if self.closed:
            return
        if not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()
        asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        """Answer the next request, if it is here in full."""
        while not self.closed and not self._write_paused:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self._send(self._complain(error.error_status_hint, str(error)), last=True)
                return
            if event is h11.NEED_DATA:
                self._read_on()
                return
            if isinstance(event, h11.Request):
                self._request = event
                if announces_body(event):
                    complaint = self._complain(HTTP_CONTENT_TOO_LARGE, "no bodies are read here")
                    self._send(complaint, last=True)
            elif isinstance(event, h11.EndOfMessage):
                assert self._request is not None
                self._send(self._answer(request_of(self._request)), last=False)
                self._serve_soon()
                return
            else:  # h11.ConnectionClosed: the peer is done, and so are we
                self._finish()

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
        self._arm_deadline()
        if last or http.our_state is h11.MUST_CLOSE:
            self._finish()
        else:
            http.start_next_cycle()

    def _read_on(self) -> None:
        if self._read_paused:
            self._read_paused = False
            self._transport.resume_reading()

    def _finish(self) -> None:
        """Answer no more. To hang up on a peer that is still sending could cost it the answer: what
        it sends is read and dropped until it has seen ours end."""
        self.closed = True
        if self._at_eof:
            self._transport.close()
        else:
            self._transport.write_eof()
            self._read_on()

    # -- patience

    def _arm_deadline(self) -> None:
        self._disarm_deadline()
        self._deadline = self._clock.call_later(self._config.request_timeout_ms, self.abort)

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
    """h11 lets only visible ASCII into methods and targets, and one Host."""
    host = next((value for name, value in request.headers if name == b"host"), b"")
    return HttpRequest(
        request.method.decode("ascii"), request.target.decode("ascii"), host.decode("latin-1")
    )
