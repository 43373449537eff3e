"""One accepted connection: frames in, reply slots in request order, replies out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Buffer
from minikafka.network.unsent import UnsentReplies
from minikafka.protocol.frames import FrameError, FrameReader

IDLE_SWEEPS = 8  # a connection is idle after so many sweeps in a row without a sign of life
FRAMES_AT_ONCE = 64  # then the other connections have their turn
# Replies below are copied into one write, above handed over as they are.
_JOIN_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Kafka's keys where there is one; the last four bound what one connection can make us hold."""

    socket_request_max_bytes: int = 100 * 1024 * 1024
    max_connections: int = 2**31 - 1
    connections_max_idle_ms: int = 10 * 60 * 1000  # -1: never
    queued_max_requests: int = 500  # of one connection, unanswered
    queued_max_bytes: int = 100 * 1024 * 1024  # unanswered requests, and replies held behind them
    write_high_water_bytes: int = 1024 * 1024
    write_low_water_bytes: int = 256 * 1024
    write_max_bytes: int = 512 * 1024 * 1024  # written, not taken by the peer: above, hang up


# A whole reply with its size in front, in one piece or several; None for a request without reply.
ReplyBytes: TypeAlias = Buffer | Sequence[Buffer] | None


class ConnectionOwner(Protocol):
    """What a connection tells the server that accepted it. While ``holding``, frames wait."""

    holding: bool
    unsent: UnsentReplies

    def opened(self, connection: Connection) -> None: ...

    def lost(self, connection: Connection) -> None: ...


class _Refusal:
    """Stands in a slot for a reply that cannot be made."""

    __slots__ = ("facts", "reason")

    def __init__(self, reason: str, facts: dict[str, object]) -> None:
        self.reason = reason
        self.facts = facts


class ReplySlot:
    """The place of one reply in its connection's order. ``send`` it exactly once, at any time.

    After the connection is gone, a reply is dropped.
    """

    __slots__ = ("_connection", "_reply", "_request_bytes", "_sent")

    def __init__(self, connection: Connection, request_bytes: int) -> None:
        self._connection = connection
        self._request_bytes = request_bytes
        self._reply: ReplyBytes | _Refusal = None
        self._sent = False

    def send(self, reply: ReplyBytes) -> None:
        assert not self._sent, "a request is answered once"
        self._sent = True
        self._reply = reply
        self._connection.resolve(self)

    def refuse(self, reason: str, **facts: object) -> None:
        """Close the connection in place of a reply that cannot be made. Replies to earlier requests
        are sent first, later requests are not served. Logged."""
        assert not self._sent, "a request is answered once"
        self._sent = True
        self._reply = _Refusal(reason, facts)
        self._connection.resolve(self)


