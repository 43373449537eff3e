"""One end of a simulated connection: asyncio's Transport over two lanes."""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, TypeAlias

from minikafka.world.sim.links import Address, Lane, Links
from minikafka.world.sim.process import Process
from minikafka.world.sim.tls import SimTlsEnd

HIGH_WATER_BYTES = 64 * 1024  # asyncio's default
READ_HINT_BYTES = 64 * 1024


class Signal(Enum):
    """The segments that carry no bytes: they open, close or reset a connection."""

    SYN = "syn"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    FIN = "fin"
    RST = "rst"


Segment: TypeAlias = memoryview | Signal


def size_bytes(segment: Segment) -> int:
    return len(segment) if isinstance(segment, memoryview) else 0


class SimTransport(asyncio.Transport):
    """One end of a connection. Like a kernel, it responds to bytes for a closed end with a reset.
    A reset discards the bytes that its receiver has not read, as RFC 9293 demands; Linux still lets
    a process read them. ``abort`` resets, where Linux does so only if bytes are unread.

    Written bytes are cut into random segments and sent while the window has space. The rest stays
    in the outbox; when it exceeds the high-water mark, the protocol's ``pause_writing`` is called.

    ``peer`` is the other end, once the connection is established. When it has read bytes, the
    window of this end opens without a delay. ``retire`` is called when this end is closed.
    """

    def __init__(
        self,
        process: Process,
        links: Links,
        lane: Lane[Segment],
        addresses: tuple[Address, Address],
        retire: Callable[[], None],
        tls: SimTlsEnd | None = None,
    ) -> None:
        super().__init__({"sockname": addresses[0], "peername": addresses[1], "ssl_object": tls})
        self.peer: SimTransport | None = None
        self._process = process
        self._context = process.context()
        self._loop = process.loop
        self._links = links
        self._lane = lane
        self._retire = retire
        self._addresses = addresses
        self._name = f"{addresses[0]}>{addresses[1]}"
        self._protocol: asyncio.BufferedProtocol | None = None
        self._inbox: deque[Segment] = deque()  # bounded by the window
        self._outbox: deque[memoryview] = deque()  # bounded if the protocol obeys pause_writing
        self._outbox_bytes = 0
        self._in_flight_bytes = 0
        self._low_water = HIGH_WATER_BYTES // 4
        self._high_water = HIGH_WATER_BYTES
        self._reading = True
        self._read_scheduled = False
        self._writing_paused = False
        self._eof_pending = False
        self._was_reset = False
        self._closing = False
        self._gone = False

    def start(self, protocol: asyncio.BufferedProtocol) -> None:
        """Connect the protocol, in the context of the process."""
        self._protocol = protocol
        protocol.connection_made(self)
        if self._inbox or self._was_reset:
            self._schedule_read()

    # ------------------------------------------------------------------------------ from the wire

    def on_wire(self, segment: Segment) -> None:
        if self._gone:
            if segment is not Signal.RST:
                self._lane.send(Signal.RST)
        elif segment is Signal.RST:
            self._was_reset = True
            self._schedule_read()
        elif not self._closing:
            if self._links.wiretap is not None and not isinstance(segment, Signal):
                self._links.wiretap.arrived(self._addresses[1], self._addresses[0], len(segment))
            self._inbox.append(segment)
            self._schedule_read()

    def _schedule_read(self) -> None:
        if not self._read_scheduled and self._protocol is not None:
            self._read_scheduled = True
            self._loop.call_soon(self._read, context=self._context)

    def _read(self) -> None:
        self._read_scheduled = False
        if self._gone or not self._process.alive:
            return
        # As with epoll, a protocol that has paused reading and writes nothing sees no reset.
        if self._was_reset and (self._reading or self._outbox or self._closing):
            self._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
        elif self._inbox and self._reading and not self._closing:
            if isinstance(self._inbox[0], Signal):
                self._inbox.popleft()
                self._on_eof()
            else:
                self._read_bytes()
            if self._inbox:
                self._schedule_read()

    def _read_bytes(self) -> None:
        assert self._protocol is not None
        target = memoryview(self._protocol.get_buffer(READ_HINT_BYTES)).cast("B")
        if not target.nbytes:
            raise RuntimeError("get_buffer() returned an empty buffer")
        filled = 0
        while self._inbox and filled < target.nbytes:
            segment = self._inbox[0]
            if isinstance(segment, Signal):
                break
            taken = min(segment.nbytes, target.nbytes - filled)
            target[filled : filled + taken] = segment[:taken]
            filled += taken
            if taken == segment.nbytes:
                self._inbox.popleft()
            else:
                self._inbox[0] = segment[taken:]
        target.release()
        if self.peer is not None:
            self.peer.on_window(filled)
        self._protocol.buffer_updated(filled)

    def _on_eof(self) -> None:
        assert self._protocol is not None
        if not self._protocol.eof_received():
            self.close()

    def on_window(self, read_bytes: int) -> None:
        """Open the window by the bytes that the other end has read."""
        self._in_flight_bytes -= read_bytes
        if self._outbox and not self._gone:
            self._loop.call_soon(self._drain, context=self._context)

    def _drain(self) -> None:
        if self._gone or not self._process.alive:
            return
        self._pump()
        if self._writing_paused and self._outbox_bytes <= self._low_water and not self._gone:
            self._writing_paused = False
            assert self._protocol is not None
            self._protocol.resume_writing()

    # -------------------------------------------------------------------------------- to the wire

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data must be bytes-like, not {type(data).__name__}")
        if self._eof_pending:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or not self._process.alive:
            return
        copied = memoryview(bytes(data))
        if not copied.nbytes:
            return
        self._outbox.append(copied)
        self._outbox_bytes += copied.nbytes
        if self._was_reset:
            self._schedule_read()
        self._pump()
        self._pause_if_full()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        self.write(b"".join(list_of_data))

    def _pump(self) -> None:
        profile = self._links.profile
        while self._outbox and (window := profile.window_bytes - self._in_flight_bytes) > 0:
            piece = self._outbox.popleft()
            length = min(piece.nbytes, window)
            if length > 1 and self._links.entropy.random() < profile.split_probability:
                length = self._links.entropy.between(1, length - 1)
            if length < piece.nbytes:
                self._outbox.appendleft(piece[length:])
            self._outbox_bytes -= length
            self._in_flight_bytes += length
            self._links.trace.add_to_digest(self._name, piece[:length])
            if self._links.wiretap is not None:
                self._links.wiretap.sent(*self._addresses, piece[:length])
            self._lane.send(piece[:length])
        if not self._outbox and (self._closing or self._eof_pending):
            self._lane.send(Signal.FIN)
            if self._closing:
                self._lose(None)

    def _pause_if_full(self) -> None:
        if self._outbox_bytes > self._high_water and not self._writing_paused:
            self._writing_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    # -------------------------------------------------------------------------------------- ends

    def close(self) -> None:
        if self._closing or not self._process.alive:
            return
        self._closing = True
        if self._inbox:  # a kernel resets a connection that is closed with bytes unread
            self._lane.send(Signal.RST)
            self._lose(None)
        elif not self._outbox:
            if not self._eof_pending:
                self._lane.send(Signal.FIN)
            self._lose(None)

    def abort(self) -> None:
        if not self._gone and self._process.alive:
            self._lane.send(Signal.RST)
            self._lose(None)

    def give_up(self) -> None:
        """Fail with ETIMEDOUT: the lane has held the bytes for too long."""
        if not self._gone:
            self._lane.drop()
            self._lose(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))

    def end_with_process(self, farewell: Signal | None) -> None:
        """End because the process has died; its kernel sends ``farewell`` (None: it is dead, too).

        The protocol is not called any more.
        """
        if not self._gone:
            if farewell is not None:
                self._lane.send(farewell)
            self._retire_end()

    def _lose(self, error: OSError | None) -> None:
        if self._gone:
            return
        self._retire_end()
        self._loop.call_soon(self._connection_lost, error, context=self._context)

    def _retire_end(self) -> None:
        self._gone = self._closing = True
        self._inbox.clear()
        self._outbox.clear()
        self._outbox_bytes = 0
        self._retire()

    def _connection_lost(self, error: OSError | None) -> None:
        if self._process.alive and self._protocol is not None:
            self._protocol.connection_lost(error)

    # ------------------------------------------------------------------------ the rest of asyncio

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading and not self._closing:
            self._reading = True
            self._schedule_read()

    def write_eof(self) -> None:
        if not self._eof_pending and not self._closing and self._process.alive:
            self._eof_pending = True
            if not self._outbox:
                self._lane.send(Signal.FIN)

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return self._outbox_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_water, self._high_water

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high}) must be >= low ({low}) must be >= 0")
        self._high_water, self._low_water = high, low
        self._pause_if_full()

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.BufferedProtocol)
        self._protocol = protocol
