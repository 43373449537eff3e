"""The server side of one connection: it reads frames, and gives them to the handler in order.

A handler replies at once (``send_now``), or opens a ``ReplySlot`` and fills it later;
``ReplyQueue`` sends the replies in the order of requests. ``FlowControl`` says whether the
connection is read and served. What a connection may hold is bounded by ``ServerConfig``: at the
bounds of unanswered requests and their bytes it is not read, and it is closed when too many bytes
have been written that its peer does not take. ``MemoryBudget`` accounts the requests and the
replies of all connections, under one limit with other memory of clients. A connection has one of
these states:

    state     event                                              next state
    OPEN      a frame has an invalid size                        BROKEN
    OPEN      stop_serving: a refusal waits, or a login failed   REFUSING
    OPEN      close, refuse or abort                             CLOSING
    OPEN      connection_lost                                    CLOSED
    BROKEN    after its last frame the size is valid             OPEN
    BROKEN    after its last frame the size is invalid           CLOSING
    BROKEN    stop_serving: a refusal waits, or a login failed   REFUSING
    BROKEN    close, refuse or abort                             CLOSING
    BROKEN    connection_lost                                    CLOSED
    REFUSING  close, refuse or abort                             CLOSING
    REFUSING  connection_lost                                    CLOSED
    CLOSING   connection_lost                                    CLOSED

Any other event leaves the state as it is. OPEN and BROKEN serve the frames that have arrived, and
BROKEN ends after them. REFUSING serves none and sends replies. CLOSING sends what is written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, Protocol, TypeAlias, cast

from minikafka.kernel.principals import ANONYMOUS
from minikafka.protocol.frames import FrameError
from minikafka.server.listeners.connected_clients import UNNAMED
from minikafka.server.listeners.flow_control import FlowControl, Pause
from minikafka.server.listeners.listener_resources import ListenerResources
from minikafka.server.listeners.reply_queue import ReplyBytes, ReplyQueue, ReplySlot, ReplyTimes

IDLE_SWEEPS = 8  # a connection is idle after this many sweeps in a row without activity
# In one turn of the loop a connection is served so many frames, and no further one after so long;
# then other connections are served.
FRAMES_AT_ONCE = 64
SERVED_AT_ONCE_NS = 5_000_000
_WRITTEN_TOGETHER_BYTES = 512 * 1024  # of the replies of one read: they still fit into a cache


class ConnectionState(IntEnum):
    """What a connection does with frames and replies, see the table above."""

    OPEN = 1
    BROKEN = 2
    REFUSING = 3
    CLOSING = 4
    CLOSED = 5


_OPEN: Final = ConnectionState.OPEN
_BROKEN: Final = ConnectionState.BROKEN
_CLOSING: Final = ConnectionState.CLOSING


class ServerConnection(asyncio.BufferedProtocol):
    """The server side of one connection.

    ``on_frame(connection, frame)`` is called for each complete frame. The next read overwrites the
    frame: it, and every memoryview into it, is valid only until ``on_frame`` returns. A handler
    that parks a request copies the bytes it still needs. ``on_frame`` returns True to defer the
    frame until all earlier requests have their replies: the connection then stops reading, and
    calls ``on_frame`` again with the same frame after the last of these replies.

    On a SASL listener a ``LoginStage`` takes the place of ``on_frame`` until ``end_login``.
    """

    __slots__ = (
        "_broken",
        "_counted_buffers",
        "_login",
        "_lost_listeners",
        "_on_frame",
        "_owner",
        "_quiet_sweeps",
        "_reader",
        "_replies",
        "_resources",
        "_swept_ns",
        "_transport",
        "_unsent_before",
        "client_host",
        "client_port",
        "clients",
        "descriptor",
        "flow",
        "held",
        "listener",
        "number",
        "overlapping",
        "principal",
        "received_ns",
        "software",
        "state",
        "unanswered",
    )

    def __init__(
        self,
        number: int,
        owner: ConnectionOwner,
        resources: ListenerResources,
        on_frame: FrameHandler,
    ) -> None:
        self.number = number
        self.listener = resources.listener
        self.client_host = ""
        self.client_port = 0
        self.principal = ANONYMOUS
        self.descriptor = 0  # of the socket, where there is one
        self._lost_listeners: tuple[Callable[[ServerConnection], None], ...] = ()
        self.received_ns = 0  # when bytes arrived last
        # Owned by ``on_frame``'s layer: what the unanswered requests have in common, if anything.
        self.overlapping: object = None
        self.clients = resources.clients
        self.software = UNNAMED
        self.state = _OPEN
        # That of ``ReplyQueue``.
        self.unanswered: deque[ReplySlot] = deque()
        self.flow = FlowControl(resources, self.unanswered, self)
        self._replies = ReplyQueue(resources, self.flow, self.unanswered)
        self._login: LoginStage | None = None
        self._owner = owner
        self._resources = resources
        self._on_frame = on_frame
        self._reader = resources.new_reader()
        self._transport: asyncio.Transport | None = None
        self.held: Sequence[memoryview] = ()  # received frames that wait for a reason to end
        self._broken: FrameError | None = None  # the stream cannot be parsed beyond this point
        self._counted_buffers = 0  # bytes of large buffers that ``frame_memory`` knows of
        self._quiet_sweeps = 0
        self._swept_ns = -1  # ``received_ns`` at the last sweep
        self._unsent_before = 0

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast(asyncio.Transport, transport)
        self.flow.transport = made
        if self._resources.holding:
            self.flow.reasons.add(Pause.STARTING)
        self._replies.opened(made)
        peer = transport.get_extra_info("peername")
        self.client_host, self.client_port = (str(peer[0]), peer[1]) if peer else ("", 0)
        accepted = transport.get_extra_info("socket")
        self.descriptor = 0 if accepted is None else accepted.fileno()
        self._owner.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if self.state >= _CLOSING:
            return
        self.received_ns = self._resources.now_ns()
        try:
            frames: Sequence[memoryview] = self._reader.buffer_updated(nbytes)
        except FrameError as error:
            if self.state is _OPEN:
                self.state, self._broken = _BROKEN, error
            self._serve(error.frames)
            return
        if frames:
            self._serve(frames)
        if not self.held:
            self._reader.rest()
        if not frames or self._counted_buffers or self._reader.large_bytes:
            self._account_buffer(bool(frames))

    def pause_writing(self) -> None:
        """The peer reads slower than replies are written: stop reading until it has caught up."""
        self._replies.writing_paused()
        self.flow.begin(Pause.WRITE_BUFFER)

    def resume_writing(self) -> None:
        self._replies.writing_resumed()
        self.flow.end_reason(Pause.WRITE_BUFFER)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed:
            self._resources.log.debug(
                "connection_lost",
                client=self.client_host,
                parked_requests=len(self.unanswered),
                unread_bytes=self._reader.buffered_bytes,
                error=str(exc) if exc else None,
            )
        self._end()
        self.state = ConnectionState.CLOSED
        self._reader.rest()
        self._replies.lost()
        self._owner.lost(self)
        listeners, self._lost_listeners = self._lost_listeners, ()
        for listener in listeners:
            listener(self)
        self._transport = None  # that of TLS goes on to refer to methods of this object

    # -- the layer above calls these

    @property
    def closed(self) -> bool:
        """Whether no frame is served and no reply is sent any more."""
        return self.state >= _CLOSING

    @property
    def transport(self) -> asyncio.Transport:
        """Call only after ``connection_made``."""
        assert self._transport is not None
        return self._transport

    def call_when_lost(self, listener: Callable[[ServerConnection], None]) -> None:
        """Call ``listener`` when the connection is lost; once, however often it is given."""
        if listener not in self._lost_listeners:
            self._lost_listeners += (listener,)

    def open_slot(self, request_bytes: int = 0) -> ReplySlot:
        """Reserve the place of the next reply. ``request_bytes`` counts against
        ``queued_max_bytes`` until the reply is written."""
        return self._replies.open_slot(request_bytes)

    def send_now(self, reply: ReplyBytes, times: ReplyTimes) -> None:
        """Send the reply to the frame that ``on_frame`` serves, which then needs no slot: every
        earlier request has its reply. It leaves with the other replies of the same read."""
        self._replies.send_now(reply, times)

    def mute(self, delay_ms: int) -> None:
        """Serve and read nothing for ``delay_ms``. Replies are sent meanwhile."""
        self.flow.mute(delay_ms)
        self.flow.pause()

    def stop_serving(self) -> None:
        """Neither read nor serve further frames; the connection stays open."""
        if self.state <= _BROKEN:
            self.state = ConnectionState.REFUSING
            self._broken = None
            self.flow.begin(Pause.CLOSING)

    def refuse(self, reason: str, **facts: object) -> None:
        """Log ``reason`` and close the connection of a peer that violated the protocol. Replies
        that are ready are sent first."""
        if not self.closed:
            self._log_end("connection_refused", reason, facts)
            self.close()

    def close(self) -> None:
        """Write the ready replies, then disconnect. Unfinished requests get no reply."""
        if self.closed:
            return
        self._replies.flush()
        self._end()
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str, **facts: object) -> None:
        """Log ``reason`` and disconnect at once; unsent bytes are lost."""
        self._log_end("connection_aborted", reason, facts)
        self._end()
        if self._transport is not None:
            self._transport.abort()

    def _log_end(self, event: str, reason: str, facts: dict[str, object]) -> None:
        self._resources.log.warning(event, client=self.client_host, reason=reason, **facts)

    def _end(self) -> None:
        if self.state >= _CLOSING:
            return
        self.state = _CLOSING
        if self._login is not None:
            self._login.close()
            self.end_login()  # or they would keep each other in memory
        self.flow.end()
        self._replies.end()
        if self._counted_buffers:
            self._counted_buffers = 0
            self._resources.frame_memory.forget(self)
            self._reader = self._resources.new_reader()
        self.held = ()
        self._broken = None  # its traceback refers to this connection

    # -- login

    def begin_login(self, login: LoginStage) -> None:
        """Give all frames to ``login``, until ``end_login``."""
        self._login = login
        self._on_frame = login.on_frame

    def end_login(self) -> None:
        """Give all later frames to the handler: none of them can belong to a login."""
        if self._login is not None:
            self._on_frame = self._login.serve
            self._login = None
            self.limit_frames(None)

    def limit_frames(self, max_bytes: int | None) -> None:
        """Refuse larger frames; None stands for ``socket.request.max.bytes``."""
        limit = self._resources.config.socket_request_max_bytes if max_bytes is None else max_bytes
        self._reader.max_frame_bytes = limit

    # -- memory of a connection that receives nothing, or part of a large frame

    def sweep(self) -> bool:
        """Count one idle period if nothing happened since the last call; return whether the
        connection was idle for ``IDLE_SWEEPS`` periods in a row.

        The server calls it ``IDLE_SWEEPS`` times per ``connections.max.idle.ms``. Activity is:
        bytes arrived, the peer took bytes, or a request is parked in the broker.
        """
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        parked = bool(self.unanswered) and Pause.WRITE_BUFFER not in self.flow.reasons
        if self.received_ns != self._swept_ns or parked or unsent < self._unsent_before:
            self._quiet_sweeps = 0
        else:
            self._quiet_sweeps += 1
            self._reader.release()
            if self._counted_buffers:
                self._account_buffer(completed=False)
        self._swept_ns = self.received_ns
        self._unsent_before = unsent
        return self._quiet_sweeps >= IDLE_SWEEPS

    def _account_buffer(self, completed: bool) -> None:
        """Count the large buffers. If the frame under way needs a larger one and may not have it
        yet, stop reading until ``receive_more``."""
        if self.closed:
            return
        memory, reader = self._resources.frame_memory, self._reader
        growth = reader.growth
        size = reader.large_bytes
        if not (size or growth or self._counted_buffers):
            return
        if completed:
            memory.complete(self)
        memory.hold(self, size, is_under_way=reader.buffered_bytes > 0)
        if growth and not memory.grow(self, growth):
            self.flow.begin(Pause.FRAME_MEMORY)
        self._counted_buffers = size + growth

    def receive_more(self) -> None:
        self.flow.end_reason(Pause.FRAME_MEMORY)

    def free_buffer(self) -> int:
        if not self.held:  # frames that wait to be served are in the buffer
            self._reader.release()
        return self._reader.large_bytes

    def refuse_frame(self) -> None:
        self.abort("request_too_slow", received_bytes=self._reader.buffered_bytes)

    # -- serving

    def _serve(self, frames: Sequence[memoryview]) -> None:
        """Give frames to the handler, or hold them while there is a reason to."""
        flow, replies = self.flow, self._replies
        if flow.reasons or (self.unanswered and flow.must_wait()):
            self.held = frames
            flow.pause()
            return
        replies.begin_read()
        if len(frames) != 1:
            served = self._serve_several(frames)
        elif self._on_frame(self, frames[0]):
            flow.defer_frame()
            served = 0
        else:
            served = 1
        replies.end_read()
        whole = served == len(frames) and self.state is _OPEN
        if flow.reasons or not whole or (self.unanswered and flow.must_wait()):
            self._hold_rest(frames, served)

    def _serve_several(self, frames: Sequence[memoryview]) -> int:
        """Serve frames until one has to wait, or it is the turn of other connections. Return how
        many were served."""
        flow, replies, now_ns = self.flow, self._replies, self._resources.now_ns
        until_ns = now_ns() + SERVED_AT_ONCE_NS
        served = 0
        for frame in frames[:FRAMES_AT_ONCE]:
            if self._on_frame(self, frame):
                flow.defer_frame()
                break
            served += 1
            if replies.out_bytes >= _WRITTEN_TOGETHER_BYTES:
                replies.flush()
            if flow.reasons or now_ns() >= until_ns or (self.unanswered and flow.must_wait()):
                break
        return served

    def _hold_rest(self, frames: Sequence[memoryview], served: int) -> None:
        """Hold the frames after the first ``served`` ones, if there are any or reading has to
        stop. If these were all frames before an invalid size, end the connection."""
        if self.state >= _CLOSING:
            return
        flow, done = self.flow, served == len(frames)
        if self._broken is not None and done:
            flow.defer_frame()
        if not done or flow.must_wait():
            self.held = frames[served:]
            flow.pause()
            flow.resume()
        elif self._broken is not None:
            self._check_invalid_size(self._broken)

    def serve_held(self) -> None:
        held = self._take_held()
        if held or self._broken is not None:
            self._serve(held)
        if not (self.held or self._broken):
            self._reader.rest()

    def _take_held(self) -> Sequence[memoryview]:
        held = self.held
        self.held = ()
        return held

    def _check_invalid_size(self, error: FrameError) -> None:
        """Refuse a frame for its size, when every frame before it is served."""
        if self._reader.max_frame_bytes > error.limit:  # the login was among these frames
            self.state, self._broken = _OPEN, None
            self.buffer_updated(0)
        elif self._login is not None:
            self._login.refuse_frame(str(error))
        else:
            self.refuse("bad_frame", error=str(error))


FrameHandler: TypeAlias = Callable[[ServerConnection, memoryview], bool | None]


class ConnectionOwner(Protocol):
    """The server of a connection."""

    def opened(self, connection: ServerConnection) -> None: ...

    def lost(self, connection: ServerConnection) -> None: ...


class LoginStage(Protocol):
    """The stage of a connection before its handler, which is ``serve``."""

    serve: FrameHandler

    def on_frame(self, connection: ServerConnection, frame: memoryview) -> bool | None: ...

    def refuse_frame(self, detail: str) -> None:
        """Process a frame whose size is invalid. All requests before it have their replies."""

    def close(self) -> None:
        """Release what is held: the connection is closed."""