class Connection(asyncio.BufferedProtocol):
    """The server side of one connection.

    ``on_frame(connection, frame)`` is called for each complete frame. The frame lies in the buffer
    of the next read: it, and every memoryview cut from it, is valid only until ``on_frame``
    returns. Who parks a request keeps copies, or nothing of the bytes. ``on_frame`` returns True
    when it has not served the frame because earlier requests are unanswered: the connection then
    reads no further, and calls it again with the same frame after the last of their replies.

    Replies that are ready when ``on_frame`` returns leave together after the last frame of a read,
    in one write; so do those that become ready later, all of one turn of the loop. At a limit of
    ``ServerConfig`` nothing more is served or read until there is room; one request, and one reply,
    may overshoot it.
    """

    def __init__(
        self,
        number: int,
        owner: ConnectionOwner,
        config: ServerConfig,
        on_frame: FrameHandler,
        listener: str,
        log: EventLog,
    ) -> None:
        self.number = number
        self.listener = listener
        self.client_host = ""
        # For the layer above: what the unanswered requests have in common, if anything.
        self.overlapping: object = None
        self.closed = False  # no frame is read and no reply sent any more
        self._owner = owner
        self._config = config
        self._on_frame = on_frame
        self._log = log
        self._reader = FrameReader(config.socket_request_max_bytes, reuse=True)
        self._transport: asyncio.Transport | None = None
        # Requests that were served and whose reply has not left. Bound: queued_max_requests.
        self.unanswered: deque[ReplySlot] = deque()
        self._queued_bytes = 0  # bound: queued_max_bytes
        self._out: list[Buffer] = []  # ready, not written: within one read, or one reply
        self._out_bytes = 0
        self._held: Sequence[memoryview] = ()  # read, but not served before there is room
        self._broken: FrameError | None = None  # nothing can be read behind it
        self._after_replies = False  # nothing is served before every request is answered
        self._refused = False  # behind a slot that closes the connection, nothing is served
        self._in_read = False
        self._flushing = False  # before long
        self._resuming = False
        self._read_paused = False
        self._write_paused = False
        self._active = True
        self._quiet_sweeps = 0
        self._unsent_before = 0

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(
            self._config.write_high_water_bytes, self._config.write_low_water_bytes
        )
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if peer else ""
        self._owner.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if self.closed:
            return
        self._active = True
        try:
            frames: Sequence[memoryview] = self._reader.buffer_updated(nbytes)
        except FrameError as error:
            self._broken = error
            frames = error.frames
        if frames or self._broken is not None:
            self._serve(frames)

    def pause_writing(self) -> None:
        """The peer reads slower than we answer: read no more until it has caught up."""
        self._write_paused = True
        self._owner.unsent.add(self)
        self._pause_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._owner.unsent.discard(self)
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
        self._owner.unsent.discard(self)
        self._owner.lost(self)

    # -- the layer above calls these

    @property
    def unsent_bytes(self) -> int:
        """Written, and not taken by the peer."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def open_slot(self, request_bytes: int = 0) -> ReplySlot:
        """The place of the next reply. ``request_bytes`` counts against ``queued_max_bytes`` until
        the reply has left."""
        slot = ReplySlot(self, request_bytes)
        self.unanswered.append(slot)
        self._queued_bytes += request_bytes
        return slot

    def refuse(self, reason: str, **facts: object) -> None:
        """Hang up on a peer that broke the protocol, after what is answered already. Logged."""
        if self.closed:
            return
        self._log.warning("connection_refused", client=self.client_host, reason=reason, **facts)
        self.close()

    def close(self) -> None:
        """Send what is written, then hang up. Unanswered requests stay so."""
        if self.closed:
            return
        if self._out:
            self._flush()
        self._end()
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str, **facts: object) -> None:
        """Hang up now, with whatever is unsent. Logged."""
        self._log.warning("connection_aborted", client=self.client_host, reason=reason, **facts)
        self._end()
        if self._transport is not None:
            self._transport.abort()

    def sweep(self) -> bool:
        """Called ``IDLE_SWEEPS`` times per ``connections.max.idle.ms``; True when idle since then.

        Signs of life: bytes came in; the peer took bytes; a request is parked on our side.
        """
        unsent = self.unsent_bytes
        parked = bool(self.unanswered) and not self._write_paused
        if self._active or parked or unsent < self._unsent_before:
            self._quiet_sweeps = 0
        else:
            self._quiet_sweeps += 1
            self._reader.release()
        self._active = False
        self._unsent_before = unsent
        return self._quiet_sweeps >= IDLE_SWEEPS

    def serve_held(self) -> None:
        """The owner is no longer ``holding``."""
        if self._read_paused:
            self._resume_reading()

    # -- replies

    def resolve(self, slot: ReplySlot) -> None:
        """A slot was filled: send it, and what it held up, if its turn has come. For ReplySlot."""
        if self.closed:
            return
        slots = self.unanswered
        if slots[0] is not slot:
            self._refused = self._refused or isinstance(slot._reply, _Refusal)
            self._queued_bytes += _size(slot._reply)
            return
        slots.popleft()
        self._queued_bytes -= slot._request_bytes
        self._add(slot._reply)
        slot._reply = None  # whoever parked the request may hold the slot for a while yet
        while slots and slots[0]._sent:
            held = slots.popleft()
            self._queued_bytes -= held._request_bytes + _size(held._reply)
            self._add(held._reply)
            held._reply = None
        if not self._in_read:
            if self._out and not self._flushing:
                self._flushing = True
                asyncio.get_running_loop().call_soon(self._flush_soon)
            self._resume_reading_if_due()

    def _add(self, reply: ReplyBytes | _Refusal) -> None:
        if isinstance(reply, (bytes, bytearray, memoryview)):  # mostly bytes
            self._out.append(reply)
            self._out_bytes += len(reply)
        elif isinstance(reply, _Refusal):
            self.refuse(reply.reason, **reply.facts)
        elif reply is not None:
            self._out.extend(reply)
            self._out_bytes += _size(reply)

    def _flush_soon(self) -> None:
        self._flushing = False
        if self._out:
            self._flush()

    def _flush(self) -> None:
        out, size = self._out, self._out_bytes
        self._out, self._out_bytes = [], 0
        transport = self._transport
        assert transport is not None
        if len(out) == 1:
            transport.write(out[0])
        elif size <= _JOIN_MAX_BYTES:
            transport.write(b"".join(out))
        else:
            transport.writelines(out)
        if self._write_paused and not self.closed:
            unsent = self.unsent_bytes
            if unsent > self._config.write_max_bytes:
                self.abort("slow_reader", unsent_bytes=unsent)

    # -- reading and stopping

    def _serve(self, frames: Sequence[memoryview]) -> None:
        if self._owner.holding or self._refused:
            self._held = frames
            self._pause_reading()
            return
        on_frame = self._on_frame
        served = 0
        self._in_read = True
        for frame in frames:
            if on_frame(self, frame):
                self._after_replies = True
                break
            if self.closed:
                return
            served += 1
            if self._out_bytes >= _JOIN_MAX_BYTES:
                self._flush()
            if self._refused or served == FRAMES_AT_ONCE:
                break
            if (self.unanswered or self._write_paused) and self._is_full():
                break
        self._in_read = False
        if self._out:
            self._flush()
        done = served == len(frames)
        if done and self._broken is not None and self.unanswered:
            self._after_replies = True
        if not done or self._after_replies or self._refused or self._is_full():
            self._held = frames[served:]
            self._pause_reading()
            self._resume_soon()
        elif self._broken is not None:
            self.refuse("bad_frame", error=str(self._broken))

    def _is_full(self) -> bool:
        config = self._config
        return self._write_paused or (
            len(self.unanswered) >= config.queued_max_requests
            or self._queued_bytes >= config.queued_max_bytes
        )

    def _must_wait(self) -> bool:
        if self._refused or (self._after_replies and self.unanswered):
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
        """Not at once: whoever sends a reply is in the middle of something, and reading on may
        run a handler."""
        if self._read_paused and not self._resuming and not self._must_wait():
            self._resuming = True
            asyncio.get_running_loop().call_soon(self._resume_reading)

    def _resume_reading(self) -> None:
        self._resuming = False
        if self._must_wait():
            return
        self._after_replies = False
        held, self._held = self._held, ()
        self._serve(held)
        if not (self._held or self._broken or self._must_wait()):
            self._read_paused = False
            assert self._transport is not None
            self._transport.resume_reading()

    def _end(self) -> None:
        self.closed = True
        self.unanswered.clear()
        self._queued_bytes = 0
        self._out.clear()
        self._out_bytes = 0
        self._held = ()


FrameHandler: TypeAlias = Callable[[Connection, memoryview], bool | None]


def _size(reply: ReplyBytes | _Refusal) -> int:
    if reply is None or isinstance(reply, _Refusal):
        return 0
    if isinstance(reply, (bytes, bytearray, memoryview)):
        return len(reply)
    return sum(map(len, reply))
