"""The server side of one connection, and the order of its replies.

A connection cuts the received bytes into frames and calls ``on_frame`` for each. The handler opens
a ``ReplySlot`` for a request that has a reply, and fills it at once or later; replies leave in the
order of requests.

What a connection may hold is bounded by ``ServerConfig``: unanswered requests, their bytes, and
bytes that the peer does not take. At the first two bounds the connection stops reading, so that TCP
slows the client down; at the last one it is closed. ``MemoryBudget`` accounts the unanswered
requests and the replies not taken of all connections, under one limit with other memory of clients.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Buffer, TimerHandle
from minikafka.kernel.principals import ANONYMOUS
from minikafka.network.connected_clients import UNNAMED
from minikafka.network.reply_slots import Refusal, ReplyBytes, ReplySlot, ReplyTimes, reply_size
from minikafka.protocol.frames import FrameError

if TYPE_CHECKING:
    from minikafka.network.listener_sasl import ConnectionLogin, ListenerSasl
    from minikafka.network.server import Server

IDLE_SWEEPS = 8  # a connection is idle after this many sweeps in a row without activity
# In one turn of the loop a connection is served so many frames, and no further one after so many
# milliseconds; then other connections are served.
FRAMES_AT_ONCE = 64
SERVED_AT_ONCE_MS = 5
_JOIN_MAX_BYTES = 64 * 1024  # replies that are together smaller are joined; others are not copied
_WRITTEN_TOGETHER_BYTES = 512 * 1024  # of the replies of one read: they still fit into a cache
# Larger deferred replies are written one connection after the other (``LargeWrites``). The system
# takes no more than SOCKET_BYTES of a reply at once.
LARGE_REPLY_BYTES = 256 * 1024
SOCKET_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class ServerConfig:
    """Limits of a listener, under Kafka's key names where Kafka has the key. The last four fields
    bound the memory that one connection can occupy."""

    socket_request_max_bytes: int = 100 * 1024 * 1024
    connections_max_idle_ms: int = 10 * 60 * 1000  # -1: never
    queued_max_requests: int = 500  # of one connection, unanswered
    queued_max_bytes: int = 100 * 1024 * 1024  # unanswered requests, and replies queued behind them
    write_high_water_bytes: int = 1024 * 1024
    write_low_water_bytes: int = 256 * 1024
    write_max_bytes: int = 512 * 1024 * 1024  # bytes the peer has not taken; above: disconnect


class ServerConnection(asyncio.BufferedProtocol):
    """The server side of one connection.

    ``on_frame(connection, frame)`` is called for each complete frame. The next read overwrites the
    frame: it, and every memoryview into it, is valid only until ``on_frame`` returns. A handler
    that parks a request copies the bytes it still needs. ``on_frame`` returns True to defer the
    frame until all earlier requests have their replies: the connection then stops reading, and
    calls ``on_frame`` again with the same frame after the last of these replies.

    Replies that are ready when ``on_frame`` returns leave in one write after the last frame of a
    read. Replies that become ready later leave in one write for each turn of the loop, or at once
    if every request has its reply. At a limit of ``ServerConfig`` the connection neither serves nor
    reads until it is below the limit again; one request and one reply may exceed the limit.

    On a SASL listener ``login`` takes the place of ``on_frame`` until ``end_login``.
    """

    __slots__ = (
        "__weakref__",  # for tests
        "_active",
        "_after_replies",
        "_awaits_buffer",
        "_broken",
        "_config",
        "_counted_unsent",
        "_flushing",
        "_frames",
        "_has_large_buffer",
        "_held",
        "_in_read",
        "_last_times",
        "_log",
        "_login",
        "_muted_until_ms",
        "_on_frame",
        "_out",
        "_out_bytes",
        "_queued_bytes",
        "_quiet_sweeps",
        "_read_paused",
        "_reader",
        "_refused",
        "_replies",
        "_requests",
        "_resuming",
        "_sending",
        "_sending_ns",
        "_served",
        "_server",
        "_transport",
        "_unmute",
        "_unsent_before",
        "_write_paused",
        "_written_unsent",
        "client_host",
        "clients",
        "closed",
        "descriptor",
        "listener",
        "number",
        "overlapping",
        "principal",
        "received_ns",
        "software",
        "unanswered",
    )

    def __init__(
        self,
        number: int,
        server: Server,
        config: ServerConfig,
        on_frame: FrameHandler,
        listener: str,
        log: EventLog,
    ) -> None:
        self.number = number
        self.listener = listener
        self.client_host = ""
        self.principal = ANONYMOUS
        self.descriptor = 0  # of the socket, where there is one
        self.received_ns = 0  # when bytes arrived last
        # Owned by ``on_frame``'s layer: what the unanswered requests have in common, if anything.
        self.overlapping: object = None
        self.clients = server.clients
        self.software = UNNAMED
        self.closed = False  # when True, no frame is served and no reply is sent
        self._login: ConnectionLogin | None = None
        self._server = server
        self._config = config
        self._on_frame = on_frame
        self._log = log
        self._reader = server.new_reader()
        self._transport: asyncio.Transport | None = None
        # Requests that were served and whose reply was not written. Bound: queued_max_requests.
        self.unanswered: deque[ReplySlot] = deque()
        self._requests = 0  # served so far
        self._replies = 0  # of these, those whose reply was handed to ``_out``
        self._last_times: ReplyTimes | None = None  # of the last of them
        # The last reply of a write that the peer has not taken yet, and since when.
        self._sending: ReplyTimes | None = None
        self._sending_ns = 0
        self._queued_bytes = 0  # bound: queued_max_bytes
        self._out: list[Buffer] = []  # ready, not written: within one read, or one reply
        self._out_bytes = 0
        self._frames: Sequence[memoryview] = ()  # of a read with several, while they are served
        self._served = 0  # of these, with the one that is being served
        self._held: Sequence[memoryview] = ()  # received frames that wait for a limit or a reply
        self._broken: FrameError | None = None  # the stream cannot be parsed beyond this point
        self._after_replies = False  # the next frame waits until every request has its reply
        self._refused = False  # the connection will be closed: serve nothing more
        self._in_read = False
        self._flushing = False  # ``_flush_soon`` or ``write_large`` is scheduled
        self._resuming = False
        self._has_large_buffer = False  # as the server's ``frame_memory`` knows
        self._awaits_buffer = False  # the frame under way may not take more memory yet
        self._read_paused = self._write_paused = False
        self._muted_until_ms = 0
        self._unmute: TimerHandle | None = None  # set while the connection is muted
        self._active = True
        self._quiet_sweeps = 0
        self._unsent_before = 0
        # Bytes of the replies written since the transport was last empty: it holds a reply whole
        # until its last byte is taken. And how many are counted in the budget's ``response_bytes``.
        self._written_unsent = 0
        self._counted_unsent = 0

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._limit_writes()
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if peer else ""
        accepted = transport.get_extra_info("socket")
        self.descriptor = 0 if accepted is None else accepted.fileno()
        self._server.opened(self)

    @property
    def transport(self) -> asyncio.Transport:
        """Call only after ``connection_made``."""
        assert self._transport is not None
        return self._transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if self.closed:
            return
        self._active = True
        self.received_ns = self._server.now_ns()
        try:
            frames: Sequence[memoryview] = self._reader.buffer_updated(nbytes)
        except FrameError as error:
            self._broken = error
            frames = error.frames
        if frames or self._broken is not None:
            self._serve(frames)
        if self.closed or self._broken is not None:
            return
        if not self._held:
            self._reader.rest()
        if not frames or self._has_large_buffer or self._reader.large_bytes:
            self._account_buffer(bool(frames))

    def pause_writing(self) -> None:
        """The peer reads slower than replies are written: stop reading until it has caught up."""
        self._write_paused = True
        self._sending, self._sending_ns = self._last_times, self._server.now_ns()
        self._pause_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._sending is not None:
            self._sending.response_sent((self._server.now_ns() - self._sending_ns) // 1000)
            self._sending = None
        self._written_unsent = 0
        self._count_unsent(0)
        self._limit_writes()
        self._resume_reading_if_due()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed:
            self._log.debug(
                "connection_lost",
                client=self.client_host,
                parked_requests=len(self.unanswered),
                unread_bytes=self._reader.buffered_bytes,
                error=str(exc) if exc else None,
            )
        self._end()
        self._reader.rest()
        self._count_unsent(0)
        self._server.lost(self)
        self._transport = None  # that of TLS goes on to refer to methods of this object

    # -- the layer above calls these

    @property
    def unsent_bytes(self) -> int:
        """Bytes that were written and that the peer has not taken."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def open_slot(self, request_bytes: int = 0) -> ReplySlot:
        """Reserve the place of the next reply. ``request_bytes`` counts against
        ``queued_max_bytes`` until the reply is written."""
        self._requests += 1
        slot = ReplySlot(self, self._requests, request_bytes)
        self.unanswered.append(slot)
        self._count_queued(request_bytes)
        return slot

    def send_now(self, reply: ReplyBytes, times: ReplyTimes) -> None:
        """Send the reply to the frame that ``on_frame`` serves, which then needs no slot: every
        earlier request has its reply. It leaves with the other replies of the same read."""
        if self.closed:
            return
        assert self._in_read, "a reply after the read needs a slot"
        assert not self.unanswered, "earlier requests wait for their replies"
        self._requests += 1
        self._replies = self._requests
        self._last_times = times
        if reply is not None:
            self._take_out(reply)

    def refuse(self, reason: str, **facts: object) -> None:
        """Log ``reason`` and close the connection of a peer that violated the protocol. Replies
        that are ready are sent first."""
        if self.closed:
            return
        self._log.warning("connection_refused", client=self.client_host, reason=reason, **facts)
        self.close()

    def close(self) -> None:
        """Write the ready replies, then disconnect. Unfinished requests get no reply."""
        if self.closed:
            return
        if self._out:
            self._flush()
        self._end()
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str, **facts: object) -> None:
        """Log ``reason`` and disconnect at once; unsent bytes are lost."""
        self._log.warning("connection_aborted", client=self.client_host, reason=reason, **facts)
        self._end()
        if self._transport is not None:
            self._transport.abort()

    def begin_login(self, sasl: ListenerSasl) -> None:
        """Require a login: from now on frames are given to it."""
        self._login = login = sasl.begin(self, self._on_frame)
        self._on_frame = login.on_frame
        self.limit_frames(login.max_frame_bytes)

    def end_login(self, on_frame: FrameHandler) -> None:
        """Give all later frames to ``on_frame``: none of them can belong to a login."""
        self._login = None
        self._on_frame = on_frame
        self.limit_frames(None)

    def limit_frames(self, max_bytes: int | None) -> None:
        """Refuse larger frames; None stands for ``socket.request.max.bytes``."""
        limit = self._config.socket_request_max_bytes if max_bytes is None else max_bytes
        self._reader.max_frame_bytes = limit

    @property
    def held_count(self) -> int:
        """How many received frames wait to be served."""
        return len(self._held)

    @property
    def is_held(self) -> bool:
        """Whether the server is ``holding``, so that the connection cannot be served yet."""
        return self._server.holding

    def stop_serving(self) -> None:
        """Neither read nor serve further frames; the connection stays open. All requests have their
        replies."""
        assert not self.unanswered
        self._refused = True
        self._pause_reading()

    def mute(self, delay_ms: int) -> None:
        """Serve and read nothing for ``delay_ms``. Replies are sent meanwhile. If the connection is
        muted already, the later end counts."""
        self.defer(delay_ms)
        self._pause_reading()

    def defer(self, delay_ms: int) -> None:
        """Serve nothing for ``delay_ms``; one request may be read meanwhile. In ``connection_made``
        reading cannot be paused: uvloop starts it afterwards."""
        clock = self._server.clock
        until_ms = clock.monotonic_ms() + delay_ms
        if self.closed or until_ms <= self._muted_until_ms:
            return
        self._muted_until_ms = until_ms
        self.clients.mute(self, until_ms)
        if self._unmute is not None:
            self._unmute.cancel()
        self._unmute = clock.call_later(delay_ms, self._end_of_mute)

    def _end_of_mute(self) -> None:
        self._unmute = None
        self.clients.unmute(self)
        self._muted_until_ms = 0  # a timer may be early, by less than a millisecond
        self._resume_soon()

    def sweep(self) -> bool:
        """Count one idle period if nothing happened since the last call; return whether the
        connection was idle for ``IDLE_SWEEPS`` periods in a row.

        The server calls it ``IDLE_SWEEPS`` times per ``connections.max.idle.ms``. Activity is:
        bytes arrived, the peer took bytes, or a request is parked in the broker.
        """
        unsent = self.unsent_bytes
        parked = bool(self.unanswered) and not self._write_paused
        if self._active or parked or unsent < self._unsent_before:
            self._quiet_sweeps = 0
        else:
            self._quiet_sweeps += 1
            self._reader.release()
            if self._has_large_buffer:
                self._account_buffer(completed=False)
        self._active = False
        self._unsent_before = unsent
        return self._quiet_sweeps >= IDLE_SWEEPS

    def serve_held(self) -> None:
        """Serve the frames that arrived while the server was ``holding``."""
        if self._read_paused:
            self._resume_reading()

    # -- the memory of the frame under way

    def _account_buffer(self, completed: bool) -> None:
        """Count the large buffers. If the frame under way needs a larger one and may not have it
        yet, stop reading until ``receive_more``."""
        memory, reader = self._server.frame_memory, self._reader
        growth = reader.growth
        size = reader.large_bytes
        if not (size or growth or self._has_large_buffer):
            return
        if completed:
            memory.complete(self)
        memory.hold(self, size, is_under_way=reader.buffered_bytes > 0)
        if growth and not memory.grow(self, growth):
            self._awaits_buffer = True
            self._pause_reading()
        self._has_large_buffer = size + growth > 0

    def receive_more(self) -> None:
        self._awaits_buffer = False
        self._resume_soon()

    def free_buffer(self) -> int:
        if not self._held:  # frames that wait to be served are in the buffer
            self._reader.release()
        return self._reader.large_bytes

    def refuse_frame(self) -> None:
        self.abort("request_too_slow", received_bytes=self._reader.buffered_bytes)

    # -- replies

    def resolve(self, slot: ReplySlot) -> None:
        """Called by a ``ReplySlot`` that was filled: if all earlier slots were sent, send it and
        the filled slots behind it."""
        if self.closed:
            return
        slots = self.unanswered
        if slots[0] is not slot:
            self._refused = self._refused or isinstance(slot.reply, Refusal)
            self._count_queued(reply_size(slot.reply))
            slot.ready_ns = self._server.now_ns()
            return
        self._add(slots.popleft())
        self._answered(slot.request_bytes)

    def _answered(self, freed: int) -> None:
        """Send the replies that have waited for the last one. ``freed`` bytes of requests have
        their replies now."""
        slots = self.unanswered
        while slots and slots[0].is_sent:
            held = slots.popleft()
            if held.times is not None:
                held.times.response_waited((self._server.now_ns() - held.ready_ns) // 1000)
            freed += held.request_bytes + reply_size(held.reply)
            self._add(held)
        if not self.closed:  # by a refusal
            self._queued_bytes -= freed
            self._server.memory.add(-freed)
        if not self._in_read:
            if self._out and not self._flushing:
                if slots or self._out_bytes > LARGE_REPLY_BYTES:
                    self._flushing = True
                    asyncio.get_running_loop().call_soon(self._flush_soon)
                else:  # no other reply could join this write
                    self._flush()
            if self._read_paused:
                self._resume_reading_if_due()

    def _add(self, slot: ReplySlot) -> None:
        """Write the reply of a slot, after those of all requests before it."""
        assert slot.number == self._replies + 1, f"reply {slot.number} after {self._replies}"
        self._replies = slot.number
        self._last_times = slot.times
        reply = slot.reply
        slot.reply = None  # free it now: the parked operation may keep the slot much longer
        if isinstance(reply, Refusal):
            self.refuse(reply.reason, **reply.facts)
        elif reply is not None:
            self._take_out(reply)

    def _take_out(self, reply: Buffer | Sequence[Buffer]) -> None:
        if isinstance(reply, (bytes, bytearray, memoryview)):  # mostly bytes
            self._out.append(reply)
            self._out_bytes += len(reply)
        else:
            self._out.extend(reply)
            self._out_bytes += reply_size(reply)

    def _flush_soon(self) -> None:
        if self._out_bytes > LARGE_REPLY_BYTES:
            self._count_unsent(self._written_unsent + self._out_bytes)
            self._server.large_writes.add(self)
            return
        self._flushing = False
        if self._out:
            self._flush()

    def write_large(self) -> int:
        """Write the ready replies. Return how many bytes the system may have copied."""
        size = self._out_bytes
        self._flushing = False
        if self._out:
            self._flush()
        if not self._write_paused:
            self._count_unsent(0)
        return min(size, SOCKET_BYTES)

    def _count_unsent(self, size: int) -> None:
        """Count ``size`` bytes of replies as not taken by the peer, instead of those counted
        before."""
        if size != self._counted_unsent:
            self._server.budget.add_responses(size - self._counted_unsent)
            self._counted_unsent = size

    def _flush(self) -> None:
        out, size = self._out, self._out_bytes
        self._out, self._out_bytes = [], 0
        transport = self.transport
        if size > LARGE_REPLY_BYTES:
            transport.set_write_buffer_limits(0, 0)  # be paused until the last byte is taken
        if len(out) == 1:
            transport.write(out[0])
        elif size <= _JOIN_MAX_BYTES:
            transport.write(b"".join(out))
        else:
            transport.writelines(out)
        if self._write_paused and not self.closed:
            unsent = self.unsent_bytes
            self._written_unsent += size
            self._count_unsent(self._written_unsent)
            if unsent > self._config.write_max_bytes:
                self.abort("slow_reader", unsent_bytes=unsent)
        elif size > LARGE_REPLY_BYTES:
            self._limit_writes()

    def _limit_writes(self) -> None:
        config = self._config
        high, low = config.write_high_water_bytes, config.write_low_water_bytes
        self.transport.set_write_buffer_limits(high, low)

    # -- reading and stopping

    def _serve(self, frames: Sequence[memoryview]) -> None:
        server = self._server
        if self._unmute is not None or server.holding or self._refused or self._lacks_memory():
            self._held = frames
            self._pause_reading()
            self._await_memory()
            return
        self._in_read = True
        if len(frames) == 1:
            served = 1
            if self._on_frame(self, frames[0]):
                self._after_replies = True
                served = 0
        else:
            served = self._serve_row(frames)
        if self.closed:
            return
        self._in_read = False
        if self._out:
            self._flush()
        done = served == len(frames)
        if self._broken is not None and done and self.unanswered:
            self._after_replies = True
        if not done or self._after_replies or self._refused or self._is_full():
            self._held = frames[served:]
            self._pause_reading()
            self._resume_soon()
        elif self._broken is not None:
            self._check_invalid_size(self._broken, self._login)

    def _serve_row(self, frames: Sequence[memoryview]) -> int:
        """Serve frames until one has to wait, or it is the turn of other connections. Return how
        many were served."""
        now = self._server.clock.monotonic_ms
        until_ms = now() + SERVED_AT_ONCE_MS
        most = min(len(frames), FRAMES_AT_ONCE)
        self._frames, self._served = frames, 0
        while self._served < most:
            self._served += 1
            if self._on_frame(self, frames[self._served - 1]):
                self._served -= 1
                self._after_replies = True
                break
            if self.closed:
                break
            if self._out_bytes >= _WRITTEN_TOGETHER_BYTES:
                self._flush()
            if self._refused or self._unmute is not None or now() >= until_ms or self._is_full():
                break
        served, self._frames, self._served = self._served, (), 0
        return served

    def _check_invalid_size(self, error: FrameError, login: ConnectionLogin | None) -> None:
        """Refuse a frame for its size, when every frame before it is served."""
        if self._reader.max_frame_bytes > error.limit:  # the login was among these frames
            self._broken = None
            self.buffer_updated(0)
        elif login is not None:
            login.refuse_frame(str(error))
        else:
            self.refuse("bad_frame", error=str(error))

    def _is_full(self) -> bool:
        if self._write_paused or self._unmute is not None:
            return True
        if not self.unanswered:
            return False
        config = self._config
        return (
            len(self.unanswered) >= config.queued_max_requests
            or self._queued_bytes >= config.queued_max_bytes
            or self._lacks_memory()
        )

    def _count_queued(self, size: int) -> None:
        self._queued_bytes += size
        self._server.memory.add(size)

    def _lacks_memory(self) -> bool:
        return self._queued_bytes > 0 and self._server.memory.is_full

    def _await_memory(self) -> None:
        """Resume when other connections free memory, if that is what this one lacks."""
        memory = self._server.memory
        if not self.closed and self._lacks_memory() and memory.wait(self._resume_soon):
            used_bytes = self._server.budget.used_bytes
            self._log.warning(
                "request_memory_exhausted", client=self.client_host, used_bytes=used_bytes
            )

    def _must_wait(self) -> bool:
        if self._refused or self._awaits_buffer or (self._after_replies and self.unanswered):
            return True
        return self.closed or self._is_full()

    def _pause_reading(self) -> None:
        if not self._read_paused and not self.closed and self._transport is not None:
            self._read_paused = True
            self._transport.pause_reading()

    def _resume_reading_if_due(self) -> None:
        config = self._config
        if (
            self._read_paused
            and len(self.unanswered) <= config.queued_max_requests // 2
            and self._queued_bytes <= config.queued_max_bytes // 2
        ):
            self._resume_soon()

    def _resume_soon(self) -> None:
        """Resume in the next turn of the loop. The caller is a handler that sends a reply; to
        resume at once would call another handler inside it."""
        if self._read_paused and not self._resuming:
            if self._must_wait():
                self._await_memory()
                return
            self._resuming = True
            asyncio.get_running_loop().call_soon(self._resume_reading)

    def _resume_reading(self) -> None:
        self._resuming = False
        if self._must_wait():
            self._await_memory()
            return
        self._after_replies = False
        held = self._held
        self._held = ()
        self._serve(held)
        if not (self._held or self._broken):
            self._reader.rest()
        if not (self._held or self._broken or self._must_wait()):
            self._read_paused = False
            self.transport.resume_reading()

    def _end(self) -> None:
        self.closed = True
        if self._login is not None:
            self._login.close()
            self.end_login(self._login.serve)  # or they would keep each other in memory
        if self._unmute is not None:
            self._unmute.cancel()
            self._unmute = None
        self.unanswered.clear()
        self._server.memory.forget(self._resume_soon)
        self._count_queued(-self._queued_bytes)
        if self._has_large_buffer:
            self._has_large_buffer = False
            self._server.frame_memory.forget(self)
            self._reader = self._server.new_reader()
        self._out.clear()
        self._out_bytes = 0
        self._frames = self._held = ()
        self._broken = None  # its traceback refers to this connection


FrameHandler: TypeAlias = Callable[[ServerConnection, memoryview], bool | None]
