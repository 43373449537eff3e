"""An outgoing connection to a broker: pipelined requests, and responses matched in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, cast

from minikafka.kernel.compiled import mypyc_attr
from minikafka.kernel.errors import KafkaError, LoginRefused
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import Clock, Network, OutgoingLogin, TimerHandle
from minikafka.protocol.codec import DecodeError
from minikafka.protocol.frames import (
    BIG_BYTES,
    FrameError,
    FrameReader,
    RequestHeader,
    decode_response,
    encode_request,
)
from minikafka.protocol.messages.registry import response_class
from minikafka.protocol.schema import Message

MAX_CORRELATION_ID = 2**31 - 1
CLOSE_GRACE_MS: Final = 1_000  # until which the peer of a channel that is closed has to end, too


@dataclass(frozen=True)
class ChannelConfig:
    """``max_in_flight`` limits the requests without a response; further callers wait.

    With ``reuse_memory`` (only with one request in flight) the next request overwrites the memory
    of the last response, so the caller must have processed it by then. The channel keeps a buffer
    of at most ``kept_bytes`` for reuse.
    """

    connection_setup_timeout_ms: int = 10_000
    max_in_flight: int = 5
    max_response_bytes: int = 2**31 - 1
    reuse_memory: bool = False
    kept_bytes: int = BIG_BYTES


# Called once, with the response message and None, or with None and the error: ConnectionError or
# TimeoutError. An exception that it raises is raised where the bytes have arrived.
Receive: TypeAlias = Callable[[Any, OSError | None], None]


class _InFlight:
    """A request that was sent and has no response yet."""

    __slots__ = (
        "correlation_id",
        "expires_ms",
        "receive",
        "response_class",
        "timeout_ms",
        "version",
    )

    def __init__(
        self,
        correlation_id: int,
        version: int,
        response_class: type[Message],
        receive: Receive,
        timeout_ms: int,
        expires_ms: int,
    ) -> None:
        self.correlation_id = correlation_id
        self.version = version
        self.response_class = response_class
        self.receive = receive
        self.timeout_ms = timeout_ms
        self.expires_ms = expires_ms


@mypyc_attr(allow_interpreted_subclasses=True)  # those of tests
class Channel(asyncio.BufferedProtocol):
    """A connection to one broker. A closed channel cannot be reopened: open another one.

    With a ``login`` the connection begins with it, and repeats it before the first request after
    most of the session (KIP-368). During such a re-authentication, and while a ticket for it is
    fetched, requests are held back, in their order, and responses to earlier ones arrive before the
    frames of the login.

    Requests are sent in the order of the calls, and responses arrive in that order. Records in a
    response are memoryviews that stay valid, except with ``reuse_memory``.
    """

    def __init__(
        self,
        clock: Clock,
        peer: str,
        client_id: str | None,
        config: ChannelConfig,
        log: EventLog,
        login: OutgoingLogin | None = None,
    ) -> None:
        self.peer = peer
        self._login = login
        self._logged_in: asyncio.Future[None] | None = None  # of the first login, until its end
        self._login_timer: TimerHandle | None = None
        self._preparing: asyncio.Task[None] | None = None  # for a re-authentication
        # Requests in flight that were sent before the login under way, or before its preparation.
        self._before_login = 0
        self._held: list[bytes] = []  # requests to send after the login; bound: max_in_flight
        self.close_reason: str | None = None
        self._clock = clock
        self._client_id = client_id
        self._config = config
        self._log = log
        self._reader = FrameReader(
            config.max_response_bytes, config.reuse_memory, config.kept_bytes
        )
        self._transport: asyncio.Transport | None = None
        self._in_flight: deque[_InFlight] = deque()  # bound: max_in_flight
        # Fires when the first request in flight may have expired, or before: a response does not
        # cancel it.
        self._expiry: TimerHandle | None = None
        self._expiry_ms = 0
        self._free_turns = config.max_in_flight
        self._waiting: deque[asyncio.Future[None]] = deque()  # for a turn
        self._next_correlation_id = 0
        # Whether requests without a response were sent: nobody knows whether the peer has them.
        self._is_one_way = False
        self._lost = asyncio.Event()  # set after the transport has ended
        self._end_timer: TimerHandle | None = None  # while the peer reads what was sent
        self._write_paused = False
        self._room = asyncio.Event()  # unset while the transport, or a login, holds bytes back
        self._room.set()

    @classmethod
    async def open(
        cls,
        network: Network,
        clock: Clock,
        host: str,
        port: int,
        client_id: str | None = None,
        config: ChannelConfig | None = None,
        log: EventLog | None = None,
    ) -> Channel:
        """Connect, and log in if the network demands it. Raises ConnectionError for any OSError,
        LoginRefused, and TimeoutError after ``connection_setup_timeout_ms``."""
        config = config or ChannelConfig()
        peer, login = f"{host}:{port}", network.new_login()
        channel = cls(clock, peer, client_id, config, log or event_log("channel"), login)
        try:
            async with asyncio.timeout(config.connection_setup_timeout_ms / 1000):
                if login is not None:
                    await channel._prepare(login, host)
                await network.connect(lambda: channel, host, port)
                if login is not None:
                    await channel._log_in(login)
        except LoginRefused:
            raise
        except TimeoutError:
            channel._close("connection setup timed out")
            raise TimeoutError(f"connecting to {peer} timed out") from None
        except OSError as error:
            text = str(error) or "the peer has closed the connection"
            raise ConnectionError(f"cannot connect to {peer}: {text}") from error
        return channel

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self.close_reason is None

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    async def request(self, message: Message, version: int, timeout_ms: int) -> Any:
        """Send a request and return its response message.

        Raises ConnectionError when the connection is lost (the broker may have carried out the
        request), EncodeError, and TimeoutError when there is no response ``timeout_ms`` after
        sending. A time-out closes the connection, as in Kafka's NetworkClient: the requests behind
        it would wait as long.
        """
        await self._take_turn()
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._begin(message, version, timeout_ms, partial(_settle, reply))
        try:
            return await reply
        finally:
            del reply  # it has the error, which has this frame: a cycle that would keep the channel

    def begin(self, message: Message, version: int, timeout_ms: int, receive: Receive) -> None:
        """Send a request synchronously. ``receive`` is called where its response arrives, and may
        send the next request. The caller must have fewer than ``max_in_flight`` requests in flight.
        Raises ConnectionError without a connection, and EncodeError."""
        assert self._free_turns, "begin() needs fewer than max_in_flight requests in flight"
        self._free_turns -= 1
        self._begin(message, version, timeout_ms, receive)

    def _begin(self, message: Message, version: int, timeout_ms: int, receive: Receive) -> None:
        try:
            transport = self._open_transport()
            header = self._next_header(message, version)
            self._write(transport, encode_request(header, message))
            now_ms = self._clock.monotonic_ms()
            expires_ms = now_ms + timeout_ms
            if self._expiry is None or expires_ms < self._expiry_ms:
                self._expire_at(expires_ms, now_ms)
        except BaseException:  # also of the timer, in a simulated process that was killed
            self._give_turn()
            raise
        self._in_flight.append(
            _InFlight(
                header.correlation_id,
                version,
                response_class(message),
                receive,
                timeout_ms,
                expires_ms,
            )
        )

    async def send(self, message: Message, version: int, timeout_ms: int) -> None:
        """Send a request that has no response (Produce with acks=0). Returns when the system has
        taken its bytes, which is when Kafka's client regards it as done. Raises ConnectionError
        when the connection is lost before that, or when the system takes no bytes for
        ``timeout_ms``, which closes the connection."""
        await self._take_turn()
        try:
            await self._wait_for_room(timeout_ms)
            transport = self._open_transport()
            if not self._is_one_way:
                self._is_one_way = True
                # Be paused until the last byte is taken. With 0, TLS would pause without any byte.
                transport.set_write_buffer_limits(1, 0)
            self._write(transport, encode_request(self._next_header(message, version), message))
            await self._wait_for_room(timeout_ms)
            if self._open_transport().is_closing():  # it has dropped the bytes
                raise ConnectionError(f"{self.peer}: connection lost")
        finally:
            self._give_turn()

    def close(self) -> None:
        """Disconnect. Requests in flight fail with ConnectionError.

        After requests without a response the connection ends in order: this side sends no more, and
        reads until the peer has read everything and closes, for at most ``CLOSE_GRACE_MS``. A
        socket that is closed at once sends a reset if bytes are unread or still arrive, and
        the peer may lose what it has not read."""
        transport = self._transport
        if transport is None or transport.is_closing() or not self._is_one_way:
            self._close("closed by this side")
            return
        if self.close_reason is not None:
            return
        self._end("closed by this side")
        if transport.can_write_eof():
            transport.write_eof()
        else:
            transport.close()  # TLS says goodbye, and waits for the peer's
        self._end_timer = self._clock.call_later(CLOSE_GRACE_MS, lambda: _give_up(transport))

    async def wait_closed(self) -> None:
        """After ``close``, wait for the end of a connection that ends in order."""
        if self._end_timer is not None:
            await self._lost.wait()

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.close_reason is not None:
            transport.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if self.close_reason is not None:
            return
        try:
            frames, bad = self._reader.buffer_updated(nbytes), None
        except FrameError as error:
            frames, bad = list(error.frames), error
        for frame in frames:
            self._receive(frame)
            if not self.is_open:
                return
        if bad is not None:
            self._break(str(bad))

    def pause_writing(self) -> None:
        self._write_paused = True
        self._room.clear()

    def resume_writing(self) -> None:
        self._write_paused = False
        if not self._held:
            self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._close(f"connection lost: {exc}" if exc else "closed by the peer")
        self._transport = None  # that of TLS goes on to refer to methods of this object
        self._lost.set()
        if self._end_timer is not None:
            self._end_timer.cancel()
            self._end_timer = None

    # -- logins

    async def _prepare(self, login: OutgoingLogin, host: str) -> None:
        """Prepare the first login. Raises LoginRefused."""
        preparation = login.preparation(host)
        if preparation is None:
            return
        try:
            await preparation
        except KafkaError as error:
            refusal = LoginRefused(self.peer, error)
            self._refuse(refusal)
            raise refusal from error

    async def _log_in(self, login: OutgoingLogin) -> None:
        """Log in for the first time. Raises LoginRefused and ConnectionError."""
        self._logged_in = logged_in = asyncio.get_running_loop().create_future()
        self._open_transport().write(login.begin())
        await logged_in

    def _write(self, transport: asyncio.Transport, request: bytes) -> None:
        """Send a request, after a re-authentication if one is due or under way."""
        login = self._login
        if login is None:
            transport.write(request)
            return
        if not login.in_progress and self._preparing is None and login.is_due:
            self._log_in_again(login)
        if login.in_progress or self._preparing is not None:
            self._held.append(request)
            self._room.clear()
        else:
            transport.write(request)

    def _log_in_again(self, login: OutgoingLogin) -> None:
        self._before_login = len(self._in_flight)
        timeout_ms = self._config.connection_setup_timeout_ms
        self._login_timer = self._clock.call_later(
            timeout_ms, lambda: self._close(f"no re-authentication within {timeout_ms} ms")
        )
        preparation = login.preparation(self.peer.rpartition(":")[0])
        if preparation is None:
            self._open_transport().write(login.begin())
            return

        def prepared(task: asyncio.Task[None]) -> None:
            self._preparing = None
            error = None if task.cancelled() else task.exception()
            if task.cancelled() or self.close_reason is not None:
                return
            if isinstance(error, KafkaError):
                self._refuse(LoginRefused(self.peer, error))
            elif error is not None:
                raise error
            else:
                self._open_transport().write(login.begin())

        self._preparing = asyncio.get_running_loop().create_task(preparation)
        self._preparing.add_done_callback(prepared)

    def _receive_login(self, login: OutgoingLogin, frame: memoryview) -> None:
        transport = self._open_transport()
        try:
            response = login.receive(frame)
        except KafkaError as error:
            self._refuse(LoginRefused(self.peer, error))
            return
        if response:
            transport.write(response)
            return
        self._end_first_login(None)
        if self._login_timer is not None:
            self._login_timer.cancel()
        held, self._held = self._held, []
        if held:
            transport.writelines(held)
            if not self._write_paused:
                self._room.set()

    def _refuse(self, refusal: LoginRefused) -> None:
        self._log.warning("login_refused", peer=self.peer, error=str(refusal.error))
        self._end_first_login(refusal)
        self._close(str(refusal))

    def _end_first_login(self, error: ConnectionError | None) -> None:
        logged_in, self._logged_in = self._logged_in, None
        if logged_in is None or logged_in.done():
            return  # none is under way, or its caller has been cancelled
        if error is None:
            logged_in.set_result(None)
        else:
            logged_in.set_exception(error)

    # -- turns: ``max_in_flight`` permits, given to callers first come, first served

    async def _take_turn(self) -> None:
        if self._free_turns:
            self._free_turns -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_turn()  # the turn was granted just before the cancellation
            raise

    def _give_turn(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free_turns += 1

    # -- inside

    async def _wait_for_room(self, timeout_ms: int) -> None:
        if self._room.is_set():
            return
        reason = f"the peer took no bytes within {timeout_ms} ms"
        timer = self._clock.call_later(timeout_ms, lambda: self._close(reason))
        try:
            while not self._room.is_set():  # another waiting caller may have filled it again
                await self._room.wait()
        finally:
            timer.cancel()

    def _open_transport(self) -> asyncio.Transport:
        if self._transport is None or self.close_reason is not None:
            raise ConnectionError(f"{self.peer}: {self.close_reason or 'not connected'}")
        return self._transport

    def _next_header(self, message: Message, version: int) -> RequestHeader:
        assert message.SPEC.api_key is not None, "only requests are sent"
        correlation_id = self._next_correlation_id
        following = 0 if correlation_id == MAX_CORRELATION_ID else correlation_id + 1
        self._next_correlation_id = following
        return RequestHeader(message.SPEC.api_key, version, correlation_id, self._client_id)

    def _receive(self, frame: memoryview) -> None:
        login = self._login
        if login is not None and (login.in_progress or self._preparing is not None):
            if self._before_login:
                self._before_login -= 1
            elif login.in_progress:
                self._receive_login(login, frame)
                return
            else:
                self._break("a response without a request")
                return
        if not self._in_flight:
            self._break("a response without a request")
            return
        entry = self._in_flight[0]
        try:
            correlation_id, message = decode_response(entry.response_class, entry.version, frame)
        except DecodeError as error:
            self._break(str(error))
            return
        if correlation_id != entry.correlation_id:
            self._break(
                f"a response with correlation id {correlation_id} where "
                f"{entry.correlation_id} was expected"
            )
            return
        self._in_flight.popleft()
        self._give_turn()
        entry.receive(message, None)

    def _expire_at(self, expires_ms: int, now_ms: int) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry_ms = expires_ms
        self._expiry = self._clock.call_later(expires_ms - now_ms, self._expire)

    def _expire(self) -> None:
        """Close the connection if a request has had no response in time."""
        self._expiry = None
        if not self._in_flight:
            return
        now_ms = self._clock.monotonic_ms()
        first = min(self._in_flight, key=lambda entry: entry.expires_ms)
        if first.expires_ms > now_ms:
            self._expire_at(first.expires_ms, now_ms)
            return
        self._in_flight.remove(first)
        self._give_turn()
        self._close(f"a request had no response within {first.timeout_ms} ms")
        error = TimeoutError(f"{self.peer} sent no response within {first.timeout_ms} ms")
        first.receive(None, error)

    def _break(self, error: str) -> None:
        self._log.warning("channel_failed", peer=self.peer, error=error)
        self._close(error)

    def _close(self, reason: str) -> None:
        """Disconnect at once, unless the channel is closed."""
        if self.close_reason is None:
            self._end(reason)
            if self._transport is not None:
                self._transport.abort()

    def _end(self, reason: str) -> None:
        """Fail the requests in flight, and accept no further ones."""
        self.close_reason = reason
        self._room.set()
        self._held.clear()
        if self._login_timer is not None:
            self._login_timer.cancel()
        if self._preparing is not None:
            self._preparing.cancel()
        self._end_first_login(ConnectionError(f"{self.peer}: {reason}"))
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        while self._in_flight:
            entry = self._in_flight.popleft()
            self._give_turn()
            entry.receive(None, ConnectionError(f"{self.peer}: {reason}"))


def _settle(reply: asyncio.Future[Any], response: Any, error: OSError | None) -> None:
    """Resolve the future of a response, unless its caller has been cancelled."""
    if reply.done():
        return
    if error is None:
        reply.set_result(response)
    else:
        reply.set_exception(error)


def _give_up(transport: asyncio.Transport) -> None:
    """End a connection whose peer does not. What the system has taken, it goes on sending."""
    if transport.get_write_buffer_size():
        transport.abort()
    else:
        transport.close()
